/* Message rate in the four patterns of paper 004, IV.C: the pairs are fixed, the number of messages in flight
 * differs. */
#include "probe.h"

#include <math.h>
#include <stdlib.h>

const char hopbyte_rate_patterns[] = "single|pairs|prepost|allstart";
enum { SINGLE, PAIRS, PREPOST, ALLSTART };
enum { TAG_DATA = 1, PEERS = 6 };

struct peers {
    int count;
    int *to, *from;        /* by turn */
    unsigned char *out;    /* one message per target */
    unsigned char *in;     /* a window of messages per source */
    MPI_Request *requests; /* receives of all turns, then sends of all turns */
};

/* single: the first half of the ranks sends to the second. Otherwise every rank sends to and receives from `peers`
 * ranks around it, by turns: to +1 from -1, to -1 from +1, to +2 from -2, … */
static void peers_choose(const struct hopbyte_probe *probe, struct peers *p) {
    int rank = probe->world.rank, size = probe->world.size;
    p->count = probe->pattern == SINGLE ? 1 : probe->peers;
    p->to = hopbyte_memory((size_t)p->count * sizeof *p->to, "peers");
    p->from = hopbyte_memory((size_t)p->count * sizeof *p->from, "peers");
    if (probe->pattern == SINGLE) {
        int other = hopbyte_pair_other(probe);
        p->to[0] = other >= 0 && hopbyte_pair_first(probe) ? other : MPI_PROC_NULL;
        p->from[0] = other >= 0 && !hopbyte_pair_first(probe) ? other : MPI_PROC_NULL;
        return;
    }
    for (int turn = 0; turn < p->count; turn++) {
        int distance = turn % 2 ? -(turn / 2 + 1) : turn / 2 + 1;
        p->to[turn] = (rank + distance + size) % size;
        p->from[turn] = (rank - distance + size) % size;
    }
}

static void receives_post(const struct hopbyte_probe *probe, struct peers *p, size_t bytes, int turn) {
    for (int i = 0; i < probe->window; i++) {
        int place = turn * probe->window + i;
        MPI_Irecv(p->in + (size_t)place * bytes, (int)bytes, MPI_BYTE, p->from[turn], TAG_DATA + turn,
                  probe->world.comm, &p->requests[place]);
    }
}

static void sends_start(struct hopbyte_probe *probe, struct peers *p, size_t bytes, int turn) {
    int behind = p->count * probe->window;
    for (int i = 0; i < probe->window; i++)
        MPI_Isend(p->out + (size_t)turn * bytes, (int)bytes, MPI_BYTE, p->to[turn], TAG_DATA + turn, probe->world.comm,
                  &p->requests[behind + turn * probe->window + i]);
    if (p->to[turn] == MPI_PROC_NULL)
        return;
    probe->messages += probe->window;
    probe->sent_bytes += (long long)bytes * probe->window;
}

static void turns_wait(const struct hopbyte_probe *probe, struct peers *p, int first, int count) {
    int window = probe->window, behind = p->count * window;
    MPI_Waitall(count * window, p->requests + first * window, MPI_STATUSES_IGNORE);
    MPI_Waitall(count * window, p->requests + behind + first * window, MPI_STATUSES_IGNORE);
}

static void exchange(struct hopbyte_probe *probe, struct peers *p, size_t bytes) {
    if (probe->pattern == PAIRS) { /* one peer after the other */
        for (int turn = 0; turn < p->count; turn++) {
            receives_post(probe, p, bytes, turn);
            sends_start(probe, p, bytes, turn);
            turns_wait(probe, p, turn, 1);
        }
        return;
    }
    for (int turn = 0; turn < p->count; turn++) {
        receives_post(probe, p, bytes, turn);
        if (probe->pattern == ALLSTART) /* no handshake: the receiver may not be ready */
            sends_start(probe, p, bytes, turn);
    }
    if (probe->pattern != ALLSTART) {
        MPI_Barrier(probe->world.comm); /* single and prepost: all receives of all ranks are posted */
        for (int turn = 0; turn < p->count; turn++)
            sends_start(probe, p, bytes, turn);
    }
    turns_wait(probe, p, 0, p->count);
}

static double rate_trial(struct hopbyte_probe *probe, void *context, size_t bytes, int trial) {
    struct peers *p = context;
    int me = probe->world.rank;
    for (int turn = 0; turn < p->count; turn++)
        hopbyte_payload_fill(p->out + (size_t)turn * bytes, bytes, hopbyte_payload_seed(me, p->to[turn], trial));
    MPI_Barrier(probe->world.comm);
    double start = MPI_Wtime();
    for (int i = 0; i < probe->now; i++)
        exchange(probe, p, bytes);
    double seconds = (MPI_Wtime() - start) / probe->now;
    for (int turn = 0; turn < p->count; turn++)
        for (int i = 0; p->from[turn] != MPI_PROC_NULL && i < probe->window; i++)
            hopbyte_probe_check(probe, p->in + (size_t)(turn * probe->window + i) * bytes, bytes,
                                hopbyte_payload_seed(p->from[turn], me, trial));
    return seconds;
}

void hopbyte_rate_run(struct hopbyte_probe *probe) {
    char word[16];
    struct peers p;
    bool single = probe->pattern == SINGLE;
    if (probe->peers == 0)
        probe->peers = probe->world.size <= PEERS ? probe->world.size - 1 : PEERS;
    if (single)
        hopbyte_pairs_settle(probe, probe->world.size);
    else if (probe->world.size <= probe->peers)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--peers: found %d, expected fewer than the %d ranks", probe->peers,
                             probe->world.size);
    peers_choose(probe, &p);
    size_t largest = hopbyte_probe_largest(probe), places = (size_t)p.count * (size_t)probe->window;
    p.out = hopbyte_memory(largest * (size_t)p.count, "messages");
    p.in = hopbyte_memory(largest * places, "messages");
    p.requests = hopbyte_memory(2 * places * sizeof *p.requests, "requests");
    for (int i = 0; i < probe->sizes.count; i++) {
        size_t bytes = probe->sizes.bytes[i];
        struct hopbyte_result result;
        struct hopbyte_record record;
        hopbyte_trials_run(probe, rate_trial, &p, bytes, &result);
        double messages = (double)probe->window * (single ? probe->pairs : p.count * probe->world.size);
        hopbyte_probe_record(probe, &record, bytes);
        hopbyte_record_text(&record, "pattern", hopbyte_choice_word(hopbyte_rate_patterns, probe->pattern, word, 16),
                            "pattern");
        hopbyte_record_whole(&record, "peers", p.count, "peers");
        if (single)
            hopbyte_record_whole(&record, "pairs", probe->pairs, NULL);
        hopbyte_record_whole(&record, "window", probe->window, "window");
        hopbyte_record_whole(&record, "iterations", probe->now, NULL);
        hopbyte_record_summary(&record, &result.slowest);
        hopbyte_record_number(&record, "messages_per_second", messages / result.slowest.median, "messages/s", 1);
        hopbyte_record_number(&record, "bytes_per_second", messages * (double)bytes / result.slowest.median, "MB/s",
                              1e-6);
        hopbyte_probe_write(probe, &record);
    }
    free(p.to);
    free(p.from);
    free(p.out);
    free(p.in);
    free(p.requests);
}
