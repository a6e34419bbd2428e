/* MPI_Cart_create and MPI_Dist_graph_create_adjacent with reorder: today's libraries accept the argument and keep the
 * order. Here new ranks are assigned to minimise traffic between nodes; without a gain the order stays too. */
#include "reorder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool topologies_wanted(int reorder)
{
    const char *value = getenv("HOPBYTE_REORDER_TOPOLOGIES");
    return reorder && !(value && strcmp(value, "0") == 0);
}

static bool comm_is_plain(MPI_Comm comm)
{
    int inter = 1;
    return comm != MPI_COMM_NULL && NEXT(Comm_test_inter)(comm, &inter) == MPI_SUCCESS && !inter;
}

static void gain_say(const char *what, int ranks, int nodes, const struct hopbyte_gain *gain)
{
    if (!hopbyte_world.quiet)
        hopbyte_say("%s of %d ranks on %d nodes: weight between nodes %" PRId64 " -> %" PRId64
                    ", at the busiest node %" PRId64 " -> %" PRId64 "; %d ranks moved",
                    what, ranks, nodes, gain->before.total, gain->after.total, gain->before.worst, gain->after.worst,
                    gain->moved);
}

/* Scatters role from rank 0; returns this rank's entry. Negative if nothing moves or rank 0 had no memory. */
static int role_scatter(MPI_Comm comm, const int *role, bool found)
{
    int mine, moved = found, rank, size;
    NEXT(Comm_rank)(comm, &rank);
    NEXT(Comm_size)(comm, &size);
    if (rank == 0 && found) {
        moved = 0;
        for (int r = 0; r < size; r++)
            moved |= role[r] != r;
    }
    NEXT(Bcast)(&moved, 1, MPI_INT, 0, comm);
    if (!moved)
        return -1;
    NEXT(Scatter)(role, 1, MPI_INT, &mine, 1, MPI_INT, 0, comm);
    return mine;
}

/* --- grids --- */

static bool grid_roles(const struct hopbyte_grid *grid, const struct hopbyte_nodes *nodes, int *role)
{
    struct hopbyte_graph graph;
    struct hopbyte_gain gain;
    char what[64];
    if (!hopbyte_grid_graph(grid, &graph))
        return false;
    for (int r = graph.vertices; r < nodes->ranks; r++)
        role[r] = r; /* ranks beyond the grid stay beyond it */
    bool fine = hopbyte_order_find(&graph, grid, nodes, role, &gain);
    if (fine) {
        snprintf(what, sizeof what, "MPI_Cart_create in %d dimensions", grid->ndims);
        gain_say(what, graph.vertices, nodes->nodes, &gain);
    }
    hopbyte_graph_free(&graph);
    return fine;
}

/* The communicator in its new order, or MPI_COMM_NULL if the order stays. */
static MPI_Comm grid_reorder(MPI_Comm comm, const struct hopbyte_grid *grid)
{
    struct hopbyte_nodes nodes;
    int rank, *role = NULL;
    bool found = false;
    MPI_Comm reordered = MPI_COMM_NULL;
    NEXT(Comm_rank)(comm, &rank);
    if (!hopbyte_nodes_learn(comm, &nodes))
        return MPI_COMM_NULL;
    if (rank == 0 && nodes.nodes > 1) {
        role = calloc((size_t)nodes.ranks, sizeof *role);
        found = role && grid_roles(grid, &nodes, role);
    }
    int mine = role_scatter(comm, role, found);
    if (mine >= 0)
        NEXT(Comm_split)(comm, 0, mine, &reordered);
    free(role);
    hopbyte_nodes_free(&nodes);
    return reordered;
}

HOPBYTE_DEFINE(int, Cart_create,
               (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *cart))
{
    struct hopbyte_grid grid = {.ndims = ndims};
    int size = 0;
    comm = hopbyte_world_of(comm);
    if (!topologies_wanted(reorder) || ndims <= 0 || ndims > REORDER_DIMS_MAX || !dims || !periods ||
        !comm_is_plain(comm))
        return NEXT(Cart_create)(comm, ndims, dims, periods, reorder, cart);
    NEXT(Comm_size)(comm, &size);
    memcpy(grid.dims, dims, (size_t)ndims * sizeof *dims);
    for (int d = 0; d < ndims; d++)
        grid.periodic[d] = periods[d] != 0;
    int64_t cells = hopbyte_grid_cells(&grid);
    MPI_Comm reordered = cells > 0 && cells <= size ? grid_reorder(comm, &grid) : MPI_COMM_NULL;
    if (reordered == MPI_COMM_NULL)
        return NEXT(Cart_create)(comm, ndims, dims, periods, reorder, cart);
    int rc = NEXT(Cart_create)(reordered, ndims, dims, periods, 0, cart);
    NEXT(Comm_free)(&reordered);
    return rc;
}

/* --- graphs --- */

/* Adjacency of one rank, or of all at rank 0, rank by rank: pairs of neighbour and weight, out before in. */
struct edges {
    int shape[2]; /* out and in degree of this rank */
    bool weighted;
    int *mine;
    int *shapes, *counts, *places, *all; /* at rank 0: degrees, counts of ints, offsets, and all edges */
    int64_t total;
};

static void edges_free(struct edges *e)
{
    free(e->mine);
    free(e->shapes);
    free(e->counts);
    free(e->places);
    free(e->all);
}

static void edges_pack(int *to, const int *ranks, const int *weights, int count, bool weighted)
{
    for (int i = 0; i < count; i++) {
        to[2 * i] = ranks[i];
        to[2 * i + 1] = weighted ? weights[i] : 1;
    }
}

static void edges_unpack(const int *from, int *ranks, int *weights, int count)
{
    for (int i = 0; i < count; i++) {
        ranks[i] = from[2 * i];
        weights[i] = from[2 * i + 1];
    }
}

/* Buffers at rank 0 for all edges; false without memory, or with more than the count of one message allows. */
static bool edges_make_room(struct edges *e, int size)
{
    for (int r = 0; r < size; r++) {
        e->counts[r] = 2 * (e->shapes[2 * r] + e->shapes[2 * r + 1]);
        e->places[r] = (int)e->total;
        e->total += e->counts[r];
        if (e->total > INT_MAX)
            return false;
    }
    return (e->all = calloc((size_t)e->total + 1, sizeof *e->all)) != NULL;
}

/* Gathers all edges at rank 0; the return value is the same on every rank. */
static bool edges_gather(MPI_Comm comm, struct edges *e)
{
    int rank, size, fine = e->mine != NULL, all_fine;
    NEXT(Comm_rank)(comm, &rank);
    NEXT(Comm_size)(comm, &size);
    if (rank == 0) {
        e->shapes = calloc(2 * (size_t)size, sizeof *e->shapes);
        e->counts = calloc((size_t)size, sizeof *e->counts);
        e->places = calloc((size_t)size, sizeof *e->places);
        fine = fine && e->shapes && e->counts && e->places;
    }
    NEXT(Allreduce)(&fine, &all_fine, 1, MPI_INT, MPI_MIN, comm);
    if (!all_fine)
        return false;
    NEXT(Gather)(e->shape, 2, MPI_INT, e->shapes, 2, MPI_INT, 0, comm);
    if (rank == 0)
        fine = edges_make_room(e, size);
    NEXT(Bcast)(&fine, 1, MPI_INT, 0, comm);
    if (fine)
        NEXT(Gatherv)(e->mine, 2 * (e->shape[0] + e->shape[1]), MPI_INT, e->all, e->counts, e->places, MPI_INT, 0, comm);
    return fine;
}

static void edge_add(struct hopbyte_graph *g, int64_t *next, int from, int to, int weight)
{
    g->to[next[from]] = to;
    g->weight[next[from]++] = weight;
}

/* Every edge in both directions, so that the weight between a node and a vertex follows from the vertex alone. */
static bool graph_build(const struct edges *e, int size, struct hopbyte_graph *g)
{
    int64_t *next = calloc((size_t)size + 1, sizeof *next), edges = 0;
    for (int r = 0; r < size; r++)
        edges += e->shapes[2 * r];
    if (!next || !hopbyte_graph_make(g, size, 2 * edges)) {
        free(next);
        return false;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < size; r++)
            for (int i = 0; i < e->shapes[2 * r]; i++) {
                int to = e->all[e->places[r] + 2 * i], weight = e->all[e->places[r] + 2 * i + 1];
                if (to < 0 || to >= size || to == r)
                    continue;
                if (pass == 0) {
                    g->first[r + 1]++;
                    g->first[to + 1]++;
                } else {
                    edge_add(g, next, r, to, weight);
                    edge_add(g, next, to, r, weight);
                }
            }
        for (int v = 0; pass == 0 && v < size; v++) {
            g->first[v + 1] += g->first[v];
            next[v + 1] = g->first[v + 1];
        }
    }
    free(next);
    return true;
}

static bool graph_roles(const struct edges *e, const struct hopbyte_nodes *nodes, int *role)
{
    struct hopbyte_graph graph;
    struct hopbyte_gain gain;
    if (!graph_build(e, nodes->ranks, &graph))
        return false;
    bool fine = hopbyte_order_find(&graph, NULL, nodes, role, &gain);
    hopbyte_graph_free(&graph);
    gain.before.total /= 2; /* every edge was in the graph twice */
    gain.after.total /= 2;
    gain.before.worst /= 2;
    gain.after.worst /= 2;
    if (fine)
        gain_say("MPI_Dist_graph_create_adjacent", nodes->ranks, nodes->nodes, &gain);
    return fine;
}

/* Each rank gets the adjacency of its new vertex. */
static bool edges_deal(MPI_Comm comm, struct edges *e, const int *role)
{
    int rank, size, fine = 1, all_fine, *shapes = NULL, *counts = NULL, *places = NULL;
    NEXT(Comm_rank)(comm, &rank);
    NEXT(Comm_size)(comm, &size);
    if (rank == 0) {
        shapes = calloc(2 * (size_t)size, sizeof *shapes);
        counts = calloc((size_t)size, sizeof *counts);
        places = calloc((size_t)size, sizeof *places);
        fine = shapes && counts && places;
        for (int r = 0; fine && r < size; r++) {
            memcpy(shapes + 2 * r, e->shapes + 2 * role[r], 2 * sizeof *shapes);
            counts[r] = e->counts[role[r]];
            places[r] = e->places[role[r]];
        }
    }
    NEXT(Bcast)(&fine, 1, MPI_INT, 0, comm);
    if (fine) {
        NEXT(Scatter)(shapes, 2, MPI_INT, e->shape, 2, MPI_INT, 0, comm);
        int ints = 2 * (e->shape[0] + e->shape[1]);
        free(e->mine);
        e->mine = calloc((size_t)ints + 1, sizeof *e->mine);
        fine = e->mine != NULL;
        NEXT(Allreduce)(&fine, &all_fine, 1, MPI_INT, MPI_MIN, comm);
        fine = all_fine;
        if (fine)
            NEXT(Scatterv)(e->all, counts, places, MPI_INT, e->mine, ints, MPI_INT, 0, comm);
    }
    free(shapes);
    free(counts);
    free(places);
    return fine;
}

static int graph_create(MPI_Comm comm, const struct edges *e, MPI_Info info, MPI_Comm *graph)
{
    int out = e->shape[0], in = e->shape[1], *lists = calloc(2 * ((size_t)out + (size_t)in) + 1, sizeof *lists);
    if (!lists)
        return MPI_ERR_NO_MEM;
    int *targets = lists, *target_weights = lists + out, *sources = lists + 2 * out, *source_weights = sources + in;
    edges_unpack(e->mine, targets, target_weights, out);
    edges_unpack(e->mine + 2 * out, sources, source_weights, in);
    int rc = NEXT(Dist_graph_create_adjacent)(
        comm, in, sources, !e->weighted ? MPI_UNWEIGHTED : in ? source_weights : MPI_WEIGHTS_EMPTY, out, targets,
        !e->weighted ? MPI_UNWEIGHTED : out ? target_weights : MPI_WEIGHTS_EMPTY, info, 0, graph);
    free(lists);
    return rc;
}

/* Assigns the vertices; *reordered is MPI_COMM_NULL if nothing moves. */
static void graph_reorder(MPI_Comm comm, struct edges *e, MPI_Comm *reordered)
{
    struct hopbyte_nodes nodes;
    int rank, *role = NULL;
    bool found = false;
    *reordered = MPI_COMM_NULL;
    NEXT(Comm_rank)(comm, &rank);
    if (!edges_gather(comm, e) || !hopbyte_nodes_learn(comm, &nodes))
        return;
    if (rank == 0 && nodes.nodes > 1) {
        role = calloc((size_t)nodes.ranks, sizeof *role);
        found = role && graph_roles(e, &nodes, role);
    }
    int mine = role_scatter(comm, role, found);
    if (mine >= 0 && edges_deal(comm, e, role))
        NEXT(Comm_split)(comm, 0, mine, reordered);
    free(role);
    hopbyte_nodes_free(&nodes);
}

HOPBYTE_DEFINE(int, Dist_graph_create_adjacent,
               (MPI_Comm comm, int in, const int sources[], const int source_weights[], int out, const int targets[],
                const int target_weights[], MPI_Info info, int reorder, MPI_Comm *graph))
{
    comm = hopbyte_world_of(comm);
    if (!topologies_wanted(reorder) || in < 0 || out < 0 || !comm_is_plain(comm))
        return NEXT(Dist_graph_create_adjacent)(comm, in, sources, source_weights, out, targets, target_weights, info,
                                                reorder, graph);
    struct edges e = {.shape = {out, in}};
    MPI_Comm reordered;
    e.weighted = source_weights != MPI_UNWEIGHTED && target_weights != MPI_UNWEIGHTED;
    e.mine = calloc(2 * ((size_t)out + (size_t)in) + 1, sizeof *e.mine);
    if (e.mine) {
        edges_pack(e.mine, targets, target_weights, out, e.weighted);
        edges_pack(e.mine + 2 * out, sources, source_weights, in, e.weighted);
    }
    graph_reorder(comm, &e, &reordered);
    int rc = reordered == MPI_COMM_NULL
                 ? NEXT(Dist_graph_create_adjacent)(comm, in, sources, source_weights, out, targets, target_weights,
                                                    info, reorder, graph)
                 : graph_create(reordered, &e, info, graph);
    if (reordered != MPI_COMM_NULL)
        NEXT(Comm_free)(&reordered);
    edges_free(&e);
    return rc;
}
