/* halo_allreduce: conjugate gradients on the seven-point Laplacian of a 3-D grid of blocks: an exchange of faces and
 * two small all-reductions per iteration, the pattern of implicit solvers.
 *
 * The right-hand side is computed from a known pseudo-random solution, without communication. One wrong ghost value or
 * sum stops convergence to that solution; a persistent error leads to another solution. */
#include "halo.h"
#include "proxy.h"

#include <math.h>
#include <stdlib.h>

struct solver {
    struct hopbyte_proxy proxy;
    struct hopbyte_blocks blocks;
    struct hopbyte_halo halo;
    int n[3], iterations, solves;
    int origin[3], extent[3];
    double *x, *p, *r, *q; /* solution, direction (with ghosts in use), residual, A p */
    double exchange, reduce;
};

/* The solution at global cell; 0 beyond the grid. */
static double solution(const struct solver *s, int x, int y, int z) {
    if (x < 0 || y < 0 || z < 0 || x >= s->extent[0] || y >= s->extent[1] || z >= s->extent[2])
        return 0;
    uint64_t cell = ((uint64_t)x * (uint64_t)s->extent[1] + (uint64_t)y) * (uint64_t)s->extent[2] + (uint64_t)z;
    return (double)(hopbyte_scramble(cell) % 2001) / 1000 - 1;
}

/* The Laplacian plus one, so that the condition does not grow with the grid. */
static double right_side(const struct solver *s, int x, int y, int z) {
    return 7 * solution(s, x, y, z) - solution(s, x - 1, y, z) - solution(s, x + 1, y, z) - solution(s, x, y - 1, z) -
           solution(s, x, y + 1, z) - solution(s, x, y, z - 1) - solution(s, x, y, z + 1);
}

/* Runs a statement for every cell of the block: its place is `c`, its coordinates x, y, z. */
// clang-format off
#define FOR_CELLS(s)                                                                                                   \
    for (int x = 0; x < (s)->n[0]; x++)                                                                                \
        for (int y = 0; y < (s)->n[1]; y++)                                                                            \
            for (size_t z = 0, c = hopbyte_halo_cell(&(s)->halo, x, y, 0); z < (size_t)(s)->n[2]; z++, c++)
// clang-format on

static double sum_all(struct solver *s, double mine) {
    double start = MPI_Wtime(), all;
    hopbyte_wait_allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, s->proxy.world.comm);
    s->reduce += MPI_Wtime() - start;
    return all;
}

static double dot(struct solver *s, const double *a, const double *b) {
    double sum = 0;
    FOR_CELLS (s)
        sum += a[c] * b[c];
    return sum_all(s, sum);
}

/* q = A p; ghosts beyond open ends stay 0. */
static void operator_apply(struct solver *s) {
    double start = MPI_Wtime();
    hopbyte_halo_exchange(&s->halo, s->p, 1);
    s->exchange += MPI_Wtime() - start;
    size_t line = (size_t)(s->n[2] + 2), plane = line * (size_t)(s->n[1] + 2);
    const double *p = s->p;
    FOR_CELLS (s)
        s->q[c] = 7 * p[c] - p[c - 1] - p[c + 1] - p[c - line] - p[c + line] - p[c - plane] - p[c + plane];
}

/* Solves from zero with a fixed number of iterations: all ranks stay in step even when a sum is damaged.
 */
static void solve(struct solver *s) {
    FOR_CELLS (s) {
        s->x[c] = 0;
        s->p[c] = s->r[c] = right_side(s, s->origin[0] + x, s->origin[1] + y, s->origin[2] + (int)z);
    }
    double rho = dot(s, s->r, s->r);
    for (int i = 0; i < s->iterations; i++) {
        hopbyte_deadline_set(s->proxy.deadline, "an iteration");
        operator_apply(s);
        double curvature = dot(s, s->p, s->q), alpha = curvature > 0 ? rho / curvature : 0; /* 0: solved exactly */
        FOR_CELLS (s) {
            s->x[c] += alpha * s->p[c];
            s->r[c] -= alpha * s->q[c];
        }
        double next = dot(s, s->r, s->r), beta = rho > 0 ? next / rho : 0;
        FOR_CELLS (s)
            s->p[c] = s->r[c] + beta * s->p[c];
        rho = next;
    }
}

/* Bound on the distance from the solution: eigenvalues lie between 1 and 13, so each iteration leaves at most
 * (sqrt 13 - 1) / (sqrt 13 + 1) of the error. */
static double error_bound(const struct solver *s) {
    double bound = 100 * pow((sqrt(13) - 1) / (sqrt(13) + 1), s->iterations);
    return bound > 1e-9 ? bound : 1e-9;
}

static long long wrong_count(const struct solver *s) {
    long long wrong = 0;
    double bound = error_bound(s);
    FOR_CELLS (s)
        wrong += !(fabs(s->x[c] - solution(s, s->origin[0] + x, s->origin[1] + y, s->origin[2] + (int)z)) <= bound);
    return wrong;
}

static void solver_open(struct solver *s) {
    int place[3];
    if (s->proxy.periodic)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found --periodic, expected an open grid");
    hopbyte_blocks_open(&s->blocks, &s->proxy.world, s->proxy.grid, false, s->proxy.map);
    hopbyte_halo_open(&s->halo, &s->proxy.world, &s->blocks, s->n, 1);
    hopbyte_blocks_place(&s->blocks, s->blocks.block_of[s->proxy.world.rank], place);
    for (int d = 0; d < 3; d++) {
        s->origin[d] = place[d] * s->n[d];
        s->extent[d] = s->blocks.count[d] * s->n[d];
    }
    size_t bytes = hopbyte_halo_cells(&s->halo) * sizeof(double);
    double **arrays[] = {&s->x, &s->p, &s->r, &s->q};
    for (int i = 0; i < 4; i++)
        *arrays[i] = hopbyte_memory(bytes, "the grid");
}

static void solver_close(struct solver *s) {
    free(s->x);
    free(s->p);
    free(s->r);
    free(s->q);
    hopbyte_halo_close(&s->halo);
    hopbyte_blocks_close(&s->blocks);
}

static void traffic_write(struct solver *s) {
    int to[6];
    double bytes[6], messages[6];
    int count = hopbyte_halo_traffic(&s->halo, 1, 1, to, bytes, messages);
    hopbyte_traffic_write(s->proxy.traffic, &s->blocks, &s->proxy.world, count, to, bytes, messages);
}

int main(int argc, char **argv) {
    struct solver s = {.n = {32, 32, 32}, .iterations = 50, .solves = 3};
    const struct hopbyte_option own[] = {
        {"cells", HOPBYTE_TRIPLE, &s.n, 1, NULL, "cells of a block along X, Y, Z (32,32,32)", 0},
        {"iterations", HOPBYTE_COUNT, &s.iterations, 12, NULL, "of a solve (50)", 0},
        {"solves", HOPBYTE_COUNT, &s.solves, 1, NULL, "how often to solve (3)", 0},
        {0}};
    hopbyte_proxy_open(&s.proxy, argc, argv, "halo_allreduce",
                       "Conjugate gradients: faces exchanged and two all-reductions an iteration.", own);
    solver_open(&s);
    if (s.proxy.traffic)
        traffic_write(&s);
    hopbyte_world_header(&s.proxy.world, hopbyte_proxy_schema, "halo_allreduce", s.proxy.json);
    MPI_Barrier(s.proxy.world.comm);
    double start = MPI_Wtime();
    long long wrong = 0;
    for (int i = 0; i < s.solves; i++) {
        solve(&s);
        wrong += wrong_count(&s);
    }
    double slowest = hopbyte_proxy_slowest(&s.proxy, MPI_Wtime() - start);
    struct hopbyte_record record;
    hopbyte_proxy_record(&s.proxy, &record, "total");
    hopbyte_record_whole(&record, "solves", s.solves, NULL);
    hopbyte_record_whole(&record, "iterations", s.solves * s.iterations, NULL);
    hopbyte_record_number(&record, "seconds", slowest, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", slowest / (s.solves * s.iterations), NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", hopbyte_proxy_slowest(&s.proxy, s.exchange), NULL, 1);
    hopbyte_record_number(&record, "allreduce_seconds", hopbyte_proxy_slowest(&s.proxy, s.reduce), NULL, 1);
    solver_close(&s);
    return hopbyte_proxy_close(&s.proxy, &record, wrong, HOPBYTE_DONE);
}
