/* One after the other, what a model of the machine needs: latency, by distance too, message rate, bandwidth of one flow and
 * of many, a small allreduce, the largest message that does not wait for its receiver, and whether larger ones go on while
 * their ranks compute. */
#include "probe.h"
#include "wait.h"

#include <stdlib.h>

enum { PARTNERS_MOST = 64, EAGER_MOST = 1 << 24, ROUNDS = 3, PROGRESS_ROUNDS = 5, PROGRESS_LEAST = 1 << 14, TAG_DATA = 1, TAG_GO };
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

/* Seconds that the receiver waits for a message after `away` seconds outside MPI at both ends; 0 at all other ranks. */
static double waited(struct hopbyte_probe *probe, unsigned char *data, int bytes, double away) {
    int other = hopbyte_pair_other(probe);
    bool first = hopbyte_pair_first(probe);
    MPI_Comm comm = probe->world.comm;
    double seconds = 0;
    hopbyte_quiet_barrier(comm);
    if (other >= 0) {
        MPI_Request request;
        if (first)
            MPI_Isend(data, bytes, MPI_BYTE, other, TAG_DATA, comm, &request);
        else
            MPI_Irecv(data, bytes, MPI_BYTE, other, TAG_DATA, comm, &request);
        if (away > 0)
            hopbyte_nap((int)(1e6 * away));
        double start = MPI_Wtime();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        seconds = first ? 0 : MPI_Wtime() - start;
        if (first) {
            probe->messages++;
            probe->sent_bytes += bytes;
        }
    }
    return seconds;
}

/* The median of several such waits, at all ranks. */
static double waits_typically(struct hopbyte_probe *probe, unsigned char *data, int bytes, double away) {
    double found[PROGRESS_ROUNDS], typical;
    for (int round = 0; round < PROGRESS_ROUNDS; round++)
        found[round] = waited(probe, data, bytes, away);
    hopbyte_samples_sort(found, PROGRESS_ROUNDS);
    typical = found[PROGRESS_ROUNDS / 2];
    MPI_Allreduce(MPI_IN_PLACE, &typical, 1, MPI_DOUBLE, MPI_MAX, probe->world.comm);
    return typical;
}

/* How long the receiver of a message beyond the eager limit waits for it at once, and after both ranks were outside MPI for
 * three times as long. */
static void progress_measure(struct hopbyte_probe *probe) {
    struct hopbyte_record record;
    int bytes = (int)probe->sizes.bytes[0];
    bool idle = hopbyte_pair_other(probe) < 0;
    unsigned char *data = hopbyte_memory(idle ? 1 : (size_t)bytes, "messages");
    hopbyte_deadline_set(probe->deadline, probe->verb);
    waited(probe, data, bytes, 0);
    double at_once = waits_typically(probe, data, bytes, 0);
    double later = waits_typically(probe, data, bytes, 3 * at_once + 1e-3);
    hopbyte_probe_record(probe, &record, (size_t)bytes);
    hopbyte_record_number(&record, "waited_seconds", at_once, "waited us", 1e6);
    hopbyte_record_number(&record, "waited_after_seconds", later, "after computing us", 1e6);
    hopbyte_probe_write(probe, &record);
    free(data);
}

/* The largest message that the first rank of the pair can send before the second receives, by bisection. */
static int eager_measure(struct hopbyte_probe *probe) {
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
    return ends;
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
    probe->verb = "eager";
    probe->pairs = 1;
    int eager = eager_measure(probe);
    if (eager < EAGER_MOST / 4)
        part(probe, "progress", 4 * (size_t)(eager < PROGRESS_LEAST ? PROGRESS_LEAST : eager), 1, progress_measure);
}
