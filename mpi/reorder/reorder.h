/* Rank reordering: the world in another order, and topologies that implement `reorder`. See README.md. */
#ifndef HOPBYTE_REORDER_H
#define HOPBYTE_REORDER_H

#include "../common/deep.h"

#include <inttypes.h>

enum { REORDER_DIMS_MAX = 32 };

/* --- world.c --- */

struct hopbyte_world {
    bool on; /* MPI_COMM_WORLD is replaced by `comm` */
    bool quiet;
    MPI_Comm comm;
    int launch_rank; /* this process's rank in the launcher's order */
};
extern struct hopbyte_world hopbyte_world;

static inline MPI_Comm hopbyte_world_of(MPI_Comm comm)
{
    return __builtin_expect(hopbyte_world.on, 1) && comm == MPI_COMM_WORLD ? hopbyte_world.comm : comm;
}

/* --- nodes.c: ranks that share a node --- */

/* Coordinates of the nodes' routers; no dimensions if they are not known. */
struct hopbyte_network {
    int dimensions, length[6];
    bool closed[6]; /* a ring */
    int (*at)[6];   /* by node */
};

struct hopbyte_nodes {
    int ranks, nodes;
    int *node;    /* of each rank, numbered in order of appearance */
    int *counts;  /* ranks of each node */
    char (*names)[64];
    struct hopbyte_network network;
    char problem[512]; /* why the coordinates that were given cannot be used */
};
/* Collective; the result is at rank 0 of comm, elsewhere it is empty. False without memory, on every rank. */
bool hopbyte_nodes_learn(MPI_Comm comm, struct hopbyte_nodes *nodes);
void hopbyte_nodes_free(struct hopbyte_nodes *nodes);

/* --- graph.c: the communication graph and its traffic between nodes --- */

struct hopbyte_graph {
    int vertices;
    int64_t *first; /* edges of v are first[v] to first[v + 1] */
    int *to, *weight;
};
bool hopbyte_graph_make(struct hopbyte_graph *graph, int vertices, int64_t edges);
void hopbyte_graph_free(struct hopbyte_graph *graph);

/* Traffic between nodes with vertex v on part[v]: in total, and at the busiest node (both ways). */
struct hopbyte_cut {
    int64_t total, worst;
};
struct hopbyte_cut hopbyte_cut_measure(const struct hopbyte_graph *graph, const int *part, int nodes);
bool hopbyte_cut_better(struct hopbyte_cut a, struct hopbyte_cut b);

/* Swaps vertices between nodes while that reduces the traffic between nodes. Bounded work, deterministic. */
void hopbyte_graph_refine(const struct hopbyte_graph *graph, int *part, int nodes);
/* Grows each node's part from a vertex outwards, the first from `from`; false if the graph is too large for that. */
bool hopbyte_graph_grow(const struct hopbyte_graph *graph, const int *counts, int nodes, int from, int *part);

/* --- grid.c --- */

struct hopbyte_grid {
    int ndims, dims[REORDER_DIMS_MAX];
    bool periodic[REORDER_DIMS_MAX], column_major;
};
int64_t hopbyte_grid_cells(const struct hopbyte_grid *grid);
void hopbyte_grid_cell(const struct hopbyte_grid *grid, int rank, int *at);
bool hopbyte_grid_graph(const struct hopbyte_grid *grid, struct hopbyte_graph *graph);
/* Equal blocks, one per node; false if the counts differ or no block shape divides the grid. */
bool hopbyte_grid_tile(const struct hopbyte_grid *grid, const int *counts, int nodes, int *part);
/* Bisects the grid along its longest side, and the nodes with it, down to one node. */
bool hopbyte_grid_bisect(const struct hopbyte_grid *grid, const int *counts, int nodes, int *part);

/* --- network.c: the nodes' places in the network --- */

/* Messages times links, in total and at the busiest directed link. */
struct hopbyte_toll {
    int64_t worst, hops;
};
bool hopbyte_toll_better(struct hopbyte_toll a, struct hopbyte_toll b);
/* Reads HOPBYTE_COORDS_FILE, if set, for the nodes of the job; false with the problem's text. */
bool hopbyte_network_read(struct hopbyte_nodes *nodes, char *problem, size_t room);
/* The toll of a graph's edges with vertex v on node part[v]. False without memory. */
bool hopbyte_toll_measure(const struct hopbyte_nodes *nodes, const struct hopbyte_graph *graph, const int *part,
                          struct hopbyte_toll *toll);
/* Exchanges whole parts between nodes with equally many ranks while that reduces the toll. Bounded work, deterministic.
 * False without memory. */
bool hopbyte_network_place(const struct hopbyte_nodes *nodes, const struct hopbyte_graph *graph,
                           const struct hopbyte_grid *grid, int *part);

/* --- order.c: the best of several heuristics --- */

struct hopbyte_gain {
    struct hopbyte_cut before, after;
    struct hopbyte_toll toll_before, toll_after; /* if the network is known */
    int moved;
};
/* For vertices 0..graph->vertices-1 now at the ranks of the same number: fills role[rank] with the vertex assigned to
 * each rank to reduce the traffic between nodes; the identity if nothing better is found. `grid` may be NULL. False
 * without memory. */
bool hopbyte_order_find(const struct hopbyte_graph *graph, const struct hopbyte_grid *grid,
                        const struct hopbyte_nodes *nodes, int *role, struct hopbyte_gain *gain);

/* --- plan.c: the requested order --- */

/* At rank 0: reads the settings, fills role[launch rank] with the new rank of each process. 0: nothing requested;
 * 1: done; -1: impossible, after a message. */
int hopbyte_plan_make(const struct hopbyte_nodes *nodes, int *role);

/* --- rankfile.c --- */

/* order[position] = rank, from a file of `MPICH_RANK_ORDER` or `rank,node,slot` form. False after a message. */
bool hopbyte_rankfile_read(const char *path, const struct hopbyte_nodes *nodes, const int *positions, int *role);

#endif
