/* Grids of ranks cut into blocks, one per node. */
#include "reorder.h"

#include <stdlib.h>
#include <string.h>

int64_t hopbyte_grid_cells(const struct hopbyte_grid *grid)
{
    int64_t cells = 1;
    for (int d = 0; d < grid->ndims; d++) {
        if (grid->dims[d] <= 0 || cells > INT32_MAX / grid->dims[d])
            return -1;
        cells *= grid->dims[d];
    }
    return cells;
}

/* Rank of a cell: the last dimension runs fastest, as in MPI_Cart_create, or the first. */
static int cell_rank(const struct hopbyte_grid *grid, const int *at)
{
    int rank = 0;
    for (int i = 0; i < grid->ndims; i++) {
        int d = grid->column_major ? grid->ndims - 1 - i : i;
        rank = rank * grid->dims[d] + at[d];
    }
    return rank;
}

void hopbyte_grid_cell(const struct hopbyte_grid *grid, int rank, int *at)
{
    for (int i = grid->ndims - 1; i >= 0; i--) {
        int d = grid->column_major ? grid->ndims - 1 - i : i;
        at[d] = rank % grid->dims[d];
        rank /= grid->dims[d];
    }
}

static int neighbour(const struct hopbyte_grid *grid, int *at, int d, int step)
{
    int here = at[d], there = here + step;
    if (grid->periodic[d])
        there = (there + grid->dims[d]) % grid->dims[d];
    if (there < 0 || there >= grid->dims[d])
        return -1;
    at[d] = there;
    int rank = cell_rank(grid, at);
    at[d] = here;
    return rank;
}

bool hopbyte_grid_graph(const struct hopbyte_grid *grid, struct hopbyte_graph *g)
{
    int cells = (int)hopbyte_grid_cells(grid), at[REORDER_DIMS_MAX];
    if (!hopbyte_graph_make(g, cells, (int64_t)cells * 2 * grid->ndims))
        return false;
    int64_t e = 0;
    for (int v = 0; v < cells; v++) {
        hopbyte_grid_cell(grid, v, at);
        for (int d = 0; d < grid->ndims; d++)
            for (int step = -1; step <= 1; step += 2) {
                int to = neighbour(grid, at, d, step);
                if (to >= 0 && to != v) {
                    g->to[e] = to;
                    g->weight[e++] = 1;
                }
            }
        g->first[v + 1] = e;
    }
    return true;
}

/* --- equal blocks --- */

struct tiling {
    const struct hopbyte_grid *grid;
    int block[REORDER_DIMS_MAX], best[REORDER_DIMS_MAX];
    int64_t faces; /* weight cut by the best so far, -1 for none */
};

/* Neighbour pairs cut by blocks of this shape. */
static int64_t faces_cut(const struct tiling *t)
{
    int64_t cells = hopbyte_grid_cells(t->grid), sum = 0;
    for (int d = 0; d < t->grid->ndims; d++) {
        int tiles = t->grid->dims[d] / t->block[d];
        int walls = tiles == 1 ? 0 : t->grid->periodic[d] ? tiles : tiles - 1;
        sum += walls * (cells / t->grid->dims[d]);
    }
    return sum;
}

static void shapes_try(struct tiling *t, int d, int left)
{
    if (d == t->grid->ndims) {
        int64_t faces = left == 1 ? faces_cut(t) : -1;
        if (faces >= 0 && (t->faces < 0 || faces < t->faces)) {
            t->faces = faces;
            memcpy(t->best, t->block, sizeof t->best);
        }
        return;
    }
    for (int b = 1; b <= left && b <= t->grid->dims[d]; b++)
        if (left % b == 0 && t->grid->dims[d] % b == 0) {
            t->block[d] = b;
            shapes_try(t, d + 1, left / b);
        }
}

bool hopbyte_grid_tile(const struct hopbyte_grid *grid, const int *counts, int nodes, int *part)
{
    struct tiling t = {.grid = grid, .faces = -1};
    for (int k = 1; k < nodes; k++)
        if (counts[k] != counts[0])
            return false;
    shapes_try(&t, 0, counts[0]);
    if (t.faces < 0)
        return false;
    int cells = (int)hopbyte_grid_cells(grid), at[REORDER_DIMS_MAX];
    for (int v = 0; v < cells; v++) {
        int tile = 0;
        hopbyte_grid_cell(grid, v, at);
        for (int d = 0; d < grid->ndims; d++)
            tile = tile * (grid->dims[d] / t.best[d]) + at[d] / t.best[d];
        part[v] = tile;
    }
    return true;
}

/* --- any counts --- */

struct bisection {
    const struct hopbyte_grid *grid;
    const int *counts;
    int *cells, *scratch, *part;
};

/* The dimension with the largest extent of cells from..to; of equals the first. */
static int longest_side(const struct bisection *b, int from, int to)
{
    int at[REORDER_DIMS_MAX], low[REORDER_DIMS_MAX] = {0}, high[REORDER_DIMS_MAX] = {0}, best = 0;
    for (int i = from; i < to; i++) {
        hopbyte_grid_cell(b->grid, b->cells[i], at);
        for (int d = 0; d < b->grid->ndims; d++) {
            low[d] = i == from || at[d] < low[d] ? at[d] : low[d];
            high[d] = i == from || at[d] > high[d] ? at[d] : high[d];
        }
    }
    for (int d = 1; d < b->grid->ndims; d++)
        if (high[d] - low[d] > high[best] - low[best])
            best = d;
    return best;
}

/* Sorts the cells by one coordinate, keeping the order of equals (a counting sort). */
static bool cells_sort(struct bisection *b, int from, int to, int d)
{
    int at[REORDER_DIMS_MAX], *next = calloc((size_t)b->grid->dims[d] + 1, sizeof *next);
    if (!next)
        return false;
    for (int i = from; i < to; i++) {
        hopbyte_grid_cell(b->grid, b->cells[i], at);
        next[at[d] + 1]++;
    }
    for (int i = 0; i < b->grid->dims[d]; i++)
        next[i + 1] += next[i];
    for (int i = from; i < to; i++) {
        hopbyte_grid_cell(b->grid, b->cells[i], at);
        b->scratch[next[at[d]]++] = b->cells[i];
    }
    memcpy(b->cells + from, b->scratch, (size_t)(to - from) * sizeof *b->cells);
    free(next);
    return true;
}

static bool bisect(struct bisection *b, int from, int node, int nodes)
{
    int middle = node + nodes / 2, to = from, cut = from;
    for (int k = node; k < node + nodes; k++) {
        to += b->counts[k];
        cut += k < middle ? b->counts[k] : 0;
    }
    if (nodes == 1) {
        for (int i = from; i < to; i++)
            b->part[b->cells[i]] = node;
        return true;
    }
    return cells_sort(b, from, to, longest_side(b, from, to)) && bisect(b, from, node, nodes / 2) &&
           bisect(b, cut, middle, nodes - nodes / 2);
}

bool hopbyte_grid_bisect(const struct hopbyte_grid *grid, const int *counts, int nodes, int *part)
{
    int cells = (int)hopbyte_grid_cells(grid);
    struct bisection b = {grid, counts, calloc((size_t)cells + 1, sizeof(int)), calloc((size_t)cells + 1, sizeof(int)),
                          part};
    bool fine = b.cells && b.scratch;
    for (int i = 0; fine && i < cells; i++)
        b.cells[i] = i;
    fine = fine && bisect(&b, 0, 0, nodes);
    free(b.cells);
    free(b.scratch);
    return fine;
}
