/* One-sided put and get by several threads per rank, in one passive epoch (paper 004, IV.F). */
#include "probe.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

const char hopbyte_rma_operations[] = "put|get|both";
enum { PUT, GET, BOTH, THREADS_MOST = 1024 };

struct team;

struct worker {
    struct team *team;
    int number;
    unsigned char *memory; /* put: data to send; get: a window of received data */
};

struct team {
    struct hopbyte_probe *probe;
    int operation;
    size_t bytes;
    MPI_Win window;
    unsigned char *base; /* this rank's part: a window of slots per thread */
    struct worker *workers;
    pthread_barrier_t start, end;
};

static size_t slot(const struct team *team, int thread, int place) {
    return ((size_t)thread * (size_t)team->probe->window + (size_t)place) * team->bytes;
}

static void *worker_run(void *argument) {
    struct worker *w = argument;
    struct team *team = w->team;
    struct hopbyte_probe *probe = team->probe;
    int target = hopbyte_pair_other(probe), count = (int)team->bytes;
    pthread_barrier_wait(&team->start);
    for (int i = 0; i < probe->now; i++) {
        for (int k = 0; k < probe->window; k++) {
            MPI_Aint at = (MPI_Aint)slot(team, w->number, k);
            if (team->operation == PUT)
                MPI_Put(w->memory, count, MPI_BYTE, target, at, count, MPI_BYTE, team->window);
            else
                MPI_Get(w->memory + (size_t)k * team->bytes, count, MPI_BYTE, target, at, count, MPI_BYTE,
                        team->window);
        }
        MPI_Win_flush(target, team->window);
    }
    pthread_barrier_wait(&team->end);
    return NULL;
}

/* Seconds of all threads' work, flushes included. */
static double workers_time(struct team *team) {
    pthread_t threads[THREADS_MOST];
    for (int t = 0; t < team->probe->threads; t++)
        if (pthread_create(&threads[t], NULL, worker_run, &team->workers[t]))
            hopbyte_world_abort(HOPBYTE_LACKING, "cannot start thread %d of %d", t, team->probe->threads);
    pthread_barrier_wait(&team->start);
    double start = MPI_Wtime();
    pthread_barrier_wait(&team->end);
    double seconds = MPI_Wtime() - start;
    for (int t = 0; t < team->probe->threads; t++)
        pthread_join(threads[t], NULL);
    return seconds;
}

static uint64_t seed(int rank, int thread, int trial) {
    return hopbyte_payload_seed(rank, thread, trial);
}

/* Fills the data of the trial: at the origin for put, in the target's window for get. */
static void payload_place(struct team *team, bool origin, int trial) {
    struct hopbyte_probe *probe = team->probe;
    int me = probe->world.rank;
    for (int t = 0; t < probe->threads; t++) {
        if (origin && team->operation == PUT)
            hopbyte_payload_fill(team->workers[t].memory, team->bytes, seed(me, t, trial));
        for (int k = 0; !origin && team->operation == GET && k < probe->window; k++)
            hopbyte_payload_fill(team->base + slot(team, t, k), team->bytes, seed(me, t, trial));
    }
    MPI_Win_sync(team->window);
}

/* Checks every slot at its destination. */
static void payload_check(struct team *team, bool origin, int trial) {
    struct hopbyte_probe *probe = team->probe;
    int other = hopbyte_pair_other(probe);
    MPI_Win_sync(team->window);
    for (int t = 0; t < probe->threads; t++)
        for (int k = 0; k < probe->window; k++) {
            if (!origin && team->operation == PUT)
                hopbyte_probe_check(probe, team->base + slot(team, t, k), team->bytes, seed(other, t, trial));
            if (origin && team->operation == GET)
                hopbyte_probe_check(probe, team->workers[t].memory + (size_t)k * team->bytes, team->bytes,
                                    seed(other, t, trial));
        }
}

static double rma_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct team *team = context;
    bool taking_part = hopbyte_pair_other(probe) >= 0, origin = hopbyte_pair_first(probe);
    double seconds = NAN;
    team->bytes = bytes;
    if (taking_part)
        payload_place(team, origin, trial);
    hopbyte_quiet_barrier(probe->world.comm);
    if (origin) {
        seconds = workers_time(team) / probe->now;
        long long operations = (long long)probe->now * probe->window * probe->threads;
        probe->messages += operations;
        probe->sent_bytes += (long long)bytes * operations;
    }
    hopbyte_quiet_barrier(probe->world.comm);
    if (taking_part)
        payload_check(team, origin, trial);
    return seconds;
}

static void window_open(struct team *team, size_t bytes) {
    struct hopbyte_probe *probe = team->probe;
    hopbyte_deadline_set(probe->deadline, "MPI_Win_allocate");
    MPI_Comm_set_errhandler(probe->world.comm, MPI_ERRORS_RETURN);
    int error = MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, probe->world.comm, &team->base, &team->window);
    MPI_Comm_set_errhandler(probe->world.comm, MPI_ERRORS_ARE_FATAL);
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error == MPI_SUCCESS) {
        MPI_Win_lock_all(MPI_MODE_NOCHECK, team->window);
        return;
    }
    MPI_Error_string(error, text, &length);
    hopbyte_world_abort(HOPBYTE_LACKING,
                        "MPI_Win_allocate: %s. Open MPI 4 has no one-sided component for threads across TCP: try "
                        "--threads 1 with --mca osc ^ucx, or MPICH 5 or Open MPI 5",
                        text);
}

static void team_open(struct team *team, struct hopbyte_probe *probe) {
    size_t largest = hopbyte_probe_largest(probe) * (size_t)probe->window;
    size_t part = largest * (size_t)probe->threads;
    *team = (struct team){.probe = probe};
    window_open(team, part < 4096 ? 4096 : part); /* MPICH 4 misplaces data in windows of a few bytes */
    team->workers = hopbyte_memory((size_t)probe->threads * sizeof *team->workers, "threads");
    for (int t = 0; t < probe->threads; t++)
        team->workers[t] = (struct worker){team, t, hopbyte_memory(largest, "messages")};
    pthread_barrier_init(&team->start, NULL, (unsigned)probe->threads + 1);
    pthread_barrier_init(&team->end, NULL, (unsigned)probe->threads + 1);
}

static void team_close(struct team *team) {
    MPI_Win_unlock_all(team->window);
    MPI_Win_free(&team->window);
    for (int t = 0; t < team->probe->threads; t++)
        free(team->workers[t].memory);
    free(team->workers);
    pthread_barrier_destroy(&team->start);
    pthread_barrier_destroy(&team->end);
}

static void rma_record(struct hopbyte_probe *probe, const struct team *team, size_t bytes,
                       const struct hopbyte_result *result) {
    char word[8];
    struct hopbyte_record record;
    double operations = (double)probe->pairs * probe->threads * probe->window;
    hopbyte_probe_record(probe, &record, bytes);
    hopbyte_record_text(&record, "operation", hopbyte_choice_word(hopbyte_rma_operations, team->operation, word, 8),
                        "operation");
    hopbyte_record_whole(&record, "pairs", probe->pairs, NULL);
    hopbyte_record_whole(&record, "threads", probe->threads, "threads");
    hopbyte_record_whole(&record, "window", probe->window, "window");
    hopbyte_record_whole(&record, "iterations", probe->now, NULL);
    hopbyte_record_summary(&record, &result->slowest);
    hopbyte_record_number(&record, "operations_per_second", operations / result->slowest.median, "operations/s", 1);
    hopbyte_record_number(&record, "bytes_per_second", operations * (double)bytes / result->slowest.median, "MB/s",
                          1e-6);
    hopbyte_probe_write(probe, &record);
}

void hopbyte_rma_run(struct hopbyte_probe *probe) {
    struct team team;
    if (probe->threads > 1 && probe->world.threads < MPI_THREAD_MULTIPLE)
        hopbyte_world_refuse(HOPBYTE_LACKING, "this MPI gives thread level %d, not MPI_THREAD_MULTIPLE",
                             probe->world.threads);
    if (probe->threads > THREADS_MOST)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--threads: found %d, expected at most %d", probe->threads,
                             THREADS_MOST);
    hopbyte_pairs_settle(probe, 1);
    team_open(&team, probe);
    for (team.operation = PUT; team.operation <= GET; team.operation++)
        for (int i = 0; i < probe->sizes.count; i++) {
            struct hopbyte_result result;
            if (probe->operation != BOTH && probe->operation != team.operation)
                continue;
            hopbyte_trials_run(probe, rma_trial, &team, probe->sizes.bytes[i], &result);
            rma_record(probe, &team, probe->sizes.bytes[i], &result);
        }
    team_close(&team);
}
