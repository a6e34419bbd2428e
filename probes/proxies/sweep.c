/* sweep: discrete ordinates by the KBA wavefront, as in SNAP, Sweep3D and Partisn (papers 001, 4.1 and 004, III.E):
 * a 2-D grid of blocks, eight octants, planes in chunks; faces come from upstream in X and Y and go on downstream.
 *
 * Values are whole numbers, folded modulo 2048. The source makes the answer known in closed form, S = a(x) + b(y) +
 * c(z) + 37 angle for every octant, with pseudo-random a, b, c; every cell is compared with it at once. */
#include "proxy.h"

#include <stdlib.h>

enum { OCTANTS = 8 };

struct sweep {
    struct hopbyte_proxy proxy;
    struct hopbyte_blocks blocks;
    int n[3], angles, chunk, iterations;
    int origin[3];
    int octant, sign[3];    /* of the current octant */
    double *axis[3];        /* a, b, c of this octant, with one ghost at each end */
    double *in[2], *out[2]; /* faces in X: y, z, angle; in Y: x, z, angle */
    double *below;          /* carried along Z: x, y, angle */
    MPI_Request sends[2];
    double exchange, messages, bytes;
    long long wrong;
};

static double axis_value(int octant, int dimension, int at) {
    uint64_t seed = ((uint64_t)octant * 3 + (uint64_t)dimension) << 40;
    return (double)(hopbyte_scramble(seed + (uint64_t)(at + 1)) % 2048) - 1024;
}

static double answer(const struct sweep *s, int x, int y, int z, int angle) {
    return s->axis[0][x + 1] + s->axis[1][y + 1] + s->axis[2][z + 1] + 37.0 * angle;
}

static void octant_start(struct sweep *s, int octant) {
    s->octant = octant;
    for (int d = 0; d < 3; d++) {
        s->sign[d] = octant >> d & 1 ? -1 : 1;
        for (int i = -1; i <= s->n[d]; i++)
            s->axis[d][i + 1] = axis_value(octant, d, s->origin[d] + i);
    }
    int before = s->sign[2] > 0 ? -1 : s->n[2];
    for (int x = 0, i = 0; x < s->n[0]; x++)
        for (int y = 0; y < s->n[1]; y++)
            for (int a = 0; a < s->angles; a++)
                s->below[i++] = hopbyte_fold(answer(s, x, y, before, a));
}

/* Doubles of a face across dimension d for some planes. */
static size_t face_values(const struct sweep *s, int d, int planes) {
    return (size_t)s->n[1 - d] * (size_t)planes * (size_t)s->angles;
}

/* The rank upstream or downstream along dimension d, or MPI_PROC_NULL. */
static int along(const struct sweep *s, int d, int way) {
    int block = hopbyte_blocks_next(&s->blocks, s->blocks.block_of[s->proxy.world.rank], d, way * s->sign[d]);
    return block < 0 ? MPI_PROC_NULL : s->blocks.rank_of[block];
}

/* Faces from upstream, or the given inflow at the edge of the grid. */
static void faces_receive(struct sweep *s, int first, int planes) {
    for (int d = 0; d < 2; d++) {
        int from = along(s, d, -1);
        if (from != MPI_PROC_NULL) {
            hopbyte_wait_receive(s->in[d], (int)face_values(s, d, planes), MPI_DOUBLE, from, 2 * s->octant + d,
                                 s->proxy.world.comm);
            continue;
        }
        int outside = s->sign[d] > 0 ? -1 : s->n[d];
        for (int u = 0, i = 0; u < s->n[1 - d]; u++)
            for (int k = 0; k < planes; k++)
                for (int a = 0; a < s->angles; a++) {
                    int z = first + k * s->sign[2];
                    s->in[d][i++] = hopbyte_fold(d ? answer(s, u, outside, z, a) : answer(s, outside, u, z, a));
                }
    }
}

static void faces_send(struct sweep *s, int planes) {
    for (int d = 0; d < 2; d++) {
        size_t values = face_values(s, d, planes);
        int to = along(s, d, 1);
        hopbyte_wait_all(1, &s->sends[d]);
        for (size_t i = 0; to != MPI_PROC_NULL && i < values; i++)
            s->out[d][i] = s->in[d][i];
        MPI_Isend(s->out[d], (int)values, MPI_DOUBLE, to, 2 * s->octant + d, s->proxy.world.comm, &s->sends[d]);
        s->messages += to != MPI_PROC_NULL;
        s->bytes += to != MPI_PROC_NULL ? (double)values * sizeof(double) : 0;
    }
}

/* All angles of a cell: computes its values from those upstream and overwrites them. */
static void cell_solve(struct sweep *s, int x, int y, int z, double *from_x, double *from_y, double *from_z) {
    for (int a = 0; a < s->angles; a++) {
        double here = answer(s, x, y, z, a);
        double source = here - answer(s, x - s->sign[0], y, z, a) - 2 * answer(s, x, y - s->sign[1], z, a) -
                        3 * answer(s, x, y, z - s->sign[2], a);
        double value = hopbyte_fold(from_x[a] + 2 * from_y[a] + 3 * from_z[a] + source);
        s->wrong += hopbyte_fold(value - here) != 0;
        from_x[a] = from_y[a] = from_z[a] = value;
    }
}

static void chunk_solve(struct sweep *s, int first, int planes) {
    for (int k = 0; k < planes; k++)
        for (int i = 0; i < s->n[0]; i++)
            for (int j = 0; j < s->n[1]; j++) {
                int x = s->sign[0] > 0 ? i : s->n[0] - 1 - i, y = s->sign[1] > 0 ? j : s->n[1] - 1 - j;
                size_t angles = (size_t)s->angles;
                cell_solve(s, x, y, first + k * s->sign[2],
                           s->in[0] + ((size_t)y * (size_t)planes + (size_t)k) * angles,
                           s->in[1] + ((size_t)x * (size_t)planes + (size_t)k) * angles,
                           s->below + ((size_t)x * (size_t)s->n[1] + (size_t)y) * angles);
            }
}

static void octant_sweep(struct sweep *s, int octant) {
    octant_start(s, octant);
    for (int done = 0; done < s->n[2]; done += s->chunk) {
        int planes = s->n[2] - done < s->chunk ? s->n[2] - done : s->chunk;
        int first = s->sign[2] > 0 ? done : s->n[2] - 1 - done;
        double start = MPI_Wtime();
        faces_receive(s, first, planes);
        s->exchange += MPI_Wtime() - start;
        chunk_solve(s, first, planes);
        start = MPI_Wtime();
        faces_send(s, planes);
        s->exchange += MPI_Wtime() - start;
    }
}

static void sweep_open(struct sweep *s) {
    int grid[3] = {s->proxy.grid[0], s->proxy.grid[1], s->proxy.grid[2]}, flat[2] = {0, 0}, place[3];
    if (!grid[0]) {
        MPI_Dims_create(s->proxy.world.size, 2, flat);
        grid[0] = flat[0], grid[1] = flat[1], grid[2] = 1;
    }
    if (grid[2] != 1 || s->proxy.periodic)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %s, expected an open grid with one block along Z",
                             s->proxy.periodic ? "--periodic" : "several blocks along Z");
    hopbyte_blocks_open(&s->blocks, &s->proxy.world, grid, false, s->proxy.map);
    hopbyte_blocks_place(&s->blocks, s->blocks.block_of[s->proxy.world.rank], place);
    s->chunk = s->chunk < s->n[2] ? s->chunk : s->n[2];
    for (int d = 0; d < 3; d++) {
        s->origin[d] = place[d] * s->n[d];
        s->axis[d] = hopbyte_memory((size_t)(s->n[d] + 2) * sizeof(double), "the source");
    }
    for (int d = 0; d < 2; d++) {
        size_t bytes = face_values(s, d, s->chunk) * sizeof(double);
        if (bytes > 1600000000)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found faces of %zu bytes, expected at most 1.6 GB", bytes);
        s->in[d] = hopbyte_memory(bytes, "faces");
        s->out[d] = hopbyte_memory(bytes, "faces");
        s->sends[d] = MPI_REQUEST_NULL;
    }
    s->below = hopbyte_memory((size_t)s->n[0] * (size_t)s->n[1] * (size_t)s->angles * sizeof(double), "faces");
}

static void sweep_close(struct sweep *s) {
    for (int d = 0; d < 3; d++)
        free(s->axis[d]);
    for (int d = 0; d < 2; d++) {
        free(s->in[d]);
        free(s->out[d]);
    }
    free(s->below);
    hopbyte_blocks_close(&s->blocks);
}

/* A full iteration sends both ways along X and Y, four octants each. */
static void traffic_write(struct sweep *s) {
    int to[4], count = 0, block = s->blocks.block_of[s->proxy.world.rank];
    double bytes[4], messages[4];
    for (int d = 0; d < 2; d++)
        for (int step = -1; step <= 1; step += 2) {
            int next = hopbyte_blocks_next(&s->blocks, block, d, step);
            if (next < 0)
                continue;
            to[count] = next;
            bytes[count] = 4.0 * (double)face_values(s, d, s->n[2]) * sizeof(double);
            messages[count++] = 4.0 * ((s->n[2] + s->chunk - 1) / s->chunk);
        }
    hopbyte_traffic_write(s->proxy.traffic, &s->blocks, &s->proxy.world, count, to, bytes, messages);
}

int main(int argc, char **argv) {
    struct sweep s = {.n = {16, 16, 32}, .angles = 8, .chunk = 4, .iterations = 5};
    const struct hopbyte_option own[] = {
        {"cells", HOPBYTE_TRIPLE, &s.n, 1, NULL, "cells of a block along X, Y, Z (16,16,32)", 0},
        {"angles", HOPBYTE_COUNT, &s.angles, 1, NULL, "angles an octant (8)", 0},
        {"chunk", HOPBYTE_COUNT, &s.chunk, 1, NULL, "planes a message (4)", 0},
        {"iterations", HOPBYTE_COUNT, &s.iterations, 1, NULL, "sweeps of all eight octants (5)", 0},
        {0}};
    hopbyte_proxy_open(&s.proxy, argc, argv, "sweep", "Discrete ordinates by a KBA wavefront on a 2-D grid of blocks.",
                       own);
    sweep_open(&s);
    if (s.proxy.traffic)
        traffic_write(&s);
    hopbyte_world_header(&s.proxy.world, hopbyte_proxy_schema, "sweep", s.proxy.json);
    MPI_Barrier(s.proxy.world.comm);
    double start = MPI_Wtime();
    for (int i = 0; i < s.iterations; i++)
        for (int octant = 0; octant < OCTANTS; octant++) {
            hopbyte_deadline_set(s.proxy.deadline, "an octant");
            octant_sweep(&s, octant);
        }
    hopbyte_wait_all(2, s.sends);
    double slowest = hopbyte_proxy_slowest(&s.proxy, MPI_Wtime() - start), mine[2] = {s.messages, s.bytes}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, s.proxy.world.comm);
    struct hopbyte_record record;
    hopbyte_proxy_record(&s.proxy, &record, "total");
    hopbyte_record_whole(&record, "iterations", s.iterations, NULL);
    hopbyte_record_number(&record, "seconds", slowest, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", slowest / s.iterations, NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", hopbyte_proxy_slowest(&s.proxy, s.exchange), NULL, 1);
    hopbyte_record_whole(&record, "messages", (long long)all[0], NULL);
    hopbyte_record_whole(&record, "bytes", (long long)all[1], NULL);
    sweep_close(&s);
    return hopbyte_proxy_close(&s.proxy, &record, s.wrong, HOPBYTE_DONE);
}
