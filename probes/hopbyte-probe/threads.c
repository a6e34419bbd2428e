/* Latency of several threads per rank, each with its own partner thread (paper 004, IV.E), and their fairness: by
 * messages, or by puts with signals (paper 004, VII.B). */
#include "hopbyte_notify.h"
#include "probe.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

const char hopbyte_transports[] = "messages|notified";
enum { MESSAGES, NOTIFIED };
enum { TAG_DATA = 1, THREADS_MOST = 1024 };

struct team;

struct worker {
    struct team *team;
    int number;
    unsigned char *out, *in;
    double seconds; /* from the common start to this thread's last arrival */
    uint64_t signals; /* that have come */
};

struct team {
    struct hopbyte_probe *probe;
    size_t bytes;
    pthread_barrier_t start;
    struct worker *workers;
    size_t room; /* notified: bytes of a thread in the window */
    hopbyte_notify_t notify;
    int records;        /* timed trials of the current record */
    double jain, ratio; /* sums over them */
};

static void data_send(struct worker *w, int other) {
    struct team *team = w->team;
    if (team->notify)
        hopbyte_notify_put_signal(team->notify, w->out, (MPI_Aint)team->bytes, other,
                                  (MPI_Aint)((size_t)w->number * team->room), w->number, 1);
    else
        MPI_Send(w->out, (int)team->bytes, MPI_BYTE, other, TAG_DATA + w->number, team->probe->world.comm);
}

static void data_receive(struct worker *w, int other) {
    struct team *team = w->team;
    if (team->notify)
        hopbyte_notify_wait(team->notify, w->number, ++w->signals, NULL);
    else
        MPI_Recv(w->in, (int)team->bytes, MPI_BYTE, other, TAG_DATA + w->number, team->probe->world.comm,
                 MPI_STATUS_IGNORE);
}

static void *worker_run(void *argument) {
    struct worker *w = argument;
    struct hopbyte_probe *probe = w->team->probe;
    int other = hopbyte_pair_other(probe);
    bool first = hopbyte_pair_first(probe);
    pthread_barrier_wait(&w->team->start);
    double start = MPI_Wtime();
    for (int i = 0; i < probe->now; i++) {
        if (first)
            data_send(w, other);
        data_receive(w, other);
        if (!first)
            data_send(w, other);
    }
    w->seconds = MPI_Wtime() - start;
    return NULL;
}

static void workers_join(struct team *team) {
    pthread_t threads[THREADS_MOST];
    for (int t = 0; t < team->probe->threads; t++)
        if (pthread_create(&threads[t], NULL, worker_run, &team->workers[t]))
            hopbyte_world_abort(HOPBYTE_LACKING, "cannot start thread %d of %d", t, team->probe->threads);
    for (int t = 0; t < team->probe->threads; t++)
        pthread_join(threads[t], NULL);
}

/* Records how evenly the threads finished. */
static void fairness_add(struct team *team, int trial) {
    double rates[THREADS_MOST], least = INFINITY, most = 0;
    for (int t = 0; t < team->probe->threads; t++) {
        double seconds = team->workers[t].seconds;
        rates[t] = 1 / seconds;
        least = seconds < least ? seconds : least;
        most = seconds > most ? seconds : most;
    }
    if (trial == 0)
        team->records = 0, team->jain = team->ratio = 0;
    if (trial < 0)
        return;
    team->records++;
    team->jain += hopbyte_jain(rates, team->probe->threads);
    team->ratio += least / most;
}

static double threads_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct team *team = context;
    int me = probe->world.rank, other = hopbyte_pair_other(probe);
    if (other < 0)
        return NAN;
    team->bytes = bytes;
    for (int t = 0; t < probe->threads; t++)
        hopbyte_payload_fill(team->workers[t].out, bytes, hopbyte_payload_seed(me * THREADS_MOST + t, other, trial));
    workers_join(team);
    double sum = 0;
    for (int t = 0; t < probe->threads; t++) {
        sum += team->workers[t].seconds;
        hopbyte_probe_check(probe, team->workers[t].in, bytes,
                            hopbyte_payload_seed(other * THREADS_MOST + t, me, trial));
    }
    probe->messages += (long long)probe->now * probe->threads;
    probe->sent_bytes += (long long)bytes * probe->now * probe->threads;
    if (!hopbyte_pair_first(probe))
        return NAN;
    fairness_add(team, trial);
    return sum / probe->threads / (2 * probe->now);
}

static void threads_record(struct hopbyte_probe *probe, struct team *team, size_t bytes,
                           const struct hopbyte_result *result) {
    struct hopbyte_record record;
    double mine[3] = {team->jain, team->ratio, team->records}, sum[3] = {0};
    if (!hopbyte_pair_first(probe))
        mine[0] = mine[1] = mine[2] = 0;
    MPI_Reduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, 0, probe->world.comm);
    hopbyte_probe_record(probe, &record, bytes);
    hopbyte_record_whole(&record, "pairs", probe->pairs, NULL);
    hopbyte_record_whole(&record, "threads", probe->threads, "threads");
    char word[16];
    hopbyte_record_text(&record, "transport", hopbyte_choice_word(hopbyte_transports, probe->transport, word, sizeof word),
                        "transport");
    hopbyte_record_whole(&record, "iterations", probe->now, "iterations");
    hopbyte_record_summary(&record, &result->typical);
    hopbyte_record_number(&record, "jain_index", sum[0] / sum[2], "Jain", 1);
    hopbyte_record_number(&record, "finish_ratio", sum[1] / sum[2], "first/last", 1);
    hopbyte_probe_write(probe, &record);
}

void hopbyte_threads_run(struct hopbyte_probe *probe) {
    if (probe->threads > 1 && probe->world.threads < MPI_THREAD_MULTIPLE)
        hopbyte_world_refuse(HOPBYTE_LACKING, "this MPI gives thread level %d, not MPI_THREAD_MULTIPLE",
                             probe->world.threads);
    if (probe->threads > THREADS_MOST)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--threads: found %d, expected at most %d", probe->threads,
                             THREADS_MOST);
    hopbyte_pairs_settle(probe, 1);
    struct team team = {.probe = probe};
    size_t largest = hopbyte_probe_largest(probe);
    unsigned char *window = NULL;
    team.workers = hopbyte_memory((size_t)probe->threads * sizeof *team.workers, "threads");
    team.room = (largest + 63) / 64 * 64;
    if (probe->transport == NOTIFIED)
        hopbyte_notify_create((MPI_Aint)(team.room * (size_t)probe->threads), probe->threads, MPI_INFO_NULL,
                              probe->world.comm, &window, &team.notify);
    pthread_barrier_init(&team.start, NULL, (unsigned)probe->threads);
    for (int t = 0; t < probe->threads; t++)
        team.workers[t] =
            (struct worker){.team = &team,
                            .number = t,
                            .out = hopbyte_memory(largest, "messages"),
                            .in = window ? window + (size_t)t * team.room : hopbyte_memory(largest, "messages")};
    for (int i = 0; i < probe->sizes.count; i++) {
        struct hopbyte_result result;
        hopbyte_trials_run(probe, threads_trial, &team, probe->sizes.bytes[i], &result);
        threads_record(probe, &team, probe->sizes.bytes[i], &result);
    }
    for (int t = 0; t < probe->threads; t++) {
        free(team.workers[t].out);
        if (!window)
            free(team.workers[t].in);
    }
    if (window)
        hopbyte_notify_free(&team.notify);
    pthread_barrier_destroy(&team.start);
    free(team.workers);
}
