#include "probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS_MOST = 10000, ITERATIONS_MOST = 100000 };

static const char schema[] = "hopbyte-probe-1";
static const double trial_seconds = 0.01; /* length of a trial when the number of iterations is automatic */
static bool failed;

/* Runs one trial; at rank 0 the mean and the largest of the ranks' figures. */
static void trial_run(struct hopbyte_probe *probe, hopbyte_trial *trial, void *context, size_t bytes, int number,
                      double *mean, double *largest) {
    static unsigned char *cold;
    if (probe->cold_bytes && !cold)
        cold = hopbyte_memory(probe->cold_bytes, "--cold-bytes");
    if (cold)
        memset(cold, number, probe->cold_bytes);
    hopbyte_deadline_set(probe->deadline, probe->verb);
    hopbyte_quiet_barrier(probe->world.comm);
    double seconds = trial(probe, context, bytes, number);
    double mine[2] = {isnan(seconds) ? 0 : seconds, isnan(seconds) ? 0 : 1}, sum[2];
    MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, probe->world.comm);
    MPI_Reduce(mine, largest, 1, MPI_DOUBLE, MPI_MAX, 0, probe->world.comm);
    *mean = probe->world.rank == 0 ? sum[0] / sum[1] : NAN;
}

/* Number of operations that take about trial_seconds, from two trials that are discarded. The overhead of a trial is
 * included, so that barriers slower than the operations do not make a trial too long. */
static void iterations_choose(struct hopbyte_probe *probe, hopbyte_trial *trial, void *context, size_t bytes) {
    probe->now = 2;
    for (int attempt = 0; attempt < 2; attempt++) {
        double mean, largest, start = MPI_Wtime();
        trial_run(probe, trial, context, bytes, -1000 + attempt, &mean, &largest);
        double wanted = trial_seconds / (MPI_Wtime() - start) * probe->now;
        probe->now = wanted < 1 ? 1 : wanted > ITERATIONS_MOST ? ITERATIONS_MOST : (int)wanted;
        MPI_Bcast(&probe->now, 1, MPI_INT, 0, probe->world.comm);
    }
}

static bool narrow_enough(const double *samples, int count, double precision) {
    double sorted[TRIALS_MOST];
    struct hopbyte_summary summary;
    memcpy(sorted, samples, (size_t)count * sizeof *sorted);
    hopbyte_summary_make(sorted, count, &summary);
    return summary.confidence >= 0.95 && summary.high - summary.low <= precision * summary.median;
}

void hopbyte_trials_run(struct hopbyte_probe *probe, hopbyte_trial *trial, void *context, size_t bytes,
                        struct hopbyte_result *result) {
    static double means[TRIALS_MOST], slowest[TRIALS_MOST];
    int count = 0, more = 1;
    double mean, largest, start = MPI_Wtime();
    probe->now = probe->iterations;
    if (!probe->now)
        iterations_choose(probe, trial, context, bytes);
    for (int i = 0; i < probe->warmup; i++)
        trial_run(probe, trial, context, bytes, -1 - i, &mean, &largest);
    probe->messages = probe->sent_bytes = probe->checked_bytes = probe->wrong_bytes = 0;
    while (more) {
        trial_run(probe, trial, context, bytes, count, &means[count], &slowest[count]);
        count++;
        if (probe->world.rank == 0)
            more = count < probe->trials || (count < TRIALS_MOST && MPI_Wtime() - start < probe->budget &&
                                             !narrow_enough(means, count, probe->precision));
        MPI_Bcast(&more, 1, MPI_INT, 0, probe->world.comm);
    }
    hopbyte_summary_make(means, count, &result->typical);
    hopbyte_summary_make(slowest, count, &result->slowest);
}

void hopbyte_probe_record(const struct hopbyte_probe *probe, struct hopbyte_record *record, size_t bytes) {
    hopbyte_record_open(record, schema);
    hopbyte_record_text(record, "probe", probe->verb, NULL);
    hopbyte_record_whole(record, "ranks", probe->world.size, NULL);
    hopbyte_record_whole(record, "bytes", (long long)bytes, "bytes");
}

void hopbyte_record_summary(struct hopbyte_record *record, const struct hopbyte_summary *s) {
    hopbyte_record_number(record, "median_seconds", s->median, "median us", 1e6);
    hopbyte_record_number(record, "low_seconds", s->low, "low us", 1e6);
    hopbyte_record_number(record, "high_seconds", s->high, "high us", 1e6);
    hopbyte_record_number(record, "confidence", s->confidence, NULL, 1);
    hopbyte_record_number(record, "least_seconds", s->least, NULL, 1);
    hopbyte_record_number(record, "most_seconds", s->most, NULL, 1);
    hopbyte_record_whole(record, "trials", s->samples, "trials");
}

bool hopbyte_probe_header(struct hopbyte_probe *probe) {
    if (probe->header_printed)
        return false;
    hopbyte_world_header(&probe->world, schema, probe->verb, probe->json);
    return probe->header_printed = true;
}

void hopbyte_probe_write(struct hopbyte_probe *probe, struct hopbyte_record *record) {
    long long mine[4] = {probe->messages, probe->sent_bytes, probe->checked_bytes, probe->wrong_bytes}, all[4];
    MPI_Allreduce(mine, all, 4, MPI_LONG_LONG, MPI_SUM, probe->world.comm);
    probe->messages = probe->sent_bytes = probe->checked_bytes = probe->wrong_bytes = 0;
    failed |= all[3] > 0;
    hopbyte_record_whole(record, "messages", all[0], NULL);
    hopbyte_record_whole(record, "sent_bytes", all[1], NULL);
    hopbyte_record_whole(record, "checked_bytes", all[2], NULL);
    hopbyte_record_whole(record, "wrong_bytes", all[3], "wrong bytes");
    bool header = hopbyte_probe_header(probe);
    if (probe->world.rank != 0)
        return;
    if (probe->json)
        hopbyte_record_json(record, stdout);
    else
        hopbyte_record_row(record, header, stdout);
}

void hopbyte_probe_check(struct hopbyte_probe *probe, const void *buffer, size_t bytes, uint64_t seed) {
    probe->checked_bytes += (long long)bytes;
    probe->wrong_bytes += (long long)hopbyte_payload_wrong(buffer, bytes, seed);
}

size_t hopbyte_probe_largest(const struct hopbyte_probe *probe) {
    size_t largest = 0;
    for (int i = 0; i < probe->sizes.count; i++)
        if (probe->sizes.bytes[i] > largest)
            largest = probe->sizes.bytes[i];
    return largest;
}

bool hopbyte_probe_failed(void) {
    return failed;
}

const char *hopbyte_choice_word(const char *choices, int index, char *word, size_t room) {
    while (index-- > 0)
        choices = strchr(choices, '|') + 1;
    snprintf(word, room, "%.*s", (int)strcspn(choices, "|"), choices);
    return word;
}

void hopbyte_pairs_settle(struct hopbyte_probe *probe, int fallback) {
    int most = probe->world.size / 2;
    if (most < 1)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d rank, expected at least 2", probe->world.size);
    if (!probe->pairs)
        probe->pairs = fallback < most ? fallback : most;
    if (probe->pairs > most)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--pairs: found %d, expected at most %d on %d ranks", probe->pairs,
                             most, probe->world.size);
}

bool hopbyte_pair_first(const struct hopbyte_probe *probe) {
    return probe->world.rank < probe->pairs;
}

int hopbyte_pair_other(const struct hopbyte_probe *probe) {
    int half = probe->world.size / 2, rank = probe->world.rank;
    if (probe->partner)
        return rank == 0 ? probe->partner : rank == probe->partner ? 0 : -1;
    if (rank < probe->pairs)
        return rank + half;
    return rank >= half && rank < half + probe->pairs ? rank - half : -1;
}
