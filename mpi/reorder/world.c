/* The reordered world: after MPI_Init, MPI_COMM_WORLD is replaced by a communicator of the same processes. */
#include "reorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char hopbyte_tool[] = "reorder";

struct hopbyte_world hopbyte_world;

static int *world_roles; /* role[launch rank], kept for the sessions' process set */
static int world_size;

enum { EXIT_INPUT = 2, SECONDS_TO_DIE = 30 };

/* The first rank has printed the reason; it ends the job while the others wait. Launchers discard output still in
 * their pipes when a rank aborts (Hydra does), hence the short delay. */
static void job_refuse(int rank)
{
    if (rank == 0) {
        sleep(1);
        NEXT(Abort)(MPI_COMM_WORLD, EXIT_INPUT);
    }
    sleep(SECONDS_TO_DIE);
    _exit(EXIT_INPUT);
}

static void display(const struct hopbyte_nodes *n, const int *role)
{
    const char *wanted = getenv("MPICH_RANK_REORDER_DISPLAY");
    int *at = wanted && *wanted && strcmp(wanted, "0") != 0 ? calloc((size_t)n->ranks, sizeof *at) : NULL;
    for (int r = 0; at && r < n->ranks; r++)
        at[role[r]] = r;
    for (int v = 0; at && v < n->ranks; v++)
        hopbyte_say("rank %d is on %s (launched as %d)", v, n->names[n->node[at[v]]], at[v]);
    free(at);
}

static void delivered_say(const struct hopbyte_nodes *n, const int *role)
{
    int moved = 0;
    for (int r = 0; r < n->ranks; r++)
        moved += role[r] != r;
    if (hopbyte_world.quiet)
        return;
    if (moved)
        hopbyte_say("delivered by substituting MPI_COMM_WORLD: %d of %d ranks on %d nodes have a new number (the "
                    "environment keeps the launcher's)",
                    moved, n->ranks, n->nodes);
    else
        hopbyte_say("delivered: the launcher's order of %d ranks on %d nodes is the requested one", n->ranks, n->nodes);
}

static bool asked(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

/* The new rank of every process, on every process; NULL if no order is requested. */
static int *roles_make(void)
{
    struct hopbyte_nodes nodes;
    int rank, size, verdict = -1;
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    NEXT(Comm_size)(MPI_COMM_WORLD, &size);
    int *role = calloc((size_t)size, sizeof *role);
    if (hopbyte_nodes_learn(MPI_COMM_WORLD, &nodes) && rank == 0 && role)
        verdict = hopbyte_plan_make(&nodes, role);
    if (verdict < 0 && asked("HOPBYTE_REORDER_OPTIONAL")) {
        if (rank == 0)
            hopbyte_say("the launcher's order is kept");
        verdict = 0;
    }
    NEXT(Bcast)(&verdict, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (verdict < 0 || !role)
        job_refuse(rank);
    if (verdict > 0) {
        NEXT(Bcast)(role, size, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            delivered_say(&nodes, role);
            display(&nodes, role);
        }
    }
    hopbyte_nodes_free(&nodes);
    if (verdict == 0) {
        free(role);
        role = NULL;
    }
    world_size = size;
    return role;
}

static bool roles_move(const int *role)
{
    for (int r = 0; role && r < world_size; r++)
        if (role[r] != r)
            return true;
    return false;
}

/* The replacement of the world from here on. */
static void world_replace(const int *role)
{
    int rank = hopbyte_world.launch_rank, now;
    NEXT(Comm_split)(MPI_COMM_WORLD, 0, role[rank], &hopbyte_world.comm);
    NEXT(Comm_set_name)(hopbyte_world.comm, "MPI_COMM_WORLD");
    NEXT(Comm_rank)(hopbyte_world.comm, &now);
    if (now != role[rank]) {
        hopbyte_say("launch rank %d became %d instead of %d", rank, now, role[rank]);
        NEXT(Abort)(MPI_COMM_WORLD, EXIT_INPUT);
    }
    hopbyte_world.on = true;
}

static void world_begin(void)
{
    MPI_Comm parent = MPI_COMM_NULL;
    hopbyte_world.quiet = asked("HOPBYTE_REORDER_QUIET");
    NEXT(Comm_rank)(MPI_COMM_WORLD, &hopbyte_world.launch_rank);
    NEXT(Comm_get_parent)(&parent);
    if (parent != MPI_COMM_NULL) /* a map applies to the job, not to processes it spawns */
        return;
    world_roles = roles_make();
    if (roles_move(world_roles))
        world_replace(world_roles);
}

HOPBYTE_DEFINE(int, Init, (int *argc, char ***argv))
{
    int rc = NEXT(Init)(argc, argv);
    if (rc == MPI_SUCCESS)
        world_begin();
    return rc;
}

HOPBYTE_DEFINE(int, Init_thread, (int *argc, char ***argv, int required, int *provided))
{
    int rc = NEXT(Init_thread)(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        world_begin();
    return rc;
}

HOPBYTE_DEFINE(int, Finalize, (void))
{
    if (hopbyte_world.on) {
        hopbyte_world.on = false;
        NEXT(Comm_free)(&hopbyte_world.comm);
    }
    return NEXT(Finalize)();
}

/* The program's attributes are on the replacement; the library's may be on the real world only. */
HOPBYTE_DEFINE(int, Comm_get_attr, (MPI_Comm comm, int keyval, void *value, int *flag))
{
    MPI_Comm asked_of = hopbyte_world_of(comm);
    int rc = NEXT(Comm_get_attr)(asked_of, keyval, value, flag);
    if (rc == MPI_SUCCESS && asked_of != comm && !*flag)
        rc = NEXT(Comm_get_attr)(comm, keyval, value, flag);
    return rc;
}

/* Errors of calls without a communicator are raised on the real world. */
HOPBYTE_DEFINE(int, Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler errhandler))
{
    MPI_Comm also = hopbyte_world_of(comm);
    int rc = NEXT(Comm_set_errhandler)(comm, errhandler);
    if (rc == MPI_SUCCESS && also != comm)
        rc = NEXT(Comm_set_errhandler)(also, errhandler);
    return rc;
}

/* The names of MPI 1, still exported by libraries although their headers no longer declare them. */
#undef MPI_Attr_get
#undef MPI_Errhandler_set
HOPBYTE_DEFINE(int, Attr_get, (MPI_Comm comm, int keyval, void *value, int *flag))
{
    return PMPI_Comm_get_attr(comm, keyval, value, flag);
}

HOPBYTE_DEFINE(int, Errhandler_set, (MPI_Comm comm, MPI_Errhandler errhandler))
{
    return PMPI_Comm_set_errhandler(comm, errhandler);
}

/* A session's world set has the launcher's order; once the new order is known it applies here too. */
HOPBYTE_DEFINE_NEWER(int, MPI, Group_from_session_pset, (MPI_Session session, const char *name, MPI_Group *group))
{
    int rc = NEXT(Group_from_session_pset)(session, name, group), size = 0;
    if (rc != MPI_SUCCESS || !hopbyte_world.on || strcmp(name, "mpi://WORLD") != 0)
        return rc;
    NEXT(Group_size)(*group, &size);
    int *at = size == world_size ? calloc((size_t)size, sizeof *at) : NULL;
    if (!at)
        return rc;
    for (int r = 0; r < size; r++)
        at[world_roles[r]] = r;
    MPI_Group reordered;
    rc = NEXT(Group_incl)(*group, size, at, &reordered);
    if (rc == MPI_SUCCESS) {
        NEXT(Group_free)(group);
        *group = reordered;
    }
    free(at);
    return rc;
}
