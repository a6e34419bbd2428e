/* The calls of hopbyte_gm.h and gemini.h. */
#include "gm.h"

#include "../include/gemini.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

const char hopbyte_tool[] = "gm";

/* All ranks get the worst status of any rank. */
static int status_agree(MPI_Comm comm, int status)
{
    int worst = -1;
    NEXT(Allreduce)(&status, &worst, 1, MPI_INT, MPI_MIN, comm);
    return worst;
}

/* HOPBYTE_GM_SOURCE, or detection: a Cray's node name or a replay file, InfiniBand, else Linux. */
static int source_choose(enum gm_source *source)
{
    const char *name = getenv("HOPBYTE_GM_SOURCE");
    if (name && *name) {
        for (*source = 0; *source < GM_SOURCES; (*source)++)
            if (strcmp(name, gm_source_facts[*source].name) == 0)
                return 0;
        hopbyte_say("HOPBYTE_GM_SOURCE=%s: expected gpcd, infiniband, linux or cxi", name);
        return -1;
    }
    const char *replay = getenv("HOPBYTE_GPCD_FILE");
    char(*devices)[GM_NAME_BYTES] = NULL;
    int count = 0;
    if ((replay && *replay) || getenv("HOPBYTE_GM_DOMAINS")) {
        *source = GM_GPCD;
        return 0;
    }
    *source = GM_CXI;
    gm_sysfs_domains(GM_CXI, "", &devices, &count);
    if (!count) {
        *source = GM_INFINIBAND;
        gm_sysfs_domains(GM_INFINIBAND, "", &devices, &count);
    }
    if (!count)
        *source = GM_LINUX;
    gm_free(devices);
    return 0;
}

/* Hosts may have different sources; all use rank 0's choice. */
static int source_agree(MPI_Comm comm, enum gm_source *source)
{
    int rank, words[2] = {-1, 0};
    NEXT(Comm_rank)(comm, &rank);
    if (rank == 0) {
        words[0] = source_choose(source);
        words[1] = (int)*source;
    }
    NEXT(Bcast)(words, 2, MPI_INT, 0, comm);
    *source = (enum gm_source)words[1];
    return words[0];
}

static int domains_list(struct hopbyte_gm *gm, char (**ids)[GM_NAME_BYTES], int *count)
{
    char host[256];
    hopbyte_host_read(host, sizeof host);
    if (gm->source == GM_GPCD)
        return gm_tiles_domains(gm->rank, host, ids, count);
    return gm_sysfs_domains(gm->source, host, ids, count);
}

static int domains_lead(struct hopbyte_gm *gm, MPI_Comm comm)
{
    char(*ids)[GM_NAME_BYTES] = NULL;
    int count = 0, all = 0, status = status_agree(comm, domains_list(gm, &ids, &count));
    if (status == 0)
        status = status_agree(comm, gm_leaders_choose(comm, ids, &count));
    if (status == 0) {
        NEXT(Comm_split)(comm, count || gm->rank == 0 ? 0 : MPI_UNDEFINED, gm->rank, &gm->leaders);
        gm->domains = gm_alloc((size_t)count + 1, sizeof *gm->domains);
        status = gm->domains ? 0 : -1;
        for (int i = 0; gm->domains && i < count; i++)
            memcpy(gm->domains[i].id, ids[i], GM_NAME_BYTES);
        gm->domain_count = gm->domains ? count : 0;
        NEXT(Allreduce)(&count, &all, 1, MPI_INT, MPI_SUM, comm);
        if (status == 0 && all == 0) {
            if (gm->rank == 0)
                hopbyte_say("no rank sees a %s counter", gm_source_facts[gm->source].name);
            status = -1;
        }
    }
    gm_free(ids);
    return status_agree(comm, status);
}

static int domains_open(struct hopbyte_gm *gm)
{
    if (gm->leaders == MPI_COMM_NULL)
        return 0;
    return gm->source == GM_GPCD ? gm_tiles_open(gm) : gm_sysfs_open(gm);
}

static void say_what_was_found(const struct hopbyte_gm *gm, MPI_Comm comm)
{
    int all, ranks, leaders, leads = gm->domain_count > 0;
    NEXT(Reduce)(&gm->domain_count, &all, 1, MPI_INT, MPI_SUM, 0, comm);
    NEXT(Reduce)(&leads, &leaders, 1, MPI_INT, MPI_SUM, 0, comm);
    NEXT(Comm_size)(comm, &ranks);
    if (gm->rank == 0)
        hopbyte_say("%s: %d domains read by %d of %d ranks", gm_source_facts[gm->source].name, all, leaders, ranks);
}

static bool env_true(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

static void gm_release(struct hopbyte_gm *gm)
{
    gm_pvars_remove(gm);
    for (int i = 0; i < gm->domain_count; i++)
        gm_domain_free(&gm->domains[i]);
    gm_free(gm->domains);
    gm_regions_free(gm);
    gm_tiles_close(gm);
    if (gm->leaders != MPI_COMM_NULL)
        NEXT(Comm_free)(&gm->leaders);
    gm_free(gm);
}

EXPORT int hopbyte_gm_init_state(MPI_Comm comm, hopbyte_gm_state_t *state)
{
    struct hopbyte_gm *gm = gm_alloc(1, sizeof *gm);
    state->gm = NULL;
    if (status_agree(comm, gm ? 0 : -1) != 0) {
        gm_free(gm);
        return -1;
    }
    gm->leaders = MPI_COMM_NULL;
    gm->sample_room = (int)hopbyte_env_number("HOPBYTE_GM_SAMPLES", 8, 2);
    gm->unwrap = env_true("HOPBYTE_GM_UNWRAP");
    gm->titles = env_true("HOPBYTE_GM_TITLES");
    gm->verbose = env_true("HOPBYTE_GM_VERBOSE");
    NEXT(Comm_rank)(comm, &gm->rank);
    int status = source_agree(comm, &gm->source);
    if (status == 0)
        status = domains_lead(gm, comm);
    if (status == 0)
        status = status_agree(comm, domains_open(gm));
    if (status != 0) {
        gm_release(gm);
        return -1;
    }
    if (gm->verbose)
        say_what_was_found(gm, comm);
    gm_pvars_add(gm);
    state->gm = gm;
    return 0;
}

static struct hopbyte_gm *state_gm(const hopbyte_gm_state_t *state)
{
    if (!state || !state->gm) {
        hopbyte_say("the state was not initialised");
        return NULL;
    }
    return state->gm;
}

EXPORT int hopbyte_gm_read_counters(MPI_Comm comm, hopbyte_gm_state_t *state)
{
    struct hopbyte_gm *gm = state_gm(state);
    (void)comm;
    if (!gm)
        return -1;
    for (int i = 0; i < gm->domain_count; i++)
        gm_domain_read(gm, &gm->domains[i]);
    gm->sample_count++;
    return 0;
}

struct window {
    int older, newer;
};

static void window_difference(const struct hopbyte_gm *gm, int domain, const void *context, struct gm_delta *out)
{
    const struct window *w = context;
    gm_domain_between(gm, &gm->domains[domain], w->older, w->newer, out);
}

EXPORT int hopbyte_gm_print_between(MPI_Comm comm, hopbyte_gm_state_t *state, int older, int newer)
{
    struct hopbyte_gm *gm = state_gm(state);
    if (!gm)
        return -1;
    if (newer < 0 || older <= newer || older >= gm->sample_room || (uint64_t)older >= gm->sample_count) {
        if (gm->rank == 0)
            hopbyte_say("cannot print between samples %d and %d back: %" PRIu64 " taken, the last %d kept", older,
                        newer, gm->sample_count, gm->sample_room);
        return -1;
    }
    int status = gm_print(gm, NULL, window_difference, &(struct window){older, newer});
    NEXT(Bcast)(&status, 1, MPI_INT, 0, comm);
    return status;
}

EXPORT int hopbyte_gm_print_counters(MPI_Comm comm, hopbyte_gm_state_t *state)
{
    return hopbyte_gm_print_between(comm, state, 1, 0);
}

EXPORT int hopbyte_gm_free_state(MPI_Comm comm, hopbyte_gm_state_t *state)
{
    struct hopbyte_gm *gm = state_gm(state);
    (void)comm;
    if (!gm)
        return -1;
    gm_release(gm);
    state->gm = NULL;
    return 0;
}

EXPORT int hopbyte_gm_is_leader(const hopbyte_gm_state_t *state)
{
    return state && state->gm && state->gm->domain_count > 0;
}

EXPORT int hopbyte_gm_domain_count(const hopbyte_gm_state_t *state)
{
    return state && state->gm ? state->gm->domain_count : 0;
}

EXPORT int gemini_init_state(MPI_Comm comm, gemini_state_t *state)
{
    return hopbyte_gm_init_state(comm, state);
}

EXPORT int gemini_read_counters(MPI_Comm comm, gemini_state_t *state)
{
    return hopbyte_gm_read_counters(comm, state);
}

EXPORT int gemini_print_counters(MPI_Comm comm, gemini_state_t *state)
{
    return hopbyte_gm_print_counters(comm, state);
}
