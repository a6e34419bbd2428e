/* Slowdown of a victim while other ranks load the network: percentiles of single operations, alone and under a
 * background load, alternating. */
#include "probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char hopbyte_victim_kinds[] = "latency|bandwidth|allreduce";
const char hopbyte_background_kinds[] = "alltoall|incast|pairs";
enum { LATENCY, BANDWIDTH, ALLREDUCE };
enum { ALLTOALL, INCAST, PAIRWISE };
enum { TAG_DATA = 1, TAG_READY, TAG_RUNNING, TAG_STOP };
enum { ROUNDS_BEFORE = 2 }; /* duration of the background before the victims measure */

/* One half of the job: the victims, or the background. */
struct side {
    MPI_Comm comm;
    int rank, size;
    size_t bytes;
    unsigned char *out, *in;
    MPI_Request *requests;
};

/* Work of the background while it ran. */
struct load {
    double bytes, seconds;
};

static void side_close(struct side *side) {
    free(side->out);
    free(side->in);
    free(side->requests);
    MPI_Comm_free(&side->comm);
}

static void side_open(struct side *side, const struct hopbyte_probe *probe, int color, size_t bytes, int messages) {
    MPI_Comm_split(probe->world.comm, color, probe->world.rank, &side->comm);
    MPI_Comm_rank(side->comm, &side->rank);
    MPI_Comm_size(side->comm, &side->size);
    side->bytes = bytes;
    side->out = hopbyte_memory(bytes * (size_t)messages, "messages");
    side->in = hopbyte_memory(bytes * (size_t)messages, "messages");
    side->requests = hopbyte_memory(2 * (size_t)messages * sizeof *side->requests, "requests");
}

/* Marks the victims of `--victims 0,4-7`; by default every second rank. */
static void victims_mark(const struct hopbyte_probe *probe, bool *victim) {
    const char *at = probe->victims;
    for (int i = 0; !at && i < probe->world.size; i++)
        victim[i] = i % 2 == 0;
    while (at && *at) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        bool well = end != at;
        if (well && *end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            well = end != at;
        }
        if (!well || first < 0 || last < first || last >= probe->world.size || (*end && *end != ','))
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--victims: found '%s', expected ranks below %d such as 0,4-7",
                                 probe->victims, probe->world.size);
        for (long i = first; i <= last; i++)
            victim[i] = true;
        at = *end ? end + 1 : end;
    }
}

/* Ping-pong or window exchange between victim i and victim i + half; the odd one out, if any, only waits. */
static int victim_other(const struct side *side) {
    int half = side->size / 2;
    if (side->rank >= 2 * half)
        return -1;
    return side->rank < half ? side->rank + half : side->rank - half;
}

static double latency_once(const struct side *side, int other) {
    int count = (int)side->bytes;
    double start = MPI_Wtime();
    if (side->rank < other)
        MPI_Send(side->out, count, MPI_BYTE, other, TAG_DATA, side->comm);
    MPI_Recv(side->in, count, MPI_BYTE, other, TAG_DATA, side->comm, MPI_STATUS_IGNORE);
    double seconds = (MPI_Wtime() - start) / 2;
    if (side->rank > other)
        MPI_Send(side->out, count, MPI_BYTE, other, TAG_DATA, side->comm);
    return side->rank < other ? seconds : NAN;
}

/* One window to the higher rank, which measures. */
static double bandwidth_once(const struct side *side, int other, int window) {
    int count = (int)side->bytes;
    if (side->rank < other) {
        hopbyte_wait_receive(NULL, 0, MPI_BYTE, other, TAG_READY, side->comm);
        for (int i = 0; i < window; i++)
            MPI_Isend(side->out, count, MPI_BYTE, other, TAG_DATA, side->comm, &side->requests[i]);
        hopbyte_wait_all(window, side->requests);
        return NAN;
    }
    for (int i = 0; i < window; i++)
        MPI_Irecv(side->in + (size_t)i * side->bytes, count, MPI_BYTE, other, TAG_DATA, side->comm, &side->requests[i]);
    double start = MPI_Wtime();
    MPI_Send(NULL, 0, MPI_BYTE, other, TAG_READY, side->comm);
    hopbyte_wait_all(window, side->requests);
    return MPI_Wtime() - start;
}

/* One operation of the victims: seconds, or NaN on ranks that do not measure. */
static double victim_once(struct hopbyte_probe *probe, struct side *side) {
    int other = victim_other(side);
    if (probe->victim == ALLREDUCE) {
        double start = MPI_Wtime();
        MPI_Allreduce(side->out, side->in, (int)(side->bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, side->comm);
        return MPI_Wtime() - start;
    }
    if (other < 0)
        return NAN;
    return probe->victim == LATENCY ? latency_once(side, other) : bandwidth_once(side, other, probe->window);
}

/* Fills the victims' send buffers so that the result of the last operation can be checked. */
static void victim_fill(struct hopbyte_probe *probe, struct side *side, int round) {
    if (probe->victim != ALLREDUCE) {
        hopbyte_payload_fill(side->out, side->bytes, hopbyte_payload_seed(side->rank, victim_other(side), round));
        return;
    }
    for (size_t i = 0; i < side->bytes / sizeof(double); i++)
        ((double *)side->out)[i] = side->rank + (double)(i % 97) + round;
}

static void victim_check(struct hopbyte_probe *probe, struct side *side, int round) {
    int other = victim_other(side), messages = probe->victim == BANDWIDTH ? probe->window : 1;
    double ranks = side->size;
    bool receives = other >= 0 && (probe->victim == LATENCY || side->rank > other);
    if (probe->victim != ALLREDUCE) {
        for (int i = 0; receives && i < messages; i++)
            hopbyte_probe_check(probe, side->in + (size_t)i * side->bytes, side->bytes,
                                hopbyte_payload_seed(other, side->rank, round));
        return;
    }
    probe->checked_bytes += (long long)side->bytes;
    for (size_t i = 0; i < side->bytes / sizeof(double); i++)
        if (((double *)side->in)[i] != ranks * (ranks - 1) / 2 + ranks * ((double)(i % 97) + round))
            probe->wrong_bytes += sizeof(double);
}

/* `samples` operations; writes this rank's times to `seconds` and returns their number. */
static int victims_measure(struct hopbyte_probe *probe, struct side *side, int round, double *seconds) {
    int count = 0;
    victim_fill(probe, side, round);
    MPI_Barrier(side->comm);
    for (int i = -probe->warmup; i < probe->samples; i++) {
        double taken = victim_once(probe, side);
        if (i >= 0 && !isnan(taken))
            seconds[count++] = taken;
    }
    victim_check(probe, side, round);
    return count;
}

/* One round of the background's pattern; bytes this rank sent. */
static double background_once(struct hopbyte_probe *probe, struct side *side) {
    int count = (int)side->bytes, size = side->size, used = 0;
    double sent = 0;
    for (int distance = 1; distance < size; distance++) {
        int to = (side->rank + distance) % size, from = (side->rank - distance + size) % size;
        bool sends = true, receives = true;
        if (probe->background == INCAST) {
            sends = to == 0;
            receives = side->rank == 0;
        } else if (probe->background == PAIRWISE) {
            sends = receives = distance == size / 2;
        }
        if (receives)
            MPI_Irecv(side->in + (size_t)(distance - 1) * side->bytes, count, MPI_BYTE, from, TAG_DATA, side->comm,
                      &side->requests[used++]);
        if (sends)
            MPI_Isend(side->out, count, MPI_BYTE, to, TAG_DATA, side->comm, &side->requests[used++]);
        sent += sends ? (double)side->bytes : 0;
    }
    hopbyte_wait_all(used, side->requests);
    return sent;
}

/* Loads the network until the victims' first rank sends the stop message. */
static void background_until_told(struct hopbyte_probe *probe, struct side *side, int leader, struct load *load) {
    double start = MPI_Wtime();
    for (int round = 0, stop = 0; !stop; round++) {
        load->bytes += background_once(probe, side);
        if (side->rank == 0 && round + 1 == ROUNDS_BEFORE)
            MPI_Send(NULL, 0, MPI_BYTE, leader, TAG_RUNNING, probe->world.comm);
        if (side->rank == 0 && round + 1 >= ROUNDS_BEFORE)
            MPI_Iprobe(leader, TAG_STOP, probe->world.comm, &stop, MPI_STATUS_IGNORE);
        hopbyte_wait_bcast(&stop, 1, MPI_INT, 0, side->comm);
    }
    if (side->rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, leader, TAG_STOP, probe->world.comm, MPI_STATUS_IGNORE);
    load->seconds += MPI_Wtime() - start;
}

/* Roles of the ranks: victim or background. */
struct cast {
    bool victim;
    int first_victim, first_background, victims;
};

static void cast_choose(const struct hopbyte_probe *probe, struct cast *cast) {
    bool *victim = hopbyte_memory((size_t)probe->world.size, "ranks");
    victims_mark(probe, victim);
    *cast = (struct cast){.victim = victim[probe->world.rank], .first_victim = -1, .first_background = -1};
    for (int i = 0; i < probe->world.size; i++) {
        int *first = victim[i] ? &cast->first_victim : &cast->first_background;
        *first = *first < 0 ? i : *first;
        cast->victims += victim[i];
    }
    free(victim);
    if (cast->victims < 2 || probe->world.size - cast->victims < 2)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d victims and %d background ranks, expected at least 2 of each",
                             cast->victims, probe->world.size - cast->victims);
}

/* A round of both states; the victims' times are appended to `alone` and `loaded`. */
static int round_run(struct hopbyte_probe *probe, struct side *side, const struct cast *cast, int round, double *alone,
                     double *loaded, struct load *load) {
    int count = 0;
    hopbyte_deadline_set(probe->deadline, probe->verb);
    if (cast->victim)
        count = victims_measure(probe, side, 2 * round, alone);
    hopbyte_quiet_barrier(probe->world.comm);
    if (!cast->victim) {
        background_until_told(probe, side, cast->first_victim, load);
    } else {
        if (side->rank == 0)
            hopbyte_wait_receive(NULL, 0, MPI_BYTE, cast->first_background, TAG_RUNNING, probe->world.comm);
        victims_measure(probe, side, 2 * round + 1, loaded);
        MPI_Barrier(side->comm);
        if (side->rank == 0)
            MPI_Send(NULL, 0, MPI_BYTE, cast->first_background, TAG_STOP, probe->world.comm);
    }
    hopbyte_quiet_barrier(probe->world.comm);
    return count;
}

/* All victims' times at rank 0, sorted. */
static long times_gather(const struct hopbyte_probe *probe, const double *mine, int count, double **all) {
    int size = probe->world.size, total = 0;
    int *counts = hopbyte_memory((size_t)size * sizeof *counts, "results");
    int *places = hopbyte_memory((size_t)size * sizeof *places, "results");
    MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, probe->world.comm);
    for (int i = 0; i < size; i++) {
        places[i] = total;
        total += counts[i];
    }
    *all = hopbyte_memory((size_t)total * sizeof **all, "results");
    MPI_Gatherv(mine, count, MPI_DOUBLE, *all, counts, places, MPI_DOUBLE, 0, probe->world.comm);
    hopbyte_samples_sort(*all, total);
    free(counts);
    free(places);
    return total;
}

struct percentiles {
    long samples;
    double p50, p90, p99, p999, most;
};

static struct percentiles percentiles_of(const double *sorted, long count) {
    return (struct percentiles){count,
                                hopbyte_percentile(sorted, count, 50),
                                hopbyte_percentile(sorted, count, 90),
                                hopbyte_percentile(sorted, count, 99),
                                hopbyte_percentile(sorted, count, 99.9),
                                hopbyte_percentile(sorted, count, 100)};
}

static void percentiles_write(struct hopbyte_probe *probe, size_t bytes, const char *state,
                              const struct percentiles *p) {
    char victim[16], background[16];
    struct hopbyte_record record;
    hopbyte_probe_record(probe, &record, bytes);
    hopbyte_record_text(&record, "victim", hopbyte_choice_word(hopbyte_victim_kinds, probe->victim, victim, 16),
                        "victim");
    hopbyte_record_text(&record, "background",
                        hopbyte_choice_word(hopbyte_background_kinds, probe->background, background, 16), NULL);
    hopbyte_record_text(&record, "state", state, "state");
    hopbyte_record_whole(&record, "samples", p->samples, "samples");
    hopbyte_record_number(&record, "median_seconds", p->p50, "median us", 1e6);
    hopbyte_record_number(&record, "p90_seconds", p->p90, "90 % us", 1e6);
    hopbyte_record_number(&record, "p99_seconds", p->p99, "99 % us", 1e6);
    hopbyte_record_number(&record, "p99_9_seconds", p->p999, "99.9 % us", 1e6);
    hopbyte_record_number(&record, "most_seconds", p->most, "most us", 1e6);
    hopbyte_probe_write(probe, &record);
}

/* Loaded over alone, and the interval of the rounds' own ratios of medians. */
static void slowdown_write(struct hopbyte_probe *probe, size_t bytes, const struct percentiles *alone,
                           const struct percentiles *loaded, const struct hopbyte_summary *rounds,
                           const struct load *load) {
    struct hopbyte_record record;
    hopbyte_probe_record(probe, &record, bytes);
    hopbyte_record_text(&record, "state", "slowdown", NULL);
    hopbyte_record_number(&record, "median_ratio", loaded->p50 / alone->p50, NULL, 1);
    hopbyte_record_number(&record, "p90_ratio", loaded->p90 / alone->p90, NULL, 1);
    hopbyte_record_number(&record, "p99_ratio", loaded->p99 / alone->p99, NULL, 1);
    hopbyte_record_number(&record, "p99_9_ratio", loaded->p999 / alone->p999, NULL, 1);
    hopbyte_record_number(&record, "round_low_ratio", rounds->low, NULL, 1);
    hopbyte_record_number(&record, "round_high_ratio", rounds->high, NULL, 1);
    hopbyte_record_number(&record, "confidence", rounds->confidence, NULL, 1);
    hopbyte_record_whole(&record, "rounds", rounds->samples, NULL);
    hopbyte_record_whole(&record, "background_bytes", (long long)load->bytes, NULL);
    hopbyte_record_number(&record, "background_bytes_per_second", load->bytes / load->seconds, NULL, 1);
    if (!probe->json && probe->world.rank == 0)
        printf(
            "# slow-down: median %.3f (rounds %.3f to %.3f, %.0f %%), 90 %% %.3f, 99 %% %.3f, 99.9 %% %.3f; background "
            "%.1f MB/s\n",
            loaded->p50 / alone->p50, rounds->low, rounds->high, 100 * rounds->confidence, loaded->p90 / alone->p90,
            loaded->p99 / alone->p99, loaded->p999 / alone->p999, load->bytes / load->seconds / 1e6);
    if (probe->json)
        hopbyte_probe_write(probe, &record);
}

/* Ratio of the medians of one round; at rank 0. */
static double round_ratio(const struct hopbyte_probe *probe, const double *alone, const double *loaded, int count) {
    double *all, medians[2];
    for (int i = 0; i < 2; i++) {
        long total = times_gather(probe, i ? loaded : alone, count, &all);
        medians[i] = hopbyte_percentile(all, total, 50);
        free(all);
    }
    return medians[1] / medians[0];
}

static void size_measure(struct hopbyte_probe *probe, const struct cast *cast, size_t bytes) {
    struct side side;
    struct load mine = {0}, load = {0};
    int messages = cast->victim ? (probe->victim == BANDWIDTH ? probe->window : 1) : probe->world.size - cast->victims;
    side_open(&side, probe, cast->victim, cast->victim ? bytes : probe->background_bytes, messages);
    size_t room = (size_t)probe->samples * (size_t)probe->rounds * sizeof(double);
    double *alone = hopbyte_memory(room, "results"), *loaded = hopbyte_memory(room, "results");
    double *ratios = hopbyte_memory((size_t)probe->rounds * sizeof *ratios, "results"), *all;
    int used = 0;
    for (int round = 0; round < probe->rounds; round++) {
        int count = round_run(probe, &side, cast, round, alone + used, loaded + used, &mine);
        ratios[round] = round_ratio(probe, alone + used, loaded + used, count);
        used += count;
    }
    side_close(&side);
    MPI_Reduce(&mine.bytes, &load.bytes, 1, MPI_DOUBLE, MPI_SUM, 0, probe->world.comm);
    MPI_Reduce(&mine.seconds, &load.seconds, 1, MPI_DOUBLE, MPI_MAX, 0, probe->world.comm);
    struct percentiles states[2];
    for (int i = 0; i < 2; i++) {
        long total = times_gather(probe, i ? loaded : alone, used, &all);
        states[i] = percentiles_of(all, total);
        free(all);
        percentiles_write(probe, bytes, i ? "loaded" : "alone", &states[i]);
    }
    struct hopbyte_summary rounds;
    hopbyte_summary_make(ratios, probe->rounds, &rounds);
    slowdown_write(probe, bytes, &states[0], &states[1], &rounds, &load);
    free(alone);
    free(loaded);
    free(ratios);
}

void hopbyte_congestion_run(struct hopbyte_probe *probe) {
    struct cast cast;
    cast_choose(probe, &cast);
    for (int i = 0; i < probe->sizes.count; i++) {
        size_t bytes = probe->sizes.bytes[i];
        if (probe->victim == ALLREDUCE && (bytes % sizeof(double) || bytes == 0))
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--bytes: found %zu, expected multiples of 8 (it adds doubles)",
                                 bytes);
        size_measure(probe, &cast, bytes);
    }
}

void hopbyte_background_run(struct hopbyte_probe *probe) {
    struct side side;
    struct hopbyte_record record;
    char word[16];
    double sent = 0, all = 0, start, seconds = 0;
    if (probe->world.size < 2)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d rank, expected at least 2", probe->world.size);
    side_open(&side, probe, 0, probe->background_bytes, probe->world.size);
    if (probe->json) /* scripts that start the background wait for this line */
        hopbyte_probe_header(probe);
    MPI_Barrier(side.comm);
    start = MPI_Wtime();
    for (int stop = 0; !stop;) {
        hopbyte_deadline_set(probe->deadline, probe->verb);
        sent += background_once(probe, &side);
        seconds = MPI_Wtime() - start;
        stop = side.rank == 0 && seconds >= probe->seconds;
        hopbyte_wait_bcast(&stop, 1, MPI_INT, 0, side.comm);
    }
    MPI_Reduce(&sent, &all, 1, MPI_DOUBLE, MPI_SUM, 0, probe->world.comm);
    hopbyte_probe_record(probe, &record, probe->background_bytes);
    hopbyte_record_text(&record, "background",
                        hopbyte_choice_word(hopbyte_background_kinds, probe->background, word, 16), "pattern");
    hopbyte_record_number(&record, "seconds", seconds, "seconds", 1);
    hopbyte_record_whole(&record, "background_bytes", (long long)all, NULL);
    hopbyte_record_number(&record, "background_bytes_per_second", all / seconds, "MB/s", 1e-6);
    hopbyte_probe_write(probe, &record);
    side_close(&side);
}
