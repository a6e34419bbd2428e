/* The machine and the ranks' nodes: rank 0 reads the file, all get it at MPI_Init. */
#include "topology.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char hopbyte_tool[] = "topology";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hopbyte_coords machine;
static enum { UNREAD, READ, UNREADABLE } state;
static int *node_of; /* by rank; NULL before MPI_Init */
static int ranks;
static bool running;

static const char *file_named(void)
{
    const char *path = getenv("HOPBYTE_COORDS_FILE");
    return path && *path ? path : NULL;
}

const struct hopbyte_coords *hopbyte_machine(void)
{
    pthread_mutex_lock(&lock);
    if (state == UNREAD) {
        const char *path = file_named();
        char error[COORDS_ERROR] = "no coordinates: HOPBYTE_COORDS_FILE is not set; hopbyte fabric convert FABRIC --to "
                                   "coords writes such a file";
        char *text = path ? hopbyte_coords_load(path, error) : NULL;
        state = text && hopbyte_coords_parse(text, path, &machine, error) ? READ : UNREADABLE;
        if (state != READ)
            hopbyte_say("%s", error);
        free(text);
    }
    pthread_mutex_unlock(&lock);
    return state == READ ? &machine : NULL;
}

bool hopbyte_mpi_running(void)
{
    return running;
}

/* A number of the first variable that is set. */
static int environment(const char *const *names, int fallback)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        char *end;
        long value = text ? strtol(text, &end, 10) : -1;
        if (text && *text && !*end && value >= 0 && value < INT32_MAX)
            return (int)value;
    }
    return fallback;
}

int hopbyte_topology_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", NULL};
    int rank = 0;
    if (!running)
        return environment(names, 0);
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    return rank;
}

int hopbyte_topology_size(void)
{
    static const char *const names[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
    return running ? ranks : environment(names, 1);
}

int hopbyte_topology_node(int rank, bool *known)
{
    const struct hopbyte_coords *m = hopbyte_machine();
    char host[256];
    *known = true;
    if (!m)
        return -1;
    if (node_of)
        return rank >= 0 && rank < ranks ? node_of[rank] : -1;
    int own = hopbyte_topology_rank();
    hopbyte_host_read(host, sizeof host);
    int node = hopbyte_coords_find(m, rank, rank == own ? host : "");
    *known = node >= 0 || rank == own;
    return node;
}

bool hopbyte_topology_three(const int *from, uint16_t to[3])
{
    const struct hopbyte_coords *m = hopbyte_machine();
    static bool told;
    if (m && m->dimensions <= 3) {
        for (int d = 0; d < 3; d++)
            to[d] = d < m->dimensions ? (uint16_t)from[d] : 0;
        return true;
    }
    if (m && !told)
        hopbyte_say("the machine has %d dimensions, but Cray's calls give three: they fail", m->dimensions);
    told = true;
    return false;
}

/* --- MPI --- */

/* The file's text on every rank; NULL where rank 0 cannot read it. */
static char *text_spread(const char *path, int rank)
{
    char error[COORDS_ERROR], *text = rank == 0 ? hopbyte_coords_load(path, error) : NULL;
    int bytes = text ? (int)strlen(text) + 1 : 0;
    if (rank == 0 && !text)
        hopbyte_say("%s", error);
    NEXT(Bcast)(&bytes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (bytes && rank != 0)
        text = malloc((size_t)bytes);
    int fine = !bytes || text, all = 0;
    NEXT(Allreduce)(&fine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (bytes && all)
        NEXT(Bcast)(text, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (!all) {
        free(text);
        text = NULL;
    }
    return text;
}

static void nodes_say(int rank)
{
    int absent = 0, first = -1;
    for (int r = ranks - 1; r >= 0; r--)
        if (node_of[r] < 0) {
            absent++;
            first = r;
        }
    if (absent && rank == 0)
        hopbyte_say("%d of %d ranks run on nodes without a line in %s (first: rank %d); calls about them fail", absent,
                    ranks, file_named(), first);
}

static void topology_begin(void)
{
    int rank;
    char host[256];
    running = true;
    NEXT(Comm_size)(MPI_COMM_WORLD, &ranks);
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    int named = file_named() != NULL;
    NEXT(Bcast)(&named, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!named)
        return;
    char *text = text_spread(rank == 0 ? file_named() : "", rank);
    pthread_mutex_lock(&lock);
    hopbyte_coords_free(&machine);
    state = UNREADABLE;
    if (text) {
        /* All have the same text, so rank 0 alone names what is wrong with it. */
        char error[COORDS_ERROR];
        state = hopbyte_coords_parse(text, rank == 0 ? file_named() : "", &machine, error) ? READ : UNREADABLE;
        if (rank == 0 && state != READ)
            hopbyte_say("%s", error);
    }
    pthread_mutex_unlock(&lock);
    free(text);
    hopbyte_host_read(host, sizeof host);
    int mine = state == READ ? hopbyte_coords_find(&machine, rank, host) : -1;
    int *all = calloc((size_t)ranks, sizeof *all), fine = all != NULL, everybody = 0;
    NEXT(Allreduce)(&fine, &everybody, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!everybody) {
        free(all);
        return;
    }
    NEXT(Allgather)(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    node_of = all;
    if (state == READ)
        nodes_say(rank);
}

HOPBYTE_DEFINE(int, Init, (int *argc, char ***argv))
{
    int rc = NEXT(Init)(argc, argv);
    if (rc == MPI_SUCCESS)
        topology_begin();
    return rc;
}

HOPBYTE_DEFINE(int, Init_thread, (int *argc, char ***argv, int required, int *provided))
{
    int rc = NEXT(Init_thread)(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        topology_begin();
    return rc;
}

HOPBYTE_DEFINE(int, Finalize, (void))
{
    running = false;
    return NEXT(Finalize)();
}
