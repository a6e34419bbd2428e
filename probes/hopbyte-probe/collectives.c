/* Broadcast, all-to-all and all-reduce: the time of the slowest rank from a common barrier. */
#include "probe.h"

#include <stdlib.h>

struct buffers {
    unsigned char *out, *in;
};

static double bcast_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct buffers *b = context;
    double seconds = 0;
    uint64_t seed = hopbyte_payload_seed(probe->root, -1, trial);
    if (probe->world.rank == probe->root)
        hopbyte_payload_fill(b->in, bytes, seed);
    for (int i = 0; i < probe->now; i++) {
        MPI_Barrier(probe->world.comm);
        double start = MPI_Wtime();
        MPI_Bcast(b->in, (int)bytes, MPI_BYTE, probe->root, probe->world.comm);
        seconds += MPI_Wtime() - start;
    }
    hopbyte_probe_check(probe, b->in, bytes, seed);
    return seconds / probe->now;
}

static double alltoall_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct buffers *b = context;
    double seconds = 0;
    int me = probe->world.rank, size = probe->world.size;
    for (int to = 0; to < size; to++)
        hopbyte_payload_fill(b->out + (size_t)to * bytes, bytes, hopbyte_payload_seed(me, to, trial));
    for (int i = 0; i < probe->now; i++) {
        MPI_Barrier(probe->world.comm);
        double start = MPI_Wtime();
        MPI_Alltoall(b->out, (int)bytes, MPI_BYTE, b->in, (int)bytes, MPI_BYTE, probe->world.comm);
        seconds += MPI_Wtime() - start;
    }
    for (int from = 0; from < size; from++)
        hopbyte_probe_check(probe, b->in + (size_t)from * bytes, bytes, hopbyte_payload_seed(from, me, trial));
    return seconds / probe->now;
}

/* A rank's contribution: whole numbers, so that the sum does not depend on the order. */
static double addend(int rank, size_t place, int trial) {
    return (rank + 1.0) * (double)(place % 97 + 1) + trial;
}

static double allreduce_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct buffers *b = context;
    double seconds = 0, *out = (double *)b->out, *in = (double *)b->in, ranks = probe->world.size;
    size_t count = bytes / sizeof *out;
    for (size_t i = 0; i < count; i++)
        out[i] = addend(probe->world.rank, i, trial);
    for (int i = 0; i < probe->now; i++) {
        MPI_Barrier(probe->world.comm);
        double start = MPI_Wtime();
        MPI_Allreduce(out, in, (int)count, MPI_DOUBLE, MPI_SUM, probe->world.comm);
        seconds += MPI_Wtime() - start;
    }
    probe->checked_bytes += (long long)bytes;
    for (size_t i = 0; i < count; i++) {
        double expected = ranks * (ranks + 1) / 2 * (double)(i % 97 + 1) + ranks * trial;
        if (in[i] != expected)
            probe->wrong_bytes += sizeof *in;
    }
    return seconds / probe->now;
}

static void collective_measure(struct hopbyte_probe *probe, hopbyte_trial *trial, size_t blocks) {
    size_t largest = hopbyte_probe_largest(probe) * blocks;
    struct buffers buffers = {hopbyte_memory(largest, "messages"), hopbyte_memory(largest, "messages")};
    for (int i = 0; i < probe->sizes.count; i++) {
        size_t bytes = probe->sizes.bytes[i];
        struct hopbyte_result result;
        struct hopbyte_record record;
        hopbyte_trials_run(probe, trial, &buffers, bytes, &result);
        hopbyte_probe_record(probe, &record, bytes);
        hopbyte_record_whole(&record, "iterations", probe->now, "iterations");
        hopbyte_record_summary(&record, &result.slowest);
        hopbyte_record_number(&record, "mean_rank_seconds", result.typical.median, "mean rank", 1e6);
        hopbyte_probe_write(probe, &record);
    }
    free(buffers.out);
    free(buffers.in);
}

void hopbyte_bcast_run(struct hopbyte_probe *probe) {
    if (probe->root >= probe->world.size)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--root: found %d, expected a rank below %d", probe->root,
                             probe->world.size);
    collective_measure(probe, bcast_trial, 1);
}

void hopbyte_alltoall_run(struct hopbyte_probe *probe) {
    collective_measure(probe, alltoall_trial, (size_t)probe->world.size);
}

void hopbyte_allreduce_run(struct hopbyte_probe *probe) {
    for (int i = 0; i < probe->sizes.count; i++)
        if (probe->sizes.bytes[i] % sizeof(double) || probe->sizes.bytes[i] == 0)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--bytes: found %zu, expected multiples of 8 (it adds doubles)",
                                 probe->sizes.bytes[i]);
    collective_measure(probe, allreduce_trial, 1);
}
