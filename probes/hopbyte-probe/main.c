/* hopbyte-probe VERB: performance of pairs, many pairs, collectives, threads, and a victim under load. */
#include "fair.h"
#include "probe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Groups of options; a verb takes one or more. */
enum {
    SIZES = 1, /* repeated trials over a list of sizes */
    PAIRS = 2,
    WINDOW = 4,
    THREADS = 8,
    RATE = 16,
    ROOT = 32,
    RMA = 64,
    VICTIM = 128,
    LOAD = 256,
    ALONE = 512, /* background only */
    BYTES = 1024,
    LOCKS = 4096, /* threads, and seconds per measurement */
    NAPS = 2048, /* windows and background wait with naps */
    SENDS = 8192,
};

struct verb {
    const char *name, *what;
    void (*run)(struct hopbyte_probe *);
    unsigned groups;
    int threads; /* thread level to request */
    size_t most; /* largest of the sizes by default */
};

static const struct verb verbs[] = {
    {"latency", "half a round trip between two ranks", hopbyte_latency_run, BYTES | SIZES | PAIRS, MPI_THREAD_SINGLE,
     1 << 20},
    {"multi-latency", "the same, all pairs at once", hopbyte_multi_latency_run, BYTES | SIZES | PAIRS,
     MPI_THREAD_SINGLE, 1 << 20},
    {"bandwidth", "a window of messages one way, timed by the receiver", hopbyte_bandwidth_run,
     BYTES | SIZES | PAIRS | WINDOW | NAPS, MPI_THREAD_SINGLE, 1 << 20},
    {"bidirectional", "the same, both ways at once", hopbyte_bidirectional_run, BYTES | SIZES | PAIRS | WINDOW | NAPS,
     MPI_THREAD_SINGLE, 1 << 20},
    {"rate", "messages per second of all ranks, in four patterns", hopbyte_rate_run,
     BYTES | SIZES | PAIRS | WINDOW | RATE, MPI_THREAD_SINGLE, 2048},
    {"bcast", "broadcast, slowest rank", hopbyte_bcast_run, BYTES | SIZES | ROOT, MPI_THREAD_SINGLE, 1 << 20},
    {"alltoall", "all-to-all, slowest rank; bytes are those of a pair", hopbyte_alltoall_run, BYTES | SIZES,
     MPI_THREAD_SINGLE, 1 << 15},
    {"allreduce", "sum of doubles, slowest rank", hopbyte_allreduce_run, BYTES | SIZES, MPI_THREAD_SINGLE, 1 << 20},
    {"threads", "latency of several threads per rank, and their fairness", hopbyte_threads_run,
     BYTES | SIZES | PAIRS | THREADS | SENDS, MPI_THREAD_MULTIPLE, 1 << 15},
    {"locks", "throughput and fairness of locks with 1, 2, 4 … threads of one rank", hopbyte_locks_run, LOCKS,
     MPI_THREAD_MULTIPLE, 8},
    {"rma", "put and get by several threads per rank", hopbyte_rma_run, BYTES | SIZES | PAIRS | WINDOW | THREADS | RMA,
     MPI_THREAD_MULTIPLE, 1 << 15},
    {"congestion", "slow-down of victims while other ranks load the network", hopbyte_congestion_run,
     BYTES | WINDOW | VICTIM | LOAD | NAPS, MPI_THREAD_SINGLE, 8},
    {"calibrate", "what a model of the machine needs, one after the other", hopbyte_calibrate_run, 0, MPI_THREAD_SINGLE, 8},
    {"background", "load on the network only", hopbyte_background_run, LOAD | ALONE | NAPS, MPI_THREAD_SINGLE,
     8},
};
enum { VERBS = sizeof verbs / sizeof *verbs, OPTIONS_MOST = 32 };

static void help_print(const struct verb *verb, const struct hopbyte_option *options) {
    if (verb)
        printf("usage: mpiexec … hopbyte-probe %s [options]\n\n%s\n\n", verb->name, verb->what);
    else
        puts("usage: mpiexec … hopbyte-probe VERB [options]\n\nVERB --help lists its options.\n");
    for (int i = 0; !verb && i < VERBS; i++)
        printf("  %-16s %s\n", verbs[i].name, verbs[i].what);
    if (verb)
        hopbyte_options_help(options);
}

static const struct verb *verb_find(const char *name) {
    for (int i = 0; name && i < VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static void defaults_set(struct hopbyte_probe *probe, const struct verb *verb) {
    *probe = (struct hopbyte_probe){.verb = verb->name,
                                    .warmup = 1,
                                    .trials = 11,
                                    .budget = 1,
                                    .precision = 0.05,
                                    .deadline = 120,
                                    .window = 64,
                                    .threads = 4,
                                    .operation = 2,
                                    .rounds = 7,
                                    .samples = 500,
                                    .seconds = 10,
                                    .background_bytes = 65536};
    if (verb->groups & LOCKS) {
        probe->threads = 16;
        probe->seconds = 0.5;
        probe->slice_us = HOPBYTE_FAIR_SLICE_US;
        probe->owner_us = HOPBYTE_FAIR_OWNER_US;
    }
    for (size_t bytes = 8; bytes <= verb->most; bytes *= 8)
        probe->sizes.bytes[probe->sizes.count++] = bytes;
}

/* Reads the options before MPI starts, because the level of thread support depends on them; `picked` are the verb's. */
static int options_read(struct hopbyte_probe *p, const struct verb *verb, int argc, char **argv,
                        struct hopbyte_option *picked, int most, char *problem, size_t room) {
    const struct hopbyte_option options[] = {
        {"bytes", HOPBYTE_SIZES, &p->sizes, 0, NULL, "sizes of a message (8 and up by eights)", BYTES},
        {"iterations", HOPBYTE_COUNT, &p->iterations, 1, NULL, "operations per trial (as many as take 10 ms)", SIZES},
        {"trials", HOPBYTE_COUNT, &p->trials, 1, NULL, "minimum number of timed trials (11)", SIZES},
        {"budget", HOPBYTE_REAL, &p->budget, 0, NULL, "seconds for further trials per size, 0 for none (1)", SIZES},
        {"precision", HOPBYTE_REAL, &p->precision, 0, NULL,
         "stop when the 95 % interval of the median is this narrow, relative (0.05)", SIZES},
        {"warmup", HOPBYTE_COUNT, &p->warmup, 0, NULL, "trials, or a victim's operations, that do not count (1)",
         SIZES | VICTIM},
        {"cold-bytes", HOPBYTE_BYTES, &p->cold_bytes, 0, NULL, "memory to write before each trial (none)", SIZES},
        {"pairs", HOPBYTE_COUNT, &p->pairs, 1, NULL, "pairs (i, i + half of the ranks) at once", PAIRS},
        {"window", HOPBYTE_COUNT, &p->window, 1, NULL, "messages in flight (64)", WINDOW},
        {"threads", HOPBYTE_COUNT, &p->threads, 1, NULL, "threads per rank (4; locks: 16)", THREADS | LOCKS},
        {"pattern", HOPBYTE_CHOICE, &p->pattern, 0, hopbyte_rate_patterns,
         "one way; peer after peer; receives first, then all send; all at once", RATE},
        {"peers", HOPBYTE_COUNT, &p->peers, 1, NULL, "ranks each rank sends to, except single (6, or all others)", RATE},
        {"root", HOPBYTE_COUNT, &p->root, 0, NULL, "rank that has the data (0)", ROOT},
        {"operation", HOPBYTE_CHOICE, &p->operation, 0, hopbyte_rma_operations, "(both)", RMA},
        {"transport", HOPBYTE_CHOICE, &p->transport, 0, hopbyte_transports,
         "send and receive, or puts with signals (messages)", SENDS},
        {"victim", HOPBYTE_CHOICE, &p->victim, 0, hopbyte_victim_kinds, "operation of the victims (latency)", VICTIM},
        {"victims", HOPBYTE_TEXT, &p->victims, 0, NULL, "their ranks, such as 0,4-7 (every second)", VICTIM},
        {"samples", HOPBYTE_COUNT, &p->samples, 1, NULL, "operations timed per round (500)", VICTIM},
        {"rounds", HOPBYTE_COUNT, &p->rounds, 1, NULL, "rounds, each alone and then under load (7)", VICTIM},
        {"background", HOPBYTE_CHOICE, &p->background, 0, hopbyte_background_kinds, "load on the network (alltoall)",
         LOAD},
        {"background-bytes", HOPBYTE_BYTES, &p->background_bytes, 1, NULL, "size of its messages (64KiB)", LOAD},
        {"seconds", HOPBYTE_REAL, &p->seconds, 0, NULL, "duration (10; locks: 0.5 each)", ALONE | LOCKS},
        {"slice", HOPBYTE_COUNT, &p->slice_us, 0, NULL, "fair: microseconds that the first in the queue looks (2)", LOCKS},
        {"owner", HOPBYTE_COUNT, &p->owner_us, 0, NULL, "fair: microseconds that an owner keeps it from others (10)",
         LOCKS},
        {"nap", HOPBYTE_COUNT, &hopbyte_nap_us, 0, NULL, "microseconds to sleep between polls for messages (0: poll)",
         NAPS},
        {"deadline", HOPBYTE_REAL, &p->deadline, 0, NULL, "timeout in seconds of a trial or round, 0: none (120)", 0},
        {"json", HOPBYTE_FLAG, &p->json, 0, NULL, "JSON lines instead of a table", 0},
        {0}};
    hopbyte_options_pick(options, verb->groups, picked, most);
    int read = hopbyte_options_read(picked, argc, argv, 2, problem, room);
    if (read != 0)
        return read;
    size_t largest = hopbyte_probe_largest(p);
    if (largest > INT_MAX || p->background_bytes > INT_MAX) {
        snprintf(problem, room, "found a size of %zu bytes, expected at most %d",
                 largest > INT_MAX ? largest : p->background_bytes, INT_MAX);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static struct hopbyte_probe probe;
    const struct verb *verb = verb_find(argc > 1 ? argv[1] : NULL);
    struct hopbyte_option picked[OPTIONS_MOST] = {{0}};
    struct hopbyte_world world;
    char problem[512] = "";
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    int read = 0, level = MPI_THREAD_SINGLE;
    if (verb) {
        defaults_set(&probe, verb);
        read = options_read(&probe, verb, argc, argv, picked, OPTIONS_MOST, problem, sizeof problem);
        level = verb->threads == MPI_THREAD_MULTIPLE && probe.threads == 1 ? MPI_THREAD_SERIALIZED : verb->threads;
    }
    hopbyte_world_open(&world, &argc, &argv, level, "hopbyte-probe");
    probe.world = world;
    if (!verb && !help)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found '%.100s', expected a verb (see --help)",
                             argc > 1 ? argv[1] : "nothing");
    if (read < 0)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: %s", verb->name, problem);
    if (help || read > 0) {
        if (world.rank == 0)
            help_print(verb, picked);
        return hopbyte_world_close(HOPBYTE_DONE);
    }
    verb->run(&probe);
    return hopbyte_world_close(hopbyte_probe_failed() ? HOPBYTE_NO : HOPBYTE_DONE);
}
