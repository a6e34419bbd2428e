/* Throughput and fairness of locks: the pthread mutex, ticket and MCS locks that spin, and hopbyte's fair lock (paper
 * 004, IV.E). Rank 0 measures; recursive use, a short critical section. */
#include "fair.h"
#include "probe.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { LOCKS_THREADS_MOST = 256, INSIDE = 100, OUTSIDE = 100 };

static const char *const kinds[] = {"pthread", "ticket", "mcs", "fair"};
enum { PTHREAD, TICKET, MCS, FAIR, KINDS };

struct place {
    struct place *next;
    int waits;
} __attribute__((aligned(64)));

static struct {
    pthread_mutex_t mutex;
    struct hopbyte_fair fair;
    unsigned next, serving;
    struct place *tail;
    uintptr_t owner;
    int depth;
} lock;

static struct hopbyte_fair_patience patience = {.spins = HOPBYTE_FAIR_SPINS, .yields = HOPBYTE_FAIR_YIELDS};
static _Thread_local char self;
static _Thread_local struct place mine;

static void raw_lock(int kind) {
    if (kind == TICKET) {
        unsigned ticket = __atomic_fetch_add(&lock.next, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&lock.serving, __ATOMIC_ACQUIRE) != ticket)
            hopbyte_fair_pause();
        return;
    }
    mine.next = NULL;
    mine.waits = 1;
    struct place *before = __atomic_exchange_n(&lock.tail, &mine, __ATOMIC_ACQ_REL);
    if (!before)
        return;
    __atomic_store_n(&before->next, &mine, __ATOMIC_RELEASE);
    while (__atomic_load_n(&mine.waits, __ATOMIC_ACQUIRE))
        hopbyte_fair_pause();
}

static void raw_unlock(int kind) {
    if (kind == TICKET) {
        __atomic_store_n(&lock.serving, lock.serving + 1, __ATOMIC_RELEASE);
        return;
    }
    struct place *after = __atomic_load_n(&mine.next, __ATOMIC_ACQUIRE), *expected = &mine;
    if (!after) {
        if (__atomic_compare_exchange_n(&lock.tail, &expected, NULL, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
        while (!(after = __atomic_load_n(&mine.next, __ATOMIC_ACQUIRE)))
            hopbyte_fair_pause();
    }
    __atomic_store_n(&after->waits, 0, __ATOMIC_RELEASE);
}

/* Every kind is recursive. */
static void lock_take(int kind) {
    if (kind == PTHREAD)
        pthread_mutex_lock(&lock.mutex);
    else if (kind == FAIR)
        hopbyte_fair_lock(&lock.fair, &patience);
    else if (__atomic_load_n(&lock.owner, __ATOMIC_RELAXED) == (uintptr_t)&self)
        lock.depth++;
    else {
        raw_lock(kind);
        __atomic_store_n(&lock.owner, (uintptr_t)&self, __ATOMIC_RELAXED);
        lock.depth = 1;
    }
}

static void lock_give(int kind) {
    if (kind == PTHREAD)
        pthread_mutex_unlock(&lock.mutex);
    else if (kind == FAIR)
        hopbyte_fair_unlock(&lock.fair, &patience);
    else if (--lock.depth == 0) {
        __atomic_store_n(&lock.owner, 0, __ATOMIC_RELAXED);
        raw_unlock(kind);
    }
}

struct taker {
    int kind;
    double until, longest;
    long long taken;
    pthread_t id;
};

static pthread_barrier_t start;
static volatile long long shared;

static void busy(int turns) {
    for (volatile int i = 0; i < turns; i++)
        ;
}

static void *take(void *pointer) {
    struct taker *taker = pointer;
    pthread_barrier_wait(&start);
    double until = MPI_Wtime() + taker->until;
    for (double now = MPI_Wtime(); now < until;) {
        lock_take(taker->kind);
        double got = MPI_Wtime();
        lock_take(taker->kind);
        shared = shared + 1;
        busy(INSIDE);
        lock_give(taker->kind);
        lock_give(taker->kind);
        taker->longest = got - now > taker->longest ? got - now : taker->longest;
        taker->taken++;
        busy(OUTSIDE);
        now = MPI_Wtime();
    }
    return NULL;
}

static void locks_measure(struct hopbyte_probe *probe, int kind, int threads) {
    static struct taker takers[LOCKS_THREADS_MOST];
    double counts[LOCKS_THREADS_MOST], sum = 0, least = INFINITY, most = 0, longest = 0, begun = MPI_Wtime();
    shared = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int t = 0; t < threads; t++) {
        takers[t] = (struct taker){.kind = kind, .until = probe->seconds};
        if (pthread_create(&takers[t].id, NULL, take, &takers[t]) != 0)
            hopbyte_world_abort(HOPBYTE_LACKING, "cannot start %d threads", threads);
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(takers[t].id, NULL);
        counts[t] = (double)takers[t].taken;
        sum += counts[t];
        least = counts[t] < least ? counts[t] : least;
        most = counts[t] > most ? counts[t] : most;
        longest = takers[t].longest > longest ? takers[t].longest : longest;
    }
    double seconds = MPI_Wtime() - begun;
    pthread_barrier_destroy(&start);
    struct hopbyte_record record;
    hopbyte_probe_record(probe, &record, 0);
    hopbyte_record_text(&record, "lock", kinds[kind], "lock");
    hopbyte_record_whole(&record, "threads", threads, "threads");
    hopbyte_record_number(&record, "acquisitions_per_second", sum / seconds, "acquired/s", 1);
    hopbyte_record_number(&record, "jain_index", hopbyte_jain(counts, threads), "Jain", 1);
    hopbyte_record_number(&record, "slowest_over_fastest", most > 0 ? least / most : 0, "slowest/fastest", 1);
    hopbyte_record_number(&record, "longest_wait_seconds", longest, "longest ms", 1e3);
    hopbyte_record_whole(&record, "acquisitions", (long long)sum, NULL);
    probe->checked_bytes += (long long)sizeof shared;
    if (shared != (long long)sum)
        probe->wrong_bytes += (long long)sizeof shared;
    hopbyte_probe_write(probe, &record);
}

void hopbyte_locks_run(struct hopbyte_probe *probe) {
    if (probe->world.size != 1)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d ranks, expected 1: locks are taken by threads of one process",
                             probe->world.size);
    if (probe->threads > LOCKS_THREADS_MOST)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--threads: found %d, expected at most %d", probe->threads,
                             LOCKS_THREADS_MOST);
    patience.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    patience.spins = patience.processors > 1 ? patience.spins : 0;
    patience.slice_us = probe->slice_us;
    patience.owner_us = probe->owner_us;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock.mutex, &attributes);
    for (int threads = 1;; threads = 2 * threads < probe->threads ? 2 * threads : probe->threads) {
        for (int kind = 0; kind < KINDS; kind++) {
            hopbyte_deadline_set(probe->deadline, probe->verb);
            locks_measure(probe, kind, threads);
        }
        if (threads == probe->threads)
            break;
    }
    pthread_mutex_destroy(&lock.mutex);
}
