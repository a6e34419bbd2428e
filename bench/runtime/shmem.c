/* shmem put|reduce-set|reduce-team BYTES… : OpenSHMEM figures of paper 004, a JSON line for each size from PE 0.
 *
 * put: two PEs write to each other at once (Fig. 6), windows of 64: `stream` completes once per window, as the standard
 * asks, and `strict` after every put, as Cray SHMEM did before MPT 7.4.
 * reduce-set, reduce-team: sum of doubles over all PEs (Figs. 7 and 8), by the active set or the team of all PEs. */
#include "hopbyte_shmem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 64, TRIALS = 5 };
static const double trial_seconds = 0.02;

static int me, pes;
static double *to, *from, *work;

static long iterations;   /* symmetric: PE 0's choice */
static long *sync_reduce;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put(size_t bytes, int strict)
{
    int other = me ^ 1;
    for (int i = 0; other < pes && i < WINDOW; i++) {
        shmem_putmem(to, from, bytes, other);
        if (strict)
            shmem_quiet();
    }
    shmem_quiet();
}

static void reduce_set(size_t bytes, int unused)
{
    (void)unused;
    shmem_double_sum_to_all(to, from, (int)(bytes / 8), 0, 0, pes, work, sync_reduce);
    shmem_barrier_all(); /* pSync may be used again */
}

static void reduce_team(size_t bytes, int unused)
{
    (void)unused;
    shmemx_team_double_sum_to_all(HOPBYTE_TEAM_WORLD, to, from, (int)(bytes / 8), NULL, NULL);
    shmem_barrier_all();
}

static double once(void (*work_on)(size_t, int), size_t bytes, int argument, long count)
{
    shmem_barrier_all();
    double begun = now();
    for (long i = 0; i < count; i++)
        work_on(bytes, argument);
    return (now() - begun) / (double)count;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *what, const char *series, void (*work_on)(size_t, int), size_t bytes, int argument)
{
    double seconds[TRIALS];
    double first = once(work_on, bytes, argument, 1);
    first = fmin(first, once(work_on, bytes, argument, 1));
    iterations = (long)fmax(1, fmin(10000, trial_seconds / first));
    shmem_barrier_all();
    long count = 0;
    shmem_getmem(&count, &iterations, sizeof count, 0);
    for (int i = 0; i < TRIALS; i++)
        seconds[i] = once(work_on, bytes, argument, count);
    qsort(seconds, TRIALS, sizeof *seconds, compare);
    if (me == 0)
        printf("{\"probe\":\"%s\",\"series\":\"%s\",\"pes\":%d,\"bytes\":%zu,\"median_seconds\":%.9g,"
               "\"least_seconds\":%.9g,\"most_seconds\":%.9g,\"iterations\":%ld}\n",
               what, series, pes, bytes, seconds[TRIALS / 2], seconds[0], seconds[TRIALS - 1], count);
    fflush(stdout);
}

/* The reduction's result, all elements. */
static int wrong(size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes / 8; i++)
        count += to[i] != (double)pes * (double)(i % 97) + (double)pes * (pes - 1) / 2;
    return count;
}

int main(int argc, char **argv)
{
    size_t largest = 64;
    int bad = 0;
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    for (int i = 2; i < argc; i++)
        largest = strtoul(argv[i], NULL, 10) > largest ? strtoul(argv[i], NULL, 10) : largest;
    int reduces = argc > 1 && strncmp(argv[1], "reduce-", 7) == 0;
    if (argc < 3 || (!reduces && strcmp(argv[1], "put") != 0)) {
        if (me == 0)
            fprintf(stderr, "usage: shmem put|reduce-set|reduce-team BYTES…\n");
        shmem_global_exit(2);
    }
    to = shmem_align(64, largest);
    from = shmem_align(64, largest);
    work = shmem_align(64, largest / 2 + 8 * SHMEM_REDUCE_MIN_WRKDATA_SIZE + 64);
    sync_reduce = shmem_malloc(sizeof(long) * SHMEM_REDUCE_SYNC_SIZE);
    if (!to || !from || !work || !sync_reduce) {
        fprintf(stderr, "shmem: no symmetric memory for %zu bytes; raise SHMEM_SYMMETRIC_SIZE\n", largest);
        shmem_global_exit(3);
    }
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync_reduce[i] = SHMEM_SYNC_VALUE;
    for (size_t i = 0; i < largest / 8; i++)
        from[i] = (double)(i % 97) + me;
    shmem_barrier_all();
    int team = strcmp(argv[1], "reduce-team") == 0;
    for (int i = 2; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10) / 8 * 8;
        if (!reduces) {
            measure("put", "stream", put, bytes, 0);
            measure("put", "strict", put, bytes, 1);
            shmem_barrier_all();
            int other = me ^ 1;
            for (size_t k = 0; other < pes && k < bytes / 8; k++)
                bad += to[k] != (double)(k % 97) + other;
        } else {
            measure(argv[1], team ? "team" : "active set", team ? reduce_team : reduce_set, bytes, 0);
            bad += wrong(bytes);
        }
    }
    if (bad) {
        fprintf(stderr, "shmem: PE %d: %d values are wrong\n", me, bad);
        shmem_global_exit(1);
    }
    shmem_finalize();
    return 0;
}
