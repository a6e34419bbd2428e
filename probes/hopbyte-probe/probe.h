/* Common parts of hopbyte-probe's verbs: settings, repeated trials, and the record of a measurement. */
#ifndef HOPBYTE_PROBE_H
#define HOPBYTE_PROBE_H

#include "options.h"
#include "payload.h"
#include "report.h"
#include "stats.h"
#include "world.h"

struct hopbyte_probe {
    struct hopbyte_world world;
    const char *verb;
    bool json;

    struct hopbyte_sizes sizes;
    int iterations;           /* operations per trial; 0: as many as fill about 10 ms */
    int warmup, trials;       /* trials not counted; least number of trials */
    double budget, precision; /* more trials until the interval is this narrow (relative) or the seconds are used */
    double deadline;
    int partner; /* of rank 0, the only pair; 0: pairs are (i, i + half) */
    int window, pairs, threads, peers, root, pattern, operation, transport;
    size_t cold_bytes; /* touched before every trial, to evict the caches */
    int victim, background, rounds, samples;
    size_t background_bytes;
    const char *victims;
    double seconds;
    int slice_us, owner_us; /* of the fair lock */

    /* This rank's counts in the timed trials of the current record. */
    int now; /* iterations of the current record */
    long long messages, sent_bytes, checked_bytes, wrong_bytes;
    bool header_printed;
};

/* One trial of `probe->now` operations of `bytes`: this rank's seconds per operation, or NaN if it does not measure.
 * Trials before the timed ones have negative numbers. */
typedef double hopbyte_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial);

struct hopbyte_result {
    struct hopbyte_summary typical; /* of the mean over the measuring ranks */
    struct hopbyte_summary slowest; /* of the slowest of them; valid at rank 0 only, like all of this */
};

/* Runs trials on all ranks. */
void hopbyte_trials_run(struct hopbyte_probe *probe, hopbyte_trial *trial, void *context, size_t bytes,
                        struct hopbyte_result *result);

/* The first fields of a record, up to `bytes`. */
void hopbyte_probe_record(const struct hopbyte_probe *probe, struct hopbyte_record *record, size_t bytes);

/* Adds the statistics of a summary, in seconds. */
void hopbyte_record_summary(struct hopbyte_record *record, const struct hopbyte_summary *summary);

/* Prints the header unless already printed; returns whether it did. Collective. */
bool hopbyte_probe_header(struct hopbyte_probe *probe);

/* Adds the counts of all ranks (collective), writes the record on rank 0, and starts new counts. Remembers wrong bytes
 * for the exit code. */
void hopbyte_probe_write(struct hopbyte_probe *probe, struct hopbyte_record *record);

/* Counts a checked payload. */
void hopbyte_probe_check(struct hopbyte_probe *probe, const void *buffer, size_t bytes, uint64_t seed);

/* The largest of the requested sizes. */
size_t hopbyte_probe_largest(const struct hopbyte_probe *probe);

/* Whether any record had wrong bytes; same on all ranks. */
bool hopbyte_probe_failed(void);

/* The other rank of this rank's pair: the pairs are (i, i + half) for i below `pairs`, or (0, partner). -1: in no pair. */
int hopbyte_pair_other(const struct hopbyte_probe *probe);
/* Whether this rank is the first of its pair. */
bool hopbyte_pair_first(const struct hopbyte_probe *probe);
/* Sets the number of pairs by default; refuses a number larger than the ranks allow. */
void hopbyte_pairs_settle(struct hopbyte_probe *probe, int fallback);

void hopbyte_latency_run(struct hopbyte_probe *probe);
void hopbyte_multi_latency_run(struct hopbyte_probe *probe);
void hopbyte_bandwidth_run(struct hopbyte_probe *probe);
void hopbyte_bidirectional_run(struct hopbyte_probe *probe);
void hopbyte_rate_run(struct hopbyte_probe *probe);
void hopbyte_bcast_run(struct hopbyte_probe *probe);
void hopbyte_alltoall_run(struct hopbyte_probe *probe);
void hopbyte_allreduce_run(struct hopbyte_probe *probe);
void hopbyte_threads_run(struct hopbyte_probe *probe);
void hopbyte_locks_run(struct hopbyte_probe *probe);
void hopbyte_rma_run(struct hopbyte_probe *probe);
void hopbyte_congestion_run(struct hopbyte_probe *probe);
void hopbyte_background_run(struct hopbyte_probe *probe);
void hopbyte_calibrate_run(struct hopbyte_probe *probe);

/* Words of the choices, for records. */
extern const char hopbyte_rate_patterns[], hopbyte_rma_operations[], hopbyte_victim_kinds[], hopbyte_background_kinds[],
    hopbyte_transports[];
/* Word `index` of a list joined by |, in the caller's buffer. */
const char *hopbyte_choice_word(const char *choices, int index, char *word, size_t room);

#endif
