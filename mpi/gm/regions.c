/* Counters of a program's regions without changing the program: preload the library and set HOPBYTE_GM_REGIONS.
 *   job      one region, from MPI_Init to MPI_Finalize
 *   all      that, and one for each name given to hopbyte_region_begin and each level >= 2 given to MPI_Pcontrol
 * A region's values are sums over all its entries, inner regions included; all are printed at MPI_Finalize. */
#include "gm.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { REGIONS_MAX = 64, DEPTH_MAX = 32, REGION_NAME_BYTES = 128 };

struct gm_region {
    char name[REGION_NAME_BYTES];
    uint64_t entries;
    struct gm_cell **sums;   /* by domain: running total and breaks of all entries */
    struct gm_cell **starts; /* by domain: totals at the start of the current entry; NULL outside */
};

static hopbyte_gm_state_t job;
static int stack[DEPTH_MAX], depth, control = -1;
static bool all_regions;

static size_t cells_of(const struct gm_domain *d)
{
    return (size_t)d->link_count * GM_COLUMNS;
}

static void cells_free(const struct hopbyte_gm *gm, struct gm_cell **cells)
{
    for (int i = 0; cells && i < gm->domain_count; i++)
        gm_free(cells[i]);
    gm_free(cells);
}

static struct gm_cell **cells_make(const struct hopbyte_gm *gm)
{
    struct gm_cell **cells = gm_alloc((size_t)gm->domain_count + 1, sizeof *cells);
    for (int i = 0; cells && i < gm->domain_count; i++)
        if (!(cells[i] = gm_alloc(cells_of(&gm->domains[i]) + 1, sizeof **cells))) {
            cells_free(gm, cells);
            return NULL;
        }
    return cells;
}

void gm_regions_free(struct hopbyte_gm *gm)
{
    for (int i = 0; i < gm->region_count; i++) {
        cells_free(gm, gm->regions[i].sums);
        cells_free(gm, gm->regions[i].starts);
    }
    gm_free(gm->regions);
}

static struct gm_region *region_find(struct hopbyte_gm *gm, const char *name)
{
    for (int i = 0; i < gm->region_count; i++)
        if (strncmp(gm->regions[i].name, name, REGION_NAME_BYTES - 1) == 0)
            return &gm->regions[i];
    return NULL;
}

static struct gm_region *region_make(struct hopbyte_gm *gm, const char *name)
{
    struct gm_region *region = region_find(gm, name);
    if (region || gm->region_count == REGIONS_MAX)
        return region;
    if (!gm->regions && !(gm->regions = gm_alloc(REGIONS_MAX, sizeof *gm->regions)))
        return NULL;
    region = &gm->regions[gm->region_count];
    region->sums = cells_make(gm);
    if (!region->sums)
        return NULL;
    snprintf(region->name, sizeof region->name, "%s", name);
    for (char *c = region->name; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    gm->region_count++;
    return region;
}

static void region_enter(struct hopbyte_gm *gm, struct gm_region *region)
{
    region->entries++;
    if (region->starts) /* recursive entry: the outer one counts */
        return;
    region->starts = cells_make(gm);
    for (int i = 0; region->starts && i < gm->domain_count; i++)
        memcpy(region->starts[i], gm->domains[i].now, cells_of(&gm->domains[i]) * sizeof(struct gm_cell));
}

static void region_leave(struct hopbyte_gm *gm, struct gm_region *region)
{
    for (int i = 0; region->starts && i < gm->domain_count; i++)
        for (size_t c = 0; c < cells_of(&gm->domains[i]); c++) {
            const struct gm_cell *from = &region->starts[i][c], *to = &gm->domains[i].now[c];
            struct gm_cell *sum = &region->sums[i][c];
            sum->total += to->total - from->total;
            sum->breaks += to->breaks - from->breaks;
            if (to->breaks != from->breaks)
                sum->why = to->why;
        }
    cells_free(gm, region->starts);
    region->starts = NULL;
}

static void sample(void)
{
    hopbyte_depth++;
    hopbyte_gm_read_counters(MPI_COMM_WORLD, &job);
    hopbyte_depth--;
}

static void region_begin(const char *name)
{
    sample();
    struct gm_region *region = region_make(job.gm, name);
    if (!region)
        hopbyte_say("region %s is left out: at most %d are kept", name, REGIONS_MAX);
    if (depth < DEPTH_MAX)
        stack[depth] = region ? (int)(region - job.gm->regions) : -1;
    depth++;
    if (region)
        region_enter(job.gm, region);
}

static void region_end(void)
{
    if (depth <= 0)
        return;
    sample();
    depth--;
    if (depth < DEPTH_MAX && stack[depth] >= 0)
        region_leave(job.gm, &job.gm->regions[stack[depth]]);
}

static void sum_difference(const struct hopbyte_gm *gm, int domain, const void *name, struct gm_delta *out)
{
    const struct gm_region *region = region_find((struct hopbyte_gm *)(uintptr_t)gm, name);
    for (size_t i = 0; i < cells_of(&gm->domains[domain]); i++) {
        const struct gm_cell *sum = region ? &region->sums[domain][i] : NULL;
        enum gm_why why = !sum ? GM_UNREAD : sum->breaks ? (enum gm_why)sum->why : GM_FINE;
        out[i] = (struct gm_delta){why == GM_FINE ? sum->total : 0, (uint8_t)why};
    }
}

/* Rank 0's regions in its order; a leader that never entered one contributes nothing to it. */
static void regions_print(struct hopbyte_gm *gm)
{
    int count = gm->region_count;
    if (gm->leaders == MPI_COMM_NULL)
        return;
    NEXT(Bcast)(&count, 1, MPI_INT, 0, gm->leaders);
    for (int i = 0; i < count; i++) {
        char name[REGION_NAME_BYTES] = "";
        if (gm->rank == 0)
            memcpy(name, gm->regions[i].name, sizeof name);
        NEXT(Bcast)(name, sizeof name, MPI_CHAR, 0, gm->leaders);
        gm_print(gm, name, sum_difference, name);
    }
}

static void job_begin(void)
{
    const char *mode = getenv("HOPBYTE_GM_REGIONS");
    if (!mode || !*mode || strcmp(mode, "0") == 0)
        return;
    all_regions = strcmp(mode, "all") == 0;
    if (!all_regions && strcmp(mode, "job") != 0) {
        hopbyte_say("HOPBYTE_GM_REGIONS=%s: expected job or all; nothing is counted", mode);
        return;
    }
    hopbyte_depth++;
    if (hopbyte_gm_init_state(MPI_COMM_WORLD, &job) == 0)
        region_begin("job");
    hopbyte_depth--;
}

static void job_end(void)
{
    if (!job.gm)
        return;
    hopbyte_depth++;
    while (depth)
        region_end();
    regions_print(job.gm);
    hopbyte_gm_free_state(MPI_COMM_WORLD, &job);
    hopbyte_depth--;
}

HOPBYTE_DEFINE(int, Init, (int *argc, char ***argv))
{
    hopbyte_depth++;
    int rc = NEXT(Init)(argc, argv);
    hopbyte_depth--;
    if (rc == MPI_SUCCESS && !hopbyte_depth)
        job_begin();
    return rc;
}

HOPBYTE_DEFINE(int, Init_thread, (int *argc, char ***argv, int required, int *provided))
{
    hopbyte_depth++;
    int rc = NEXT(Init_thread)(argc, argv, required, provided);
    hopbyte_depth--;
    if (rc == MPI_SUCCESS && !hopbyte_depth)
        job_begin();
    return rc;
}

HOPBYTE_DEFINE(int, Finalize, (void))
{
    job_end();
    hopbyte_depth++;
    int rc = NEXT(Finalize)();
    hopbyte_depth--;
    return rc;
}

/* Level N >= 2 opens region pcontrol-N and closes that of another level; 1 and negative levels close it. */
static void control_switch(int level)
{
    char name[32];
    if (control >= 0 && depth == control + 1) {
        region_end();
        control = -1;
    }
    if (level >= 2 && control < 0) {
        snprintf(name, sizeof name, "pcontrol-%d", level);
        control = depth;
        region_begin(name);
    }
}

HOPBYTE_DEFINE(int, Pcontrol, (const int level, ...))
{
    const char *style = getenv("HOPBYTE_RECORD_PCONTROL"), *name = NULL;
    if (style && strcmp(style, "ipm") == 0 && (level == 1 || level == -1)) { /* also for a later preload */
        va_list list;
        va_start(list, level);
        name = va_arg(list, const char *);
        va_end(list);
    }
    if (job.gm && all_regions && level != 0)
        control_switch(level);
    return NEXT(Pcontrol)(level, name);
}

__attribute__((visibility("default"))) void hopbyte_region_begin(const char *name)
{
    void (*next)(const char *) = (void (*)(const char *))dlsym(RTLD_NEXT, "hopbyte_region_begin");
    if (job.gm && all_regions)
        region_begin(name ? name : "");
    if (next)
        next(name);
}

__attribute__((visibility("default"))) void hopbyte_region_end(void)
{
    void (*next)(void) = (void (*)(void))dlsym(RTLD_NEXT, "hopbyte_region_end");
    if (job.gm && all_regions && depth > 1)
        region_end();
    if (next)
        next();
}
