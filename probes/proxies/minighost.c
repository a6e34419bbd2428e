/* minighost: a 27-point stencil on a 3-D grid of blocks, bulk synchronous, as the miniGhost proxy does it (paper 000,
 * VI): exchange ghost cells, compute, next step. Own code.
 *
 * Every value is a whole number and every sum is folded modulo 2048, so that arithmetic is exact. A source term makes
 * the right answer known in closed form: u(t, x, y, z) = fold(a(x) + b(y) + c(z) + d t) for every variable, with
 * pseudo-random a, b, c. A ghost cell that is late, lost or misplaced gives wrong values, which are counted at every
 * step. */
#include "halo.h"
#include "proxy.h"

#include <stdlib.h>

enum { BSPMA, SVAF };

struct grid {
    struct hopbyte_proxy proxy;
    struct hopbyte_blocks blocks;
    struct hopbyte_halo halo;
    int n[3], variables, steps, scheme;
    int origin[3], extent[3]; /* of this block; of the whole grid */
    double *now, *then;       /* all variables with ghosts */
    double *axis[3];          /* a, b, c by variable and cell, ghosts included */
};

/* a(x), b(y) or c(z) of a variable; periodic grids repeat it. */
static double axis_value(const struct grid *g, int variable, int dimension, int at) {
    if (g->proxy.periodic)
        at = (at + g->extent[dimension]) % g->extent[dimension];
    uint64_t seed = ((uint64_t)variable * 3 + (uint64_t)dimension) << 40;
    return (double)(hopbyte_scramble(seed + (uint64_t)(at + 1)) % 2048) - 1024;
}

/* d of a variable. */
static double drift(int variable) {
    return 2 * variable + 1;
}

static double *axis_of(const struct grid *g, int variable, int dimension) {
    return g->axis[dimension] + (size_t)variable * (size_t)(g->n[dimension] + 2) + 1;
}

static double answer(const struct grid *g, int variable, int step, int x, int y, int z) {
    return hopbyte_fold(axis_of(g, variable, 0)[x] + axis_of(g, variable, 1)[y] + axis_of(g, variable, 2)[z] +
                        drift(variable) * step);
}

static double *variable_of(const struct grid *g, double *all, int variable) {
    return all + (size_t)variable * hopbyte_halo_cells(&g->halo);
}

static void grid_open(struct grid *g) {
    int place[3];
    hopbyte_blocks_open(&g->blocks, &g->proxy.world, g->proxy.grid, g->proxy.periodic, g->proxy.map);
    hopbyte_halo_open(&g->halo, &g->proxy.world, &g->blocks, g->n, g->scheme == BSPMA ? g->variables : 1);
    hopbyte_blocks_place(&g->blocks, g->blocks.block_of[g->proxy.world.rank], place);
    for (int d = 0; d < 3; d++) {
        g->origin[d] = place[d] * g->n[d];
        g->extent[d] = g->blocks.count[d] * g->n[d];
        g->axis[d] = hopbyte_memory((size_t)g->variables * (size_t)(g->n[d] + 2) * sizeof(double), "the source");
        for (int v = 0; v < g->variables; v++)
            for (int i = -1; i <= g->n[d]; i++)
                axis_of(g, v, d)[i] = axis_value(g, v, d, g->origin[d] + i);
    }
    size_t bytes = (size_t)g->variables * hopbyte_halo_cells(&g->halo) * sizeof(double);
    g->now = hopbyte_memory(bytes, "the grid");
    g->then = hopbyte_memory(bytes, "the grid");
    for (int v = 0; v < g->variables; v++)
        for (int x = 0; x < g->n[0]; x++)
            for (int y = 0; y < g->n[1]; y++)
                for (int z = 0; z < g->n[2]; z++)
                    variable_of(g, g->now, v)[hopbyte_halo_cell(&g->halo, x, y, z)] = answer(g, v, 0, x, y, z);
}

static void grid_close(struct grid *g) {
    for (int d = 0; d < 3; d++)
        free(g->axis[d]);
    free(g->now);
    free(g->then);
    hopbyte_halo_close(&g->halo);
    hopbyte_blocks_close(&g->blocks);
}

/* Ghosts beyond the open ends of the grid come from the formula, without messages. */
static void ends_fill(struct grid *g, int variable, int step) {
    double *u = variable_of(g, g->now, variable);
    for (int x = -1; x <= g->n[0]; x++)
        for (int y = -1; y <= g->n[1]; y++)
            for (int z = -1; z <= g->n[2]; z++) {
                const int at[3] = {x, y, z};
                bool outside = false;
                for (int d = 0; d < 3; d++)
                    outside |= (at[d] < 0 && g->halo.next[d][0] < 0) || (at[d] >= g->n[d] && g->halo.next[d][1] < 0);
                if (outside)
                    u[hopbyte_halo_cell(&g->halo, x, y, z)] = answer(g, variable, step, x, y, z);
                else if (z == 0 && g->n[2] > 1)
                    z = g->n[2] - 2; /* inner cells of a row need no test */
            }
}

static double around(const double *row) {
    return row[-1] + row[0] + row[1];
}

/* The sum of the 27 cells around each, plus the source that leads to the next step's values. */
static void stencil_apply(struct grid *g, int variable, int step) {
    const double *u = variable_of(g, g->now, variable);
    double *w = variable_of(g, g->then, variable);
    const double *a = axis_of(g, variable, 0), *b = axis_of(g, variable, 1), *c = axis_of(g, variable, 2);
    double d = drift(variable);
    for (int x = 0; x < g->n[0]; x++)
        for (int y = 0; y < g->n[1]; y++)
            for (int z = 0; z < g->n[2]; z++) {
                double sum = 0;
                for (int i = -1; i <= 1; i++)
                    for (int j = -1; j <= 1; j++)
                        sum += around(u + hopbyte_halo_cell(&g->halo, x + i, y + j, z));
                double right = 9 * (around(a + x) + around(b + y) + around(c + z)) + 27 * d * step;
                double next = a[x] + b[y] + c[z] + d * (step + 1);
                w[hopbyte_halo_cell(&g->halo, x, y, z)] = hopbyte_fold(sum + (next - right));
            }
}

static long long wrong_count(struct grid *g, int step) {
    long long wrong = 0;
    for (int v = 0; v < g->variables; v++)
        for (int x = 0; x < g->n[0]; x++)
            for (int y = 0; y < g->n[1]; y++)
                for (int z = 0; z < g->n[2]; z++) {
                    double off =
                        variable_of(g, g->now, v)[hopbyte_halo_cell(&g->halo, x, y, z)] - answer(g, v, step, x, y, z);
                    wrong += hopbyte_fold(off) != 0; /* -1024 and 1024 are the same modulo 2048 */
                }
    return wrong;
}

/* One step; seconds of exchange and of computing are added. */
static void step_run(struct grid *g, int step, double *exchange, double *compute) {
    double start = MPI_Wtime();
    int once = g->scheme == BSPMA ? g->variables : 1;
    for (int v = 0; v < g->variables; v += once)
        hopbyte_halo_exchange(&g->halo, variable_of(g, g->now, v), once);
    double middle = MPI_Wtime();
    for (int v = 0; v < g->variables; v++) {
        if (!g->proxy.periodic)
            ends_fill(g, v, step);
        stencil_apply(g, v, step);
    }
    double *swap = g->now;
    g->now = g->then;
    g->then = swap;
    *exchange += middle - start;
    *compute += MPI_Wtime() - middle;
}

static void traffic_write(struct grid *g) {
    int to[6];
    double bytes[6], messages[6];
    int count =
        hopbyte_halo_traffic(&g->halo, g->variables, g->scheme == BSPMA ? 1 : g->variables, to, bytes, messages);
    hopbyte_traffic_write(g->proxy.traffic, &g->blocks, &g->proxy.world, count, to, bytes, messages);
}

int main(int argc, char **argv) {
    struct grid g = {.n = {32, 32, 32}, .variables = 5, .steps = 20};
    const struct hopbyte_option own[] = {
        {"cells", HOPBYTE_TRIPLE, &g.n, 1, NULL, "cells of a block along X, Y, Z (32,32,32)", 0},
        {"variables", HOPBYTE_COUNT, &g.variables, 1, NULL, "values a cell (5)", 0},
        {"steps", HOPBYTE_COUNT, &g.steps, 1, NULL, "time steps (20)", 0},
        {"scheme", HOPBYTE_CHOICE, &g.scheme, 0, "bspma|svaf", "all variables in a message, or one by one (bspma)", 0},
        {0}};
    hopbyte_proxy_open(&g.proxy, argc, argv, "minighost", "A 27-point stencil on a grid of blocks, bulk synchronous.",
                       own);
    grid_open(&g);
    if (g.proxy.traffic)
        traffic_write(&g);
    hopbyte_world_header(&g.proxy.world, hopbyte_proxy_schema, "minighost", g.proxy.json);
    long long wrong = 0;
    double exchange = 0, compute = 0;
    for (int step = 0; step < g.steps; step++) {
        hopbyte_deadline_set(g.proxy.deadline, "a time step");
        step_run(&g, step, &exchange, &compute);
        wrong += wrong_count(&g, step + 1);
    }
    double slowest = hopbyte_proxy_slowest(&g.proxy, exchange + compute);
    double moved = 0;
    for (int d = 0; d < 3; d++)
        moved += (double)hopbyte_halo_face(&g.halo, d) * g.variables * sizeof(double) *
                 ((g.halo.next[d][0] >= 0) + (g.halo.next[d][1] >= 0));
    double all_moved;
    MPI_Allreduce(&moved, &all_moved, 1, MPI_DOUBLE, MPI_SUM, g.proxy.world.comm);
    struct hopbyte_record record;
    hopbyte_proxy_record(&g.proxy, &record, "total");
    hopbyte_record_whole(&record, "steps", g.steps, NULL);
    hopbyte_record_number(&record, "seconds", slowest, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", slowest / g.steps, NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", hopbyte_proxy_slowest(&g.proxy, exchange), NULL, 1);
    hopbyte_record_number(&record, "compute_seconds", hopbyte_proxy_slowest(&g.proxy, compute), NULL, 1);
    hopbyte_record_whole(&record, "bytes_per_step", (long long)all_moved, NULL);
    grid_close(&g);
    return hopbyte_proxy_close(&g.proxy, &record, wrong, HOPBYTE_DONE);
}
