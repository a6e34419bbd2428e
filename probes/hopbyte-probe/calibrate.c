/* One after the other, what a model of the machine needs: latency, by distance too, message rate, bandwidth of one flow and
 * of many, a small allreduce, and the largest message that does not wait for its receiver. */
#include "probe.h"

#include <stdlib.h>

enum { PARTNERS_MOST = 64, EAGER_MOST = 1 << 24, ROUNDS = 3, TAG_DATA = 1, TAG_GO };
static const double wait_seconds = 0.05;

/* Whether a send ends before its receive is posted; the same at all ranks. The receiver posts it when the sender says so, so
 * that no delay of a process makes a send look eager. */
static bool send_ends_alone(struct hopbyte_probe *probe, unsigned char *data, int bytes) {
    int other = hopbyte_pair_other(probe), ended = 0;
    bool first = hopbyte_pair_first(probe);
    MPI_Comm comm = probe->world.comm;
    for (int round = 0; other >= 0 && round < ROUNDS; round++) {
        if (!first) {
            MPI_Recv(NULL, 0, MPI_BYTE, other, TAG_GO, comm, MPI_STATUS_IGNORE);
            MPI_Recv(data, bytes, MPI_BYTE, other, TAG_DATA, comm, MPI_STATUS_IGNORE);
            continue;
        }
        MPI_Request request;
        int done = 0;
        MPI_Isend(data, bytes, MPI_BYTE, other, TAG_DATA, comm, &request);
        for (double start = MPI_Wtime(); !done && MPI_Wtime() - start < wait_seconds;)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        ended |= done;
        MPI_Send(NULL, 0, MPI_BYTE, other, TAG_GO, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        probe->messages++;
        probe->sent_bytes += bytes;
    }
    hopbyte_quiet_barrier(comm);
    MPI_Bcast(&ended, 1, MPI_INT, 0, comm);
    return ended;
}

/* The largest message that the first rank of the pair can send before the second receives, by bisection. */
static void eager_measure(struct hopbyte_probe *probe) {
    struct hopbyte_record record;
    bool idle = hopbyte_pair_other(probe) < 0;
    unsigned char *data = hopbyte_memory(idle ? 1 : EAGER_MOST, "messages");
    int ends = -1, waits = EAGER_MOST + 1;
    hopbyte_deadline_set(probe->deadline, probe->verb);
    send_ends_alone(probe, data, 1); /* connects */
    while (waits - ends > 1) {
        int bytes = ends < 0 ? 0 : waits > EAGER_MOST ? EAGER_MOST : ends + (waits - ends) / 2;
        bool alone = send_ends_alone(probe, data, bytes);
        if (alone)
            ends = bytes;
        else
            waits = bytes;
    }
    hopbyte_probe_record(probe, &record, ends < 0 ? 0 : (size_t)ends);
    hopbyte_record_whole(&record, "at_least", ends == EAGER_MOST, "or more");
    hopbyte_probe_write(probe, &record);
    free(data);
}

static void part(struct hopbyte_probe *probe, const char *verb, size_t bytes, int pairs,
                 void (*run)(struct hopbyte_probe *)) {
    probe->verb = verb;
    probe->sizes = (struct hopbyte_sizes){.count = 1, .bytes = {bytes}};
    probe->pairs = pairs;
    run(probe);
}

void hopbyte_calibrate_run(struct hopbyte_probe *probe) {
    int size = probe->world.size, half = size / 2, partners = size - 1 < PARTNERS_MOST ? size - 1 : PARTNERS_MOST;
    hopbyte_pairs_settle(probe, 1);
    part(probe, "latency", 8, 1, hopbyte_latency_run);
    probe->trials = 5;
    double budget = probe->budget;
    probe->budget = 0.1;
    for (int i = 1; i <= partners; i++) {
        probe->partner = (int)((long long)i * (size - 1) / partners);
        part(probe, "latency", 8, 1, hopbyte_latency_run);
    }
    probe->partner = 0;
    probe->budget = budget;
    part(probe, "rate", 8, 1, hopbyte_rate_run);
    if (half > 1)
        part(probe, "rate", 8, half, hopbyte_rate_run);
    /* A window may take seconds. */
    probe->iterations = 1;
    probe->trials = 3;
    probe->window = 8;
    part(probe, "bandwidth", 1 << 20, 1, hopbyte_bandwidth_run);
    if (half > 1)
        part(probe, "bandwidth", 1 << 20, half, hopbyte_bandwidth_run);
    probe->iterations = 0;
    probe->trials = 11;
    part(probe, "allreduce", 8, 0, hopbyte_allreduce_run);
    part(probe, "eager", 0, 1, eager_measure);
}
