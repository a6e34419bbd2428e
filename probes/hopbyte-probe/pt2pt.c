/* Latency, bandwidth and bidirectional bandwidth of pairs of ranks. */
#include "probe.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { TAG_DATA = 1, TAG_READY };

struct buffers {
    unsigned char *out, *in; /* one message; a window of messages */
    MPI_Request *requests;   /* receives, then sends */
};

static void buffers_make(struct hopbyte_probe *probe, struct buffers *buffers, int window) {
    bool idle = hopbyte_pair_other(probe) < 0;
    size_t largest = idle ? 0 : hopbyte_probe_largest(probe);
    buffers->out = hopbyte_memory(largest, "messages");
    buffers->in = hopbyte_memory(largest * (size_t)window, "messages");
    buffers->requests = hopbyte_memory(2 * (size_t)window * sizeof *buffers->requests, "requests");
}

static void buffers_free(struct buffers *buffers) {
    free(buffers->out);
    free(buffers->in);
    free(buffers->requests);
}

/* Half a round trip of a ping-pong. */
static double latency_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct buffers *b = context;
    int me = probe->world.rank, other = hopbyte_pair_other(probe), count = (int)bytes;
    bool first = hopbyte_pair_first(probe);
    if (other < 0)
        return NAN;
    MPI_Comm comm = probe->world.comm;
    hopbyte_payload_fill(b->out, bytes, hopbyte_payload_seed(me, other, trial));
    double start = MPI_Wtime();
    for (int i = 0; i < probe->now; i++) {
        if (first)
            MPI_Send(b->out, count, MPI_BYTE, other, TAG_DATA, comm);
        MPI_Recv(b->in, count, MPI_BYTE, other, TAG_DATA, comm, MPI_STATUS_IGNORE);
        if (!first)
            MPI_Send(b->out, count, MPI_BYTE, other, TAG_DATA, comm);
    }
    double seconds = (MPI_Wtime() - start) / (2 * probe->now);
    probe->messages += probe->now;
    probe->sent_bytes += (long long)bytes * probe->now;
    hopbyte_probe_check(probe, b->in, bytes, hopbyte_payload_seed(other, me, trial));
    return first ? seconds : NAN;
}

static void latency_measure(struct hopbyte_probe *probe) {
    struct buffers buffers;
    buffers_make(probe, &buffers, 1);
    for (int i = 0; i < probe->sizes.count; i++) {
        struct hopbyte_result result;
        struct hopbyte_record record;
        hopbyte_trials_run(probe, latency_trial, &buffers, probe->sizes.bytes[i], &result);
        hopbyte_probe_record(probe, &record, probe->sizes.bytes[i]);
        hopbyte_record_whole(&record, "pairs", probe->pairs, "pairs");
        if (probe->partner)
            hopbyte_record_whole(&record, "partner", probe->partner, NULL);
        hopbyte_record_whole(&record, "iterations", probe->now, NULL);
        hopbyte_record_summary(&record, &result.typical);
        hopbyte_record_number(&record, "slowest_pair_seconds", result.slowest.median, "slowest pair", 1e6);
        hopbyte_probe_write(probe, &record);
    }
    buffers_free(&buffers);
}

void hopbyte_latency_run(struct hopbyte_probe *probe) {
    hopbyte_pairs_settle(probe, 1);
    latency_measure(probe);
}

void hopbyte_multi_latency_run(struct hopbyte_probe *probe) {
    hopbyte_pairs_settle(probe, INT_MAX);
    latency_measure(probe);
}

/* Posts a window of receives, each with its own buffer. */
static void window_post(struct hopbyte_probe *probe, struct buffers *b, size_t bytes, int other) {
    for (int i = 0; i < probe->window; i++)
        MPI_Irecv(b->in + (size_t)i * bytes, (int)bytes, MPI_BYTE, other, TAG_DATA, probe->world.comm, &b->requests[i]);
}

static void window_send(struct hopbyte_probe *probe, struct buffers *b, size_t bytes, int other) {
    for (int i = 0; i < probe->window; i++)
        MPI_Isend(b->out, (int)bytes, MPI_BYTE, other, TAG_DATA, probe->world.comm, &b->requests[probe->window + i]);
    probe->messages += probe->window;
    probe->sent_bytes += (long long)bytes * probe->window;
}

static void window_check(struct hopbyte_probe *probe, struct buffers *b, size_t bytes, int other, int trial) {
    for (int i = 0; i < probe->window; i++)
        hopbyte_probe_check(probe, b->in + (size_t)i * bytes, bytes,
                            hopbyte_payload_seed(other, probe->world.rank, trial));
}

/* Seconds of a window from the second rank's go signal, after it has posted its receives, to its last arrival. */
static double bandwidth_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct buffers *b = context;
    int other = hopbyte_pair_other(probe);
    MPI_Comm comm = probe->world.comm;
    double seconds = 0;
    if (other < 0)
        return NAN;
    if (hopbyte_pair_first(probe)) {
        hopbyte_payload_fill(b->out, bytes, hopbyte_payload_seed(probe->world.rank, other, trial));
        for (int i = 0; i < probe->now; i++) {
            hopbyte_wait_receive(NULL, 0, MPI_BYTE, other, TAG_READY, comm);
            window_send(probe, b, bytes, other);
            hopbyte_wait_all(probe->window, b->requests + probe->window);
        }
        return NAN;
    }
    for (int i = 0; i < probe->now; i++) {
        window_post(probe, b, bytes, other);
        double start = MPI_Wtime();
        MPI_Send(NULL, 0, MPI_BYTE, other, TAG_READY, comm);
        hopbyte_wait_all(probe->window, b->requests);
        seconds += MPI_Wtime() - start;
    }
    window_check(probe, b, bytes, other, trial);
    return seconds / probe->now;
}

/* Both ranks post, meet, and send; each times its own arrivals. */
static double bidirectional_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct buffers *b = context;
    int other = hopbyte_pair_other(probe);
    MPI_Comm comm = probe->world.comm;
    double seconds = 0;
    if (other < 0)
        return NAN;
    hopbyte_payload_fill(b->out, bytes, hopbyte_payload_seed(probe->world.rank, other, trial));
    for (int i = 0; i < probe->now; i++) {
        window_post(probe, b, bytes, other);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, other, TAG_READY, NULL, 0, MPI_BYTE, other, TAG_READY, comm, MPI_STATUS_IGNORE);
        double start = MPI_Wtime();
        window_send(probe, b, bytes, other);
        hopbyte_wait_all(probe->window, b->requests);
        seconds += MPI_Wtime() - start;
        hopbyte_wait_all(probe->window, b->requests + probe->window);
    }
    window_check(probe, b, bytes, other, trial);
    return seconds / probe->now;
}

static void bandwidth_measure(struct hopbyte_probe *probe, hopbyte_trial *trial, int directions) {
    struct buffers buffers;
    hopbyte_pairs_settle(probe, 1);
    buffers_make(probe, &buffers, probe->window);
    for (int i = 0; i < probe->sizes.count; i++) {
        size_t bytes = probe->sizes.bytes[i];
        struct hopbyte_result result;
        struct hopbyte_record record;
        hopbyte_trials_run(probe, trial, &buffers, bytes, &result);
        double messages = (double)probe->window * probe->pairs * directions;
        hopbyte_probe_record(probe, &record, bytes);
        hopbyte_record_whole(&record, "pairs", probe->pairs, "pairs");
        hopbyte_record_whole(&record, "window", probe->window, "window");
        hopbyte_record_whole(&record, "iterations", probe->now, NULL);
        hopbyte_record_summary(&record, &result.slowest);
        hopbyte_record_number(&record, "bytes_per_second", messages * (double)bytes / result.slowest.median, "MB/s",
                              1e-6);
        hopbyte_record_number(&record, "messages_per_second", messages / result.slowest.median, "messages/s", 1);
        hopbyte_probe_write(probe, &record);
    }
    buffers_free(&buffers);
}

void hopbyte_bandwidth_run(struct hopbyte_probe *probe) {
    bandwidth_measure(probe, bandwidth_trial, 1);
}

void hopbyte_bidirectional_run(struct hopbyte_probe *probe) {
    bandwidth_measure(probe, bidirectional_trial, 2);
}
