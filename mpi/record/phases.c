/* Phases: the application's innermost region. Regions come from hopbyte_region_begin/end and MPI_Pcontrol. */
#include "fold.h"
#include "record.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, NAME_MAX_BYTES = 1024 };

static char **names;
static struct hopbyte_phase_time *times;
static int phase_count, phase_room;

static char path[NAME_MAX_BYTES];       /* current phase */
static size_t path_lengths[DEPTH_MAX];  /* length to truncate to at the end of each region */
static int depth;                       /* may exceed DEPTH_MAX: deeper regions count in the last one kept */
static int control;                     /* phase number set by MPI_Pcontrol, 0 for none */

static struct hopbyte_fold order; /* phases as they were entered */
enum { ORDER_MAX = 1 << 14 };     /* places in it */

static int phase_append(const char *name)
{
    if (phase_count == phase_room) {
        int room = phase_room ? 2 * phase_room : 16;
        char **more = realloc(names, (size_t)room * sizeof *names);
        if (!more)
            return phase_count - 1;
        names = more;
        phase_room = room;
    }
    char *copy = strdup(name);
    if (!copy)
        return phase_count - 1;
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' '; /* the file is split at tabs and newlines */
    names[phase_count++] = copy;
    hopbyte_file_define();
    return phase_count - 1;
}

static int phase_find(const char *name)
{
    for (int i = 0; i < phase_count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    if (phase_count < PHASES_MAX - 1)
        return phase_append(name);
    if (phase_count == PHASES_MAX - 1) {
        hopbyte_say("more than %d phases; the rest are counted together as \"(more)\"", PHASES_MAX - 1);
        return phase_append("(more)");
    }
    return PHASES_MAX - 1;
}

static void phase_enter(void)
{
    double now = hopbyte_seconds_now();
    hopbyte_lock();
    int to = phase_find(*path ? path : "main");
    times[hopbyte_recorder.phase].seconds += now - hopbyte_live->since;
    times[to].entries++;
    if (order.nodes < ORDER_MAX)
        hopbyte_fold_append(&order, (uint32_t)to, 0, 0, 0);
    else
        order.failed = true;
    hopbyte_live->since = now;
    hopbyte_live->phase = (uint64_t)to;
    __atomic_store_n(&hopbyte_recorder.phase, (uint32_t)to, __ATOMIC_RELAXED);
    hopbyte_unlock();
}

bool hopbyte_phases_init(void)
{
    times = hopbyte_live_take(PHASES_MAX * sizeof *times, &hopbyte_live->times);
    if (!times)
        times = calloc(PHASES_MAX, sizeof *times);
    if (!times)
        return false;
    hopbyte_live->since = hopbyte_seconds_now();
    phase_enter();
    return phase_count > 0;
}

void hopbyte_phases_leave(void)
{
    phase_count = 0;
}

static void order_visit(void *out, const struct hopbyte_fold_node *phase, const char *loop, bool end)
{
    if (phase)
        fprintf(out, "%u ", phase->event);
    else if (end)
        fputs(") ", out);
    else
        fprintf(out, "(%s: ", loop);
}

char *hopbyte_phase_order(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = order.failed ? NULL : open_memstream(&text, &size);
    if (!out)
        return NULL;
    hopbyte_fold_walk(&order, order_visit, out);
    fclose(out);
    if (size)
        text[size - 1] = 0;
    return text;
}

int hopbyte_phase_count(void)
{
    return phase_count;
}

const char *hopbyte_phase_name(int phase)
{
    return names[phase];
}

double hopbyte_phase_seconds(int phase, uint64_t *entries)
{
    double running = (uint32_t)phase == hopbyte_recorder.phase ? hopbyte_seconds_now() - hopbyte_live->since : 0;
    *entries = times[phase].entries;
    return times[phase].seconds + running;
}

static void path_push(const char *name)
{
    size_t length = strlen(path), extra = strlen(name);
    if (depth < DEPTH_MAX) {
        path_lengths[depth] = length;
        if (length + 1 + extra < sizeof path) {
            if (length)
                path[length++] = '/';
            memcpy(path + length, name, extra + 1);
        }
    }
    depth++;
}

static void path_pop(void)
{
    depth--;
    if (depth < DEPTH_MAX)
        path[path_lengths[depth]] = 0;
}

static void region_begin(const char *name)
{
    path_push(name);
    phase_enter();
}

static void region_end(void)
{
    if (depth == 0) {
        hopbyte_say("end of a region without its begin (rank %d); ignored", hopbyte_recorder.rank);
        return;
    }
    path_pop();
    phase_enter();
}

/* Level N >= 2 starts phase pcontrol-N, which lasts until another level or a negative one. */
static void control_choose(int level)
{
    if (depth > 0 && !control) {
        hopbyte_say("MPI_Pcontrol(%d) inside a region is ignored", level);
        return;
    }
    char name[32];
    snprintf(name, sizeof name, "pcontrol-%d", level);
    if (control)
        path_pop();
    control = level > 1 ? level : 0;
    if (control)
        path_push(name);
    phase_enter();
}

void hopbyte_phases_control(int level, const char *name)
{
    if (name && level == 1)
        region_begin(name);
    else if (name && level == -1)
        region_end();
    else if (level == 0 || level == 1)
        __atomic_store_n(&hopbyte_recorder.on, level == 1, __ATOMIC_RELAXED);
    if (!name && level != 0 && (control || level > 1))
        control_choose(level);
}

typedef void (*region_begin_function)(const char *);
typedef void (*region_end_function)(void);

/* Other preloaded hopbyte libraries define these calls too: each passes them on. */
__attribute__((visibility("default"))) void hopbyte_region_begin(const char *name)
{
    region_begin_function next = (region_begin_function)dlsym(RTLD_NEXT, "hopbyte_region_begin");
    if (phase_count)
        region_begin(name ? name : "");
    if (next)
        next(name);
}

__attribute__((visibility("default"))) void hopbyte_region_end(void)
{
    region_end_function next = (region_end_function)dlsym(RTLD_NEXT, "hopbyte_region_end");
    if (phase_count)
        region_end();
    if (next)
        next();
}
