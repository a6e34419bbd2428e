/* patches: a 3-D grid in patches, of which every rank has several and every thread some, as in WOMBAT (paper 004, III.D,
 * VII.A): each thread computes its patches and exchanges their boundaries by itself, with other threads of the rank
 * through memory and with other ranks by messages, or by puts with signals (--transport notified). Own code.
 *
 * Each step takes the seven cells around each one. Values are whole numbers, folded modulo 2048; a source term makes
 * the answer known in closed form, u(t, x, y, z) = fold(a(x) + b(y) + c(z) + d t) for every variable, with pseudo-random
 * a, b, c. Every cell of every step is compared with it.
 *
 * A face has two places for arrival, used in turn. Neighbours exchange both ways in every step: a patch that sends the
 * faces of a step has received all of the step before, whose senders had by then used those of two steps before. */
#include "hopbyte_notify.h"
#include "proxy.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { FACES = 6, HALVES = 2, LOOKS_BEFORE_YIELD = 200, YIELDS_BEFORE_NAP = 200 };

struct patch {
    int place[3], origin[3];  /* in the rank's block of patches; first cell in the grid */
    int next[FACES];          /* patch beyond the face, or -1: an open end */
    int rank[FACES];          /* its rank */
    double *now, *then, *out; /* all variables with ghosts; faces on the way */
    MPI_Request sends[FACES], receives[FACES];
    long long wrong, messages, bytes;
    double exchange;
} __attribute__((aligned(64)));

struct counter {
    uint64_t value;
} __attribute__((aligned(64)));

struct grid {
    struct hopbyte_proxy proxy;
    struct hopbyte_blocks blocks;
    int n[3], patches[3], count, variables, steps, transport;
    int extent[3];  /* cells of the whole grid */
    double *slots;  /* arrivals: patch, face, half */
    size_t face;    /* doubles of the largest face */
    double *axis[3]; /* a, b, c by variable and cell of the rank's block, with ghosts */
    struct patch *all;
    struct counter *inside; /* faces that came through memory: patch, face */
    hopbyte_notify_t notify;
};

static double axis_value(const struct grid *g, int variable, int dimension, int at) {
    if (g->proxy.periodic)
        at = (at + g->extent[dimension]) % g->extent[dimension];
    uint64_t seed = ((uint64_t)variable * 3 + (uint64_t)dimension) << 40;
    return (double)(hopbyte_scramble(seed + (uint64_t)(at + 1)) % 2048) - 1024;
}

static double drift(int variable) {
    return 2 * variable + 1;
}

/* Of a variable, from the first cell of a patch. */
static const double *axis_of(const struct grid *g, const struct patch *p, int variable, int d) {
    int cells = g->n[d] * g->patches[d];
    return g->axis[d] + (size_t)variable * (size_t)(cells + 2) + 1 + p->place[d] * g->n[d];
}

static double answer(const struct grid *g, const struct patch *p, int v, int step, int x, int y, int z) {
    return hopbyte_fold(axis_of(g, p, v, 0)[x] + axis_of(g, p, v, 1)[y] + axis_of(g, p, v, 2)[z] + drift(v) * step);
}

static size_t cells(const struct grid *g) {
    return (size_t)(g->n[0] + 2) * (size_t)(g->n[1] + 2) * (size_t)(g->n[2] + 2);
}

static size_t cell(const struct grid *g, int x, int y, int z) {
    return ((size_t)(x + 1) * (size_t)(g->n[1] + 2) + (size_t)(y + 1)) * (size_t)(g->n[2] + 2) + (size_t)(z + 1);
}

/* Doubles of a face across a dimension, all variables. */
static size_t face_values(const struct grid *g, int d) {
    return (size_t)g->n[(d + 1) % 3] * (size_t)g->n[(d + 2) % 3] * (size_t)g->variables;
}

static double *slot_of(const struct grid *g, int patch, int face, int step) {
    return g->slots + (((size_t)patch * FACES + (size_t)face) * HALVES + (size_t)(step % HALVES)) * g->face;
}

/* Copies the layer `at` across dimension d between a patch and a buffer. */
static void face_copy(const struct grid *g, double *values, int d, int at, double *buffer, bool out) {
    int low[3] = {0, 0, 0}, high[3] = {g->n[0], g->n[1], g->n[2]};
    low[d] = at;
    high[d] = at + 1;
    size_t row = (size_t)(high[2] - low[2]);
    for (int v = 0; v < g->variables; v++, values += cells(g))
        for (int x = low[0]; x < high[0]; x++)
            for (int y = low[1]; y < high[1]; y++, buffer += row) {
                double *here = values + cell(g, x, y, low[2]);
                memcpy(out ? buffer : here, out ? here : buffer, row * sizeof *here);
            }
}

static void ends_fill(const struct grid *g, struct patch *p, int face, int step) {
    int d = face / 2, at = face % 2 ? g->n[d] : -1, low[3] = {0, 0, 0}, high[3] = {g->n[0], g->n[1], g->n[2]};
    low[d] = at;
    high[d] = at + 1;
    for (int v = 0; v < g->variables; v++)
        for (int x = low[0]; x < high[0]; x++)
            for (int y = low[1]; y < high[1]; y++)
                for (int z = low[2]; z < high[2]; z++)
                    p->now[(size_t)v * cells(g) + cell(g, x, y, z)] = answer(g, p, v, step, x, y, z);
}

/* Until another thread of this rank has brought the faces of a step. */
static void inside_wait(const struct counter *counter, uint64_t least) {
    for (long looks = 0; __atomic_load_n(&counter->value, __ATOMIC_ACQUIRE) < least; looks++) {
        if (looks > LOOKS_BEFORE_YIELD + YIELDS_BEFORE_NAP)
            hopbyte_nap(50);
        else if (looks > LOOKS_BEFORE_YIELD)
            sched_yield();
    }
}

static int number_of(const struct grid *g, const struct patch *p) {
    return (int)(p - g->all);
}

/* The face beyond is the opposite one of the neighbour. */
static void face_send(struct grid *g, struct patch *p, int face, int step) {
    int d = face / 2, to = p->next[face], theirs = face ^ 1, signal = to * FACES + theirs;
    int layer = face % 2 ? g->n[d] - 1 : 0, values = (int)face_values(g, d);
    if (to < 0)
        return;
    if (p->rank[face] == g->proxy.world.rank) {
        face_copy(g, p->now, d, layer, slot_of(g, to, theirs, step), true);
        __atomic_fetch_add(&g->inside[signal].value, 1, __ATOMIC_RELEASE);
        return;
    }
    double *out = p->out + (size_t)face * g->face;
    hopbyte_wait_all(1, &p->sends[face]);
    face_copy(g, p->now, d, layer, out, true);
    if (g->transport == HOPBYTE_NOTIFIED)
        hopbyte_notify_put_signal(g->notify, out, (MPI_Aint)((size_t)values * sizeof *out), p->rank[face],
                                  (slot_of(g, to, theirs, step) - g->slots) * (MPI_Aint)sizeof *out, signal, 1);
    else
        MPI_Isend(out, values, MPI_DOUBLE, p->rank[face], signal, g->proxy.world.comm, &p->sends[face]);
    p->messages++;
    p->bytes += (long long)((size_t)values * sizeof *out);
}

static void face_expect(struct grid *g, struct patch *p, int face, int step) {
    int me = number_of(g, p);
    if (p->next[face] >= 0 && p->rank[face] != g->proxy.world.rank && g->transport == HOPBYTE_MESSAGES)
        MPI_Irecv(slot_of(g, me, face, step), (int)face_values(g, face / 2), MPI_DOUBLE, p->rank[face],
                  me * FACES + face, g->proxy.world.comm, &p->receives[face]);
}

static void face_receive(struct grid *g, struct patch *p, int face, int step) {
    int d = face / 2, me = number_of(g, p), signal = me * FACES + face;
    if (p->next[face] < 0) {
        ends_fill(g, p, face, step);
        return;
    }
    if (p->rank[face] == g->proxy.world.rank)
        inside_wait(&g->inside[signal], (uint64_t)step + 1);
    else if (g->transport == HOPBYTE_NOTIFIED)
        hopbyte_notify_wait(g->notify, signal, (uint64_t)step + 1, NULL);
    else
        hopbyte_wait_all(1, &p->receives[face]);
    face_copy(g, p->now, d, face % 2 ? g->n[d] : -1, slot_of(g, me, face, step), false);
}

/* The sum of the seven cells around each, plus the source that leads to the next step's values. */
static void stencil_apply(struct grid *g, struct patch *p, int step) {
    size_t sx = (size_t)(g->n[1] + 2) * (size_t)(g->n[2] + 2), sy = (size_t)(g->n[2] + 2);
    for (int v = 0; v < g->variables; v++) {
        const double *u = p->now + (size_t)v * cells(g);
        double *w = p->then + (size_t)v * cells(g), d = drift(v);
        const double *a = axis_of(g, p, v, 0), *b = axis_of(g, p, v, 1), *c = axis_of(g, p, v, 2);
        for (int x = 0; x < g->n[0]; x++)
            for (int y = 0; y < g->n[1]; y++) {
                const double *row = u + cell(g, x, y, 0);
                double *to = w + cell(g, x, y, 0);
                double along = a[x - 1] + 5 * a[x] + a[x + 1] + b[y - 1] + 5 * b[y] + b[y + 1] + 7 * d * step;
                for (int z = 0; z < g->n[2]; z++) {
                    double sum = row[z] + row[z - 1] + row[z + 1] + row[z - (long)sy] + row[z + (long)sy] +
                                 row[z - (long)sx] + row[z + (long)sx];
                    double right = along + c[z - 1] + 5 * c[z] + c[z + 1], next = a[x] + b[y] + c[z] + d * (step + 1);
                    to[z] = hopbyte_fold(sum + (next - right));
                    p->wrong += hopbyte_fold(to[z] - next) != 0;
                }
            }
    }
    double *swap = p->now;
    p->now = p->then;
    p->then = swap;
}

/* One thread's patches. */
static void patches_run(struct grid *g, int thread) {
    for (int step = 0; step < g->steps; step++) {
        if (thread == 0)
            hopbyte_deadline_set(g->proxy.deadline, "a time step");
        for (int q = thread; q < g->count; q += g->proxy.threads) {
            double start = MPI_Wtime();
            for (int face = 0; face < FACES; face++)
                face_expect(g, &g->all[q], face, step);
            for (int face = 0; face < FACES; face++)
                face_send(g, &g->all[q], face, step);
            g->all[q].exchange += MPI_Wtime() - start;
        }
        for (int q = thread; q < g->count; q += g->proxy.threads) {
            double start = MPI_Wtime();
            for (int face = 0; face < FACES; face++)
                face_receive(g, &g->all[q], face, step);
            g->all[q].exchange += MPI_Wtime() - start;
            stencil_apply(g, &g->all[q], step);
        }
    }
    for (int q = thread; q < g->count; q += g->proxy.threads)
        hopbyte_wait_all(FACES, g->all[q].sends);
}

/* The patch beyond a face, in this block or in the one next to it. */
static void neighbour_find(struct grid *g, struct patch *p, int face) {
    int d = face / 2, step = face % 2 ? 1 : -1, place[3] = {p->place[0], p->place[1], p->place[2]};
    int block = g->blocks.block_of[g->proxy.world.rank];
    place[d] += step;
    p->rank[face] = g->proxy.world.rank;
    if (place[d] < 0 || place[d] >= g->patches[d]) {
        int next = hopbyte_blocks_next(&g->blocks, block, d, step);
        p->next[face] = -1;
        if (next < 0)
            return;
        p->rank[face] = g->blocks.rank_of[next];
        place[d] = (place[d] + g->patches[d]) % g->patches[d];
    }
    p->next[face] = (place[0] * g->patches[1] + place[1]) * g->patches[2] + place[2];
}

static void patch_open(struct grid *g, int q, const int block[3]) {
    struct patch *p = &g->all[q];
    size_t bytes = (size_t)g->variables * cells(g) * sizeof(double);
    *p = (struct patch){.place = {q / g->patches[2] / g->patches[1], q / g->patches[2] % g->patches[1],
                                  q % g->patches[2]}};
    for (int d = 0; d < 3; d++)
        p->origin[d] = (block[d] * g->patches[d] + p->place[d]) * g->n[d];
    for (int face = 0; face < FACES; face++) {
        neighbour_find(g, p, face);
        p->sends[face] = p->receives[face] = MPI_REQUEST_NULL;
    }
    p->now = hopbyte_memory(bytes, "the grid");
    p->then = hopbyte_memory(bytes, "the grid");
    p->out = hopbyte_memory(FACES * g->face * sizeof(double), "faces");
    for (int v = 0; v < g->variables; v++)
        for (int x = 0; x < g->n[0]; x++)
            for (int y = 0; y < g->n[1]; y++)
                for (int z = 0; z < g->n[2]; z++)
                    p->now[(size_t)v * cells(g) + cell(g, x, y, z)] = answer(g, p, v, 0, x, y, z);
}

static void sizes_check(struct grid *g) {
    double cells_all = 1, largest = 0;
    for (int d = 0; d < 3; d++) {
        cells_all *= (double)(g->n[d] + 2) * g->patches[d];
        double face = (double)g->n[(d + 1) % 3] * g->n[(d + 2) % 3] * g->variables;
        largest = face > largest ? face : largest;
    }
    double patches = (double)g->patches[0] * g->patches[1] * g->patches[2];
    if (cells_all * g->variables > 1e9 || largest > 1e8 || patches > 5000)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT,
                             "found %.3g values, %.3g a face, and %.3g patches a rank, expected at most 1e9, 1e8 and "
                             "5000", cells_all * g->variables, largest, patches);
    g->count = (int)patches;
    g->face = (size_t)largest;
    if (g->proxy.threads > g->count)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d threads, expected at most the %d patches of a rank",
                             g->proxy.threads, g->count);
}

static void grid_open(struct grid *g) {
    int block[3];
    sizes_check(g);
    hopbyte_blocks_open(&g->blocks, &g->proxy.world, g->proxy.grid, g->proxy.periodic, g->proxy.map);
    hopbyte_blocks_place(&g->blocks, g->blocks.block_of[g->proxy.world.rank], block);
    for (int d = 0; d < 3; d++) {
        int mine = g->n[d] * g->patches[d];
        g->extent[d] = g->blocks.count[d] * mine;
        g->axis[d] = hopbyte_memory((size_t)g->variables * (size_t)(mine + 2) * sizeof(double), "the source");
        for (int v = 0; v < g->variables; v++)
            for (int i = -1; i <= mine; i++)
                g->axis[d][v * (mine + 2) + i + 1] = axis_value(g, v, d, block[d] * mine + i);
    }
    size_t room = (size_t)g->count * FACES * HALVES * g->face * sizeof(double);
    if (g->transport == HOPBYTE_NOTIFIED)
        hopbyte_notify_create((MPI_Aint)room, g->count * FACES, MPI_INFO_NULL, g->proxy.world.comm, &g->slots,
                              &g->notify);
    else
        g->slots = hopbyte_memory(room, "faces");
    size_t counters = (size_t)g->count * FACES * sizeof *g->inside;
    g->inside = aligned_alloc(64, counters);
    g->all = aligned_alloc(64, (size_t)g->count * sizeof *g->all);
    if (!g->inside || !g->all)
        hopbyte_world_abort(HOPBYTE_LACKING, "no memory for %d patches", g->count);
    memset(g->inside, 0, counters);
    for (int q = 0; q < g->count; q++)
        patch_open(g, q, block);
}

static void grid_close(struct grid *g) {
    for (int q = 0; q < g->count; q++) {
        free(g->all[q].now);
        free(g->all[q].then);
        free(g->all[q].out);
    }
    for (int d = 0; d < 3; d++)
        free(g->axis[d]);
    if (g->transport == HOPBYTE_NOTIFIED)
        hopbyte_notify_free(&g->notify);
    else
        free(g->slots);
    free(g->inside);
    free(g->all);
    hopbyte_blocks_close(&g->blocks);
}

/* Of the final values, by their place in the whole grid: the same for any division into ranks and patches. */
static long long checksum(const struct grid *g) {
    long long sum = 0;
    for (const struct patch *p = g->all; p < g->all + g->count; p++)
        for (int v = 0; v < g->variables; v++)
            for (int x = 0; x < g->n[0]; x++)
                for (int y = 0; y < g->n[1]; y++)
                    for (int z = 0; z < g->n[2]; z++) {
                        int place = 3 * (p->origin[0] + x) + 5 * (p->origin[1] + y) + 7 * (p->origin[2] + z) + v;
                        double value = p->now[(size_t)v * cells(g) + cell(g, x, y, z)];
                        sum += (long long)(value < 0 ? value + 2048 : value) % 2048 * (1 + place % 13);
                    }
    return sum;
}

static void traffic_write(struct grid *g) {
    int to[FACES], used = 0;
    double bytes[FACES], messages[FACES];
    for (int d = 0; d < 3; d++)
        for (int up = 0; up < 2; up++) {
            int next = hopbyte_blocks_next(&g->blocks, g->blocks.block_of[g->proxy.world.rank], d, up ? 1 : -1);
            if (next < 0)
                continue;
            to[used] = next;
            messages[used] = (double)g->patches[(d + 1) % 3] * g->patches[(d + 2) % 3];
            bytes[used] = messages[used] * (double)face_values(g, d) * sizeof(double);
            used++;
        }
    hopbyte_traffic_write(g->proxy.traffic, &g->blocks, &g->proxy.world, used, to, bytes, messages);
}

int main(int argc, char **argv) {
    static struct grid g = {.n = {8, 8, 8}, .patches = {2, 2, 2}, .variables = 8, .steps = 20};
    const struct hopbyte_option own[] = {
        {"cells", HOPBYTE_TRIPLE, &g.n, 1, NULL, "cells of a patch along X, Y, Z (8,8,8)", 0},
        {"patches", HOPBYTE_TRIPLE, &g.patches, 1, NULL, "patches of a rank along X, Y, Z (2,2,2)", 0},
        {"variables", HOPBYTE_COUNT, &g.variables, 1, NULL, "values a cell (8)", 0},
        {"steps", HOPBYTE_COUNT, &g.steps, 1, NULL, "time steps (20)", 0},
        {"threads", HOPBYTE_COUNT, &g.proxy.threads, 1, NULL, "threads per rank (1)", 0},
        {"transport", HOPBYTE_CHOICE, &g.transport, 0, HOPBYTE_TRANSPORTS,
         "point-to-point, or puts with signals (messages)", 0},
        {0}};
    hopbyte_proxy_open(&g.proxy, argc, argv, "patches",
                       "Patches of a grid, exchanged by the threads that compute them.", own);
    grid_open(&g);
    if (g.proxy.traffic)
        traffic_write(&g);
    hopbyte_world_header(&g.proxy.world, hopbyte_proxy_schema, "patches", g.proxy.json);
    MPI_Barrier(g.proxy.world.comm);
    double start = MPI_Wtime();
#pragma omp parallel for num_threads(g.proxy.threads) schedule(static, 1)
    for (int t = 0; t < g.proxy.threads; t++)
        patches_run(&g, t);
    double slowest = hopbyte_proxy_slowest(&g.proxy, MPI_Wtime() - start), exchange = 0;
    long long wrong = 0, mine[2] = {0}, all[2];
    for (int q = 0; q < g.count; q++) {
        wrong += g.all[q].wrong;
        exchange += g.all[q].exchange / g.proxy.threads;
        mine[0] += g.all[q].messages;
        mine[1] += g.all[q].bytes;
    }
    MPI_Allreduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, g.proxy.world.comm);
    struct hopbyte_record record;
    hopbyte_proxy_record(&g.proxy, &record, "total");
    hopbyte_record_whole(&record, "steps", g.steps, NULL);
    hopbyte_record_number(&record, "seconds", slowest, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", slowest / g.steps, NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", hopbyte_proxy_slowest(&g.proxy, exchange), NULL, 1);
    hopbyte_record_whole(&record, "messages", all[0], NULL);
    hopbyte_record_whole(&record, "bytes", all[1], NULL);
    hopbyte_proxy_threads(&g.proxy, &record, g.transport, checksum(&g));
    grid_close(&g);
    return hopbyte_proxy_close(&g.proxy, &record, wrong, HOPBYTE_DONE);
}
