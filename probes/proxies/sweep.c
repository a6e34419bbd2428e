/* sweep: discrete ordinates by the KBA wavefront, as in SNAP, Sweep3D and Partisn (papers 001, 4.1 and 004, III.E, VII.B):
 * a 2-D grid of blocks, eight octants, planes in chunks; faces come from upstream in X and Y and go on downstream.
 *
 * As in SNAP, the energy groups are divided between the threads of a rank, and every thread communicates for its own
 * groups: by messages, or by puts with signals into a window with room for all groups (--transport notified).
 *
 * Values are whole numbers, folded modulo 2048. The source makes the answer known in closed form, S = a(x) + b(y) +
 * c(z) + 37 angle + 101 group for every octant, with pseudo-random a, b, c; every cell is compared with it at once. */
#include "hopbyte_notify.h"
#include "proxy.h"

#include <stdlib.h>

enum { OCTANTS = 8, HALVES = 2 };

struct sweep {
    struct hopbyte_proxy proxy;
    struct hopbyte_blocks blocks;
    int n[3], angles, groups, chunk, iterations, transport;
    int origin[3];
    double *axis[OCTANTS][3]; /* a, b, c of an octant, with one ghost at each end */
    hopbyte_notify_t notify;
    double *slots; /* notified: the window, by group, dimension, side, half, chunk */
    int chunks;    /* of an octant */
    struct lane *lanes;
};

/* What one thread works with. */
struct lane {
    struct sweep *s;
    int octant, group, sign[3];
    double *in[2], *out[2]; /* faces in X: y, z, angle; in Y: x, z, angle */
    double *below;          /* carried along Z: x, y, angle */
    MPI_Request sends[2];
    double exchange, messages, bytes;
    long long wrong, checksum;
} __attribute__((aligned(64)));

static double axis_value(int octant, int dimension, int at) {
    uint64_t seed = ((uint64_t)octant * 3 + (uint64_t)dimension) << 40;
    return (double)(hopbyte_scramble(seed + (uint64_t)(at + 1)) % 2048) - 1024;
}

static double answer(const struct lane *l, int x, int y, int z, int angle) {
    double *const *axis = l->s->axis[l->octant];
    return axis[0][x + 1] + axis[1][y + 1] + axis[2][z + 1] + 37.0 * angle + 101.0 * l->group;
}

static void octant_start(struct lane *l, int octant, int group) {
    const struct sweep *s = l->s;
    l->octant = octant;
    l->group = group;
    for (int d = 0; d < 3; d++)
        l->sign[d] = octant >> d & 1 ? -1 : 1;
    int before = l->sign[2] > 0 ? -1 : s->n[2];
    for (int x = 0, i = 0; x < s->n[0]; x++)
        for (int y = 0; y < s->n[1]; y++)
            for (int a = 0; a < s->angles; a++)
                l->below[i++] = hopbyte_fold(answer(l, x, y, before, a));
}

/* Doubles of a face across dimension d for some planes. */
static size_t face_values(const struct sweep *s, int d, int planes) {
    return (size_t)s->n[1 - d] * (size_t)planes * (size_t)s->angles;
}

/* The rank upstream or downstream along dimension d, or MPI_PROC_NULL. */
static int along(const struct lane *l, int d, int way) {
    const struct sweep *s = l->s;
    int block = hopbyte_blocks_next(&s->blocks, s->blocks.block_of[s->proxy.world.rank], d, way * l->sign[d]);
    return block < 0 ? MPI_PROC_NULL : s->blocks.rank_of[block];
}

static int tag_of(const struct lane *l, int d) {
    return (l->group * OCTANTS + l->octant) * 2 + d;
}

/* The given inflow at the edge of the grid. */
static void inflow(struct lane *l, int d, int first, int planes) {
    const struct sweep *s = l->s;
    int outside = l->sign[d] > 0 ? -1 : s->n[d];
    for (int u = 0, i = 0; u < s->n[1 - d]; u++)
        for (int k = 0; k < planes; k++)
            for (int a = 0; a < s->angles; a++) {
                int z = first + k * l->sign[2];
                l->in[d][i++] = hopbyte_fold(d ? answer(l, u, outside, z, a) : answer(l, outside, u, z, a));
            }
}

static void count(struct lane *l, int d, int planes) {
    l->messages++;
    l->bytes += (double)face_values(l->s, d, planes) * sizeof(double);
}

static void message_receive(struct lane *l, int d, int from, int planes) {
    hopbyte_wait_receive(l->in[d], (int)face_values(l->s, d, planes), MPI_DOUBLE, from, tag_of(l, d),
                         l->s->proxy.world.comm);
}

static void message_send(struct lane *l, int d, int to, int planes) {
    size_t values = face_values(l->s, d, planes);
    hopbyte_wait_all(1, &l->sends[d]);
    for (size_t i = 0; i < values; i++)
        l->out[d][i] = l->in[d][i];
    MPI_Isend(l->out[d], (int)values, MPI_DOUBLE, to, tag_of(l, d), l->s->proxy.world.comm, &l->sends[d]);
}

/* Notified: faces of an octant have a slot each, in one of two halves of the room of (group, dimension, side). Octants of
 * a side alternate between the halves, and a sender enters a half when the receiver has left it. Four octants of an
 * iteration come from a side; `turn` counts them from the start. */
static int turn_of(const struct lane *l, int d, int iteration) {
    int turn = 0;
    for (int octant = 0; octant < l->octant; octant++)
        turn += (octant >> d & 1) == (l->octant >> d & 1);
    return iteration * (OCTANTS / 2) + turn;
}

static size_t slot_of(const struct lane *l, int d, int turn, int chunk) {
    const struct sweep *s = l->s;
    size_t room = (size_t)s->chunks * HALVES, place = (size_t)(turn % HALVES) * (size_t)s->chunks + (size_t)chunk;
    size_t x = face_values(s, 0, s->chunk), y = face_values(s, 1, s->chunk), side = l->sign[d] < 0;
    size_t before = (size_t)l->group * 2 * room * (x + y) + (d ? 2 * room * x : 0);
    return before + (side * room + place) * (d ? y : x);
}

/* Signals of (group, dimension, side): faces that came, and octants that the receiver has left. */
static int signal_of(const struct lane *l, int d, int left) {
    return ((l->group * 2 + d) * 2 + (l->sign[d] < 0)) * 2 + left;
}

static void face_take(struct lane *l, int d, int iteration, int chunk) {
    int turn = turn_of(l, d, iteration);
    l->in[d] = l->s->slots + slot_of(l, d, turn, chunk);
    hopbyte_notify_wait(l->s->notify, signal_of(l, d, 0), (uint64_t)turn * (uint64_t)l->s->chunks + (uint64_t)chunk + 1,
                        NULL);
}

/* Straight from the slot in which the face came and was computed on. */
static void face_put(struct lane *l, int d, int to, int iteration, int chunk, int planes) {
    struct sweep *s = l->s;
    int turn = turn_of(l, d, iteration);
    if (chunk == 0 && turn >= HALVES)
        hopbyte_notify_wait(s->notify, signal_of(l, d, 1), (uint64_t)(turn - HALVES + 1), NULL);
    hopbyte_notify_put_signal(s->notify, l->in[d], (MPI_Aint)(face_values(s, d, planes) * sizeof(double)), to,
                              (MPI_Aint)(slot_of(l, d, turn, chunk) * sizeof(double)), signal_of(l, d, 0), 1);
}

static void octant_leave(struct lane *l) {
    for (int d = 0; d < 2; d++)
        hopbyte_notify_signal(l->s->notify, along(l, d, -1), signal_of(l, d, 1), 1);
}

/* Faces from upstream, or the given inflow at the edge of the grid. */
static void faces_receive(struct lane *l, int iteration, int chunk, int first, int planes) {
    for (int d = 0; d < 2; d++) {
        int from = along(l, d, -1);
        if (l->s->transport == HOPBYTE_NOTIFIED)
            l->in[d] = l->out[d];
        if (from == MPI_PROC_NULL)
            inflow(l, d, first, planes);
        else if (l->s->transport == HOPBYTE_NOTIFIED)
            face_take(l, d, iteration, chunk);
        else
            message_receive(l, d, from, planes);
    }
}

static void faces_send(struct lane *l, int iteration, int chunk, int planes) {
    for (int d = 0; d < 2; d++) {
        int to = along(l, d, 1);
        if (to == MPI_PROC_NULL)
            continue;
        if (l->s->transport == HOPBYTE_NOTIFIED)
            face_put(l, d, to, iteration, chunk, planes);
        else
            message_send(l, d, to, planes);
        count(l, d, planes);
    }
}

/* All angles of a cell: computes its values from those upstream and overwrites them. */
static void cell_solve(struct lane *l, int x, int y, int z, double *from_x, double *from_y, double *from_z) {
    long long sum = 0;
    for (int a = 0; a < l->s->angles; a++) {
        double here = answer(l, x, y, z, a);
        double source = here - answer(l, x - l->sign[0], y, z, a) - 2 * answer(l, x, y - l->sign[1], z, a) -
                        3 * answer(l, x, y, z - l->sign[2], a);
        double value = hopbyte_fold(from_x[a] + 2 * from_y[a] + 3 * from_z[a] + source);
        l->wrong += hopbyte_fold(value - here) != 0;
        from_x[a] = from_y[a] = from_z[a] = value;
        sum += (long long)value * (a + 1);
    }
    l->checksum += sum;
}

static void chunk_solve(struct lane *l, int first, int planes) {
    const struct sweep *s = l->s;
    for (int k = 0; k < planes; k++)
        for (int i = 0; i < s->n[0]; i++)
            for (int j = 0; j < s->n[1]; j++) {
                int x = l->sign[0] > 0 ? i : s->n[0] - 1 - i, y = l->sign[1] > 0 ? j : s->n[1] - 1 - j;
                size_t angles = (size_t)s->angles;
                cell_solve(l, x, y, first + k * l->sign[2],
                           l->in[0] + ((size_t)y * (size_t)planes + (size_t)k) * angles,
                           l->in[1] + ((size_t)x * (size_t)planes + (size_t)k) * angles,
                           l->below + ((size_t)x * (size_t)s->n[1] + (size_t)y) * angles);
            }
}

static void octant_sweep(struct lane *l, int iteration, int octant, int group) {
    const struct sweep *s = l->s;
    octant_start(l, octant, group);
    for (int done = 0, chunk = 0; done < s->n[2]; done += s->chunk, chunk++) {
        int planes = s->n[2] - done < s->chunk ? s->n[2] - done : s->chunk;
        int first = l->sign[2] > 0 ? done : s->n[2] - 1 - done;
        double start = MPI_Wtime();
        faces_receive(l, iteration, chunk, first, planes);
        l->exchange += MPI_Wtime() - start;
        chunk_solve(l, first, planes);
        start = MPI_Wtime();
        faces_send(l, iteration, chunk, planes);
        l->exchange += MPI_Wtime() - start;
    }
    if (s->transport == HOPBYTE_NOTIFIED)
        octant_leave(l);
}

/* One thread's groups; the threads of a rank meet only at the end. */
static void lane_run(struct lane *l, int first) {
    struct sweep *s = l->s;
    for (int i = 0; i < s->iterations; i++)
        for (int octant = 0; octant < OCTANTS; octant++)
            for (int group = first; group < s->groups; group += s->proxy.threads) {
                if (first == 0)
                    hopbyte_deadline_set(s->proxy.deadline, "an octant");
                octant_sweep(l, i, octant, group);
            }
    hopbyte_wait_all(2, l->sends);
}

static void window_open(struct sweep *s) {
    size_t values = 2 * HALVES * (size_t)s->groups * (size_t)s->chunks *
                    (face_values(s, 0, s->chunk) + face_values(s, 1, s->chunk));
    if (values > 500000000)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found a window of %zu values, expected at most 500 million", values);
    hopbyte_notify_create((MPI_Aint)(values * sizeof(double)), s->groups * 8, MPI_INFO_NULL, s->proxy.world.comm,
                          &s->slots, &s->notify);
}

static void sweep_open(struct sweep *s) {
    int grid[3] = {s->proxy.grid[0], s->proxy.grid[1], s->proxy.grid[2]}, flat[2] = {0, 0}, place[3], *most, found;
    if (!grid[0]) {
        MPI_Dims_create(s->proxy.world.size, 2, flat);
        grid[0] = flat[0], grid[1] = flat[1], grid[2] = 1;
    }
    if (grid[2] != 1 || s->proxy.periodic)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %s, expected an open grid with one block along Z",
                             s->proxy.periodic ? "--periodic" : "several blocks along Z");
    MPI_Comm_get_attr(s->proxy.world.comm, MPI_TAG_UB, &most, &found);
    if (s->proxy.threads > s->groups || s->groups > 100000 || (found && s->groups * OCTANTS * 2 > *most))
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d groups for %d threads, expected one or more per thread, at "
                             "most 100000 and a tag for each", s->groups, s->proxy.threads);
    hopbyte_blocks_open(&s->blocks, &s->proxy.world, grid, false, s->proxy.map);
    hopbyte_blocks_place(&s->blocks, s->blocks.block_of[s->proxy.world.rank], place);
    s->chunk = s->chunk < s->n[2] ? s->chunk : s->n[2];
    s->chunks = (s->n[2] + s->chunk - 1) / s->chunk;
    for (int d = 0; d < 3; d++) {
        s->origin[d] = place[d] * s->n[d];
        for (int octant = 0; octant < OCTANTS; octant++) {
            s->axis[octant][d] = hopbyte_memory((size_t)(s->n[d] + 2) * sizeof(double), "the source");
            for (int i = -1; i <= s->n[d]; i++)
                s->axis[octant][d][i + 1] = axis_value(octant, d, s->origin[d] + i);
        }
    }
    for (int d = 0; d < 2; d++)
        if (face_values(s, d, s->chunk) * sizeof(double) > 1600000000)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found faces of %zu bytes, expected at most 1.6 GB",
                                 face_values(s, d, s->chunk) * sizeof(double));
    if (s->transport == HOPBYTE_NOTIFIED)
        window_open(s);
    s->lanes = aligned_alloc(64, (size_t)s->proxy.threads * sizeof *s->lanes);
    if (!s->lanes)
        hopbyte_world_abort(HOPBYTE_LACKING, "no memory for %d threads", s->proxy.threads);
}

/* Notified: `out` is for faces that do not come from a slot. */
static void lane_open(struct sweep *s, struct lane *l) {
    *l = (struct lane){.s = s};
    for (int d = 0; d < 2; d++) {
        size_t bytes = face_values(s, d, s->chunk) * sizeof(double);
        l->in[d] = s->transport == HOPBYTE_NOTIFIED ? NULL : hopbyte_memory(bytes, "faces");
        l->out[d] = hopbyte_memory(bytes, "faces");
        l->sends[d] = MPI_REQUEST_NULL;
    }
    l->below = hopbyte_memory((size_t)s->n[0] * (size_t)s->n[1] * (size_t)s->angles * sizeof(double), "faces");
}

static void sweep_close(struct sweep *s) {
    for (int d = 0; d < 3; d++)
        for (int octant = 0; octant < OCTANTS; octant++)
            free(s->axis[octant][d]);
    for (int t = 0; t < s->proxy.threads; t++) {
        for (int d = 0; d < 2; d++) {
            if (s->transport != HOPBYTE_NOTIFIED)
                free(s->lanes[t].in[d]);
            free(s->lanes[t].out[d]);
        }
        free(s->lanes[t].below);
    }
    free(s->lanes);
    if (s->transport == HOPBYTE_NOTIFIED)
        hopbyte_notify_free(&s->notify);
    hopbyte_blocks_close(&s->blocks);
}

/* A full iteration sends both ways along X and Y, four octants each. */
static void traffic_write(struct sweep *s) {
    int to[4], used = 0, block = s->blocks.block_of[s->proxy.world.rank];
    double bytes[4], messages[4];
    for (int d = 0; d < 2; d++)
        for (int step = -1; step <= 1; step += 2) {
            int next = hopbyte_blocks_next(&s->blocks, block, d, step);
            if (next < 0)
                continue;
            to[used] = next;
            bytes[used] = 4.0 * s->groups * (double)face_values(s, d, s->n[2]) * sizeof(double);
            messages[used++] = 4.0 * s->groups * s->chunks;
        }
    hopbyte_traffic_write(s->proxy.traffic, &s->blocks, &s->proxy.world, used, to, bytes, messages);
}

int main(int argc, char **argv) {
    static struct sweep s = {.n = {16, 16, 32}, .angles = 8, .groups = 1, .chunk = 4, .iterations = 5};
    const struct hopbyte_option own[] = {
        {"cells", HOPBYTE_TRIPLE, &s.n, 1, NULL, "cells of a block along X, Y, Z (16,16,32)", 0},
        {"angles", HOPBYTE_COUNT, &s.angles, 1, NULL, "angles an octant (8)", 0},
        {"groups", HOPBYTE_COUNT, &s.groups, 1, NULL, "energy groups, divided between the threads (1)", 0},
        {"threads", HOPBYTE_COUNT, &s.proxy.threads, 1, NULL, "threads per rank (1)", 0},
        {"transport", HOPBYTE_CHOICE, &s.transport, 0, HOPBYTE_TRANSPORTS,
         "point-to-point, or puts with signals (messages)", 0},
        {"chunk", HOPBYTE_COUNT, &s.chunk, 1, NULL, "planes a message (4)", 0},
        {"iterations", HOPBYTE_COUNT, &s.iterations, 1, NULL, "sweeps of all eight octants (5)", 0},
        {0}};
    hopbyte_proxy_open(&s.proxy, argc, argv, "sweep", "Discrete ordinates by a KBA wavefront on a 2-D grid of blocks.",
                       own);
    sweep_open(&s);
    if (s.proxy.traffic)
        traffic_write(&s);
    hopbyte_world_header(&s.proxy.world, hopbyte_proxy_schema, "sweep", s.proxy.json);
    for (int t = 0; t < s.proxy.threads; t++)
        lane_open(&s, &s.lanes[t]);
    MPI_Barrier(s.proxy.world.comm);
    double start = MPI_Wtime();
#pragma omp parallel for num_threads(s.proxy.threads) schedule(static, 1)
    for (int t = 0; t < s.proxy.threads; t++)
        lane_run(&s.lanes[t], t);
    double slowest = hopbyte_proxy_slowest(&s.proxy, MPI_Wtime() - start), mine[2] = {0}, all[2], exchange = 0;
    long long wrong = 0, checksum = 0;
    for (int t = 0; t < s.proxy.threads; t++) {
        mine[0] += s.lanes[t].messages;
        mine[1] += s.lanes[t].bytes;
        exchange += s.lanes[t].exchange / s.proxy.threads;
        wrong += s.lanes[t].wrong;
        checksum += s.lanes[t].checksum;
    }
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, s.proxy.world.comm);
    struct hopbyte_record record;
    hopbyte_proxy_record(&s.proxy, &record, "total");
    hopbyte_record_whole(&record, "iterations", s.iterations, NULL);
    hopbyte_record_number(&record, "seconds", slowest, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", slowest / s.iterations, NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", hopbyte_proxy_slowest(&s.proxy, exchange), NULL, 1);
    hopbyte_record_whole(&record, "messages", (long long)all[0], NULL);
    hopbyte_record_whole(&record, "bytes", (long long)all[1], NULL);
    hopbyte_proxy_threads(&s.proxy, &record, s.transport, checksum);
    sweep_close(&s);
    return hopbyte_proxy_close(&s.proxy, &record, wrong, HOPBYTE_DONE);
}
