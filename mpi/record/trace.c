/* The program of a rank, in order: calls with peers and sizes, the computation between them, waits and requests.
 * ../FORMAT.md describes the file. Loops are folded while the program runs (fold.c); the file is written again every
 * few seconds under a temporary name and renamed, so a rank that is killed leaves what it did until shortly before. */
#include "../common/numbers.h"
#include "fold.h"
#include "record.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool hopbyte_tracing_on;

/* What the executions of one event have in common. */
struct sig {
    uint8_t op, kind;
    uint16_t group, phase, unused;
    int32_t peer, tag, slot; /* peer: world rank, or the root in the group */
};

/* A request under way, or a persistent one. */
struct pending {
    uintptr_t handle;
    int32_t slot;
    bool persistent, active;
    struct sig sig; /* of a persistent one */
    double bytes;
    struct pending *next;
};

enum { BUCKETS = 4096, ROWS = 64, NODES_AN_HOUR = 300000 };
static const double POLL_SECONDS = 2e-6;

static struct {
    struct hopbyte_fold fold;
    struct sig *sigs;
    uint32_t *index; /* open addressing: number of a sig plus 1 */
    uint32_t count, room;
    struct pending *pending[BUCKETS];
    uint64_t *used; /* bits of slots */
    int used_words;
    uint64_t last_end; /* of all threads' calls; atomic */
    double next_write, write_seconds, started;
    uint64_t events, rounded, untraced, threads; /* the last two atomic */
    const char *cut;                             /* why no more is traced */
    bool over;
} trace;

/* The clock of a thread. */
static _Thread_local struct {
    double gap, inside; /* of its next event, in ticks */
    double tick;        /* seconds; 0 until a poll needs it */
    bool polled;        /* its last call waited in vain */
    bool known;
} own;
/* Requests of the call that runs, and what a matching probe found. */
static _Thread_local struct {
    uintptr_t *handles;
    int room;
} before;
static _Thread_local struct sig matched;
/* Messages of a collective whose sizes its arguments give. */
static _Thread_local struct {
    int32_t peer[ROWS];
    double bytes[ROWS];
    int count;
} rows;

bool hopbyte_trace_init(void)
{
    const char *wanted = getenv("HOPBYTE_RECORD_TRACE");
    if (!wanted || strcmp(wanted, "1") != 0)
        return true;
    trace.last_end = hopbyte_clock();
    trace.started = hopbyte_seconds_now();
    trace.next_write = trace.started + 2;
    __atomic_store_n(&hopbyte_tracing_on, true, __ATOMIC_RELAXED);
    return true;
}

void hopbyte_trace_leave(void)
{
    __atomic_store_n(&hopbyte_tracing_on, false, __ATOMIC_RELAXED);
}

static uint64_t sig_hash(const struct sig *sig)
{
    uint64_t words[3] = {0};
    memcpy(words, sig, sizeof *sig);
    uint64_t hash = words[0] * UINT64_C(0x9e3779b97f4a7c15) ^ words[1] * UINT64_C(0xff51afd7ed558ccd) ^
                    words[2] * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 32;
}

static bool sigs_grow(void)
{
    uint32_t room = trace.room ? trace.room * 2 : 1024;
    struct sig *sigs = realloc(trace.sigs, room * sizeof *sigs);
    uint32_t *index = calloc((size_t)room * 2, sizeof *index);
    if (sigs)
        trace.sigs = sigs;
    if (!sigs || !index) {
        free(index);
        return false;
    }
    free(trace.index);
    trace.index = index;
    trace.room = room;
    for (uint32_t i = 0; i < trace.count; i++) {
        uint64_t at = sig_hash(&sigs[i]) & (room * 2 - 1);
        while (index[at])
            at = (at + 1) & (room * 2 - 1);
        index[at] = i + 1;
    }
    return true;
}

/* Number of a sig; UINT32_MAX without memory. */
static uint32_t sig_number(const struct sig *sig)
{
    if (trace.count == trace.room && !sigs_grow())
        return UINT32_MAX;
    uint64_t mask = (uint64_t)trace.room * 2 - 1, at = sig_hash(sig) & mask;
    for (; trace.index[at]; at = (at + 1) & mask)
        if (memcmp(&trace.sigs[trace.index[at] - 1], sig, sizeof *sig) == 0)
            return trace.index[at] - 1;
    trace.sigs[trace.count] = *sig;
    trace.index[at] = ++trace.count;
    return trace.count - 1;
}

/* Adds an event. The lock is held. */
static void event_add(struct sig sig, double bytes)
{
    if (trace.cut || trace.over)
        return;
    sig.phase = (uint16_t)__atomic_load_n(&hopbyte_recorder.phase, __ATOMIC_RELAXED);
    uint32_t number = sig_number(&sig);
    if (number == UINT32_MAX) {
        trace.cut = "out of memory";
        return;
    }
    hopbyte_fold_append(&trace.fold, number, own.gap, own.inside, bytes);
    own.gap = own.inside = 0;
    trace.events++;
    if (__builtin_expect(trace.events & 255, 1))
        return;
    if (trace.fold.failed)
        trace.cut = "out of memory";
    double now = hopbyte_seconds_now();
    if ((double)trace.fold.nodes > NODES_AN_HOUR * (1 + (now - trace.started) / 3600))
        trace.cut = "too many calls that do not repeat";
    if (now < trace.next_write)
        return;
    hopbyte_trace_write(NULL);
    trace.write_seconds = hopbyte_seconds_now() - now;
    trace.next_write = now + (trace.write_seconds * 200 > 2 ? trace.write_seconds * 200 : 2);
    __atomic_store_n(&trace.last_end, hopbyte_clock(), __ATOMIC_RELAXED);
}

/* Time between the last call and this one, and in it. Where calls of threads overlap, each moment belongs to the call
 * that ends first: gaps and times of all threads add up to the duration of the run. */
static double time_take(uint64_t begun, uint64_t ended)
{
    uint64_t last = __atomic_load_n(&trace.last_end, __ATOMIC_RELAXED);
    do {
        if (ended <= last)
            return 0;
    } while (!__atomic_compare_exchange_n(&trace.last_end, &last, ended, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    own.inside += (double)(ended - (begun > last ? begun : last));
    return begun > last ? (double)(begun - last) : 0;
}

static void thread_count(void)
{
    if (__builtin_expect(own.known, 1))
        return;
    own.known = true;
    __atomic_fetch_add(&trace.threads, 1, __ATOMIC_RELAXED);
}

void hopbyte_trace_time(uint64_t begun, uint64_t ended)
{
    thread_count();
    own.gap += time_take(begun, ended);
    own.polled = false;
}

void hopbyte_trace_poll(uint64_t begun, uint64_t ended)
{
    thread_count();
    if (own.tick == 0)
        own.tick = hopbyte_tick_seconds();
    double gap = time_take(begun, ended);
    if (own.polled && gap * own.tick < POLL_SECONDS)
        own.inside += gap;
    else
        own.gap += gap;
    own.polled = true;
}

/* --- requests --- */

static int32_t slot_take(void)
{
    for (int word = 0;; word++) {
        if (word == trace.used_words) {
            uint64_t *more = realloc(trace.used, (size_t)(word + 16) * sizeof *more);
            if (!more)
                return -1;
            memset(more + word, 0, 16 * sizeof *more);
            trace.used = more;
            trace.used_words = word + 16;
        }
        if (~trace.used[word]) {
            int bit = __builtin_ctzll(~trace.used[word]);
            trace.used[word] |= UINT64_C(1) << bit;
            return word * 64 + bit;
        }
    }
}

static void slot_give(int32_t slot)
{
    if (slot >= 0)
        trace.used[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

static struct pending **pending_find(uintptr_t handle)
{
    struct pending **at = &trace.pending[(handle * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

/* A request that begins. Several may have the same handle: those that are complete already. */
static struct pending *pending_add(const MPI_Request *request)
{
    struct pending *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        trace.cut = "out of memory";
        return NULL;
    }
    fresh->handle = (uintptr_t)*request;
    fresh->slot = slot_take();
    fresh->active = true;
    struct pending **end = &trace.pending[(fresh->handle * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
    while (*end)
        end = &(*end)->next;
    *end = fresh;
    return fresh;
}

static void request_done(uintptr_t handle)
{
    struct pending **at = pending_find(handle), *p = *at;
    if (!p || !p->active)
        return;
    event_add((struct sig){.op = TRACE_WAIT, .slot = p->slot, .peer = -1, .tag = -1}, 0);
    if (p->persistent) {
        p->active = false;
        return;
    }
    slot_give(p->slot);
    *at = p->next;
    free(p);
}

void hopbyte_trace_before(int count, const MPI_Request *requests)
{
    if (count > before.room) {
        uintptr_t *more = realloc(before.handles, (size_t)count * 2 * sizeof *more);
        if (!more)
            return;
        before.handles = more;
        before.room = count * 2;
    }
    for (int i = 0; i < count; i++)
        before.handles[i] = (uintptr_t)requests[i];
}

void hopbyte_trace_done(int at)
{
    if (at < 0 || at >= before.room) /* MPI_UNDEFINED */
        return;
    hopbyte_lock();
    request_done(before.handles[at]);
    hopbyte_unlock();
}

void hopbyte_trace_done_all(int count)
{
    hopbyte_lock();
    for (int i = 0; i < count && i < before.room; i++)
        request_done(before.handles[i]);
    hopbyte_unlock();
}

void hopbyte_trace_free(MPI_Request request)
{
    hopbyte_lock();
    struct pending **at = pending_find((uintptr_t)request), *p = *at;
    if (p) {
        slot_give(p->slot);
        *at = p->next;
        free(p);
    }
    hopbyte_unlock();
}

/* --- events of calls --- */

/* False: no message. */
static bool message_sig(struct sig *sig, enum hopbyte_trace_op op, MPI_Comm comm, int peer, int tag)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c || (peer < 0 && peer != MPI_ANY_SOURCE))
        return false;
    int rank = peer < 0 ? -1 : hopbyte_group_world_rank(c->peers, peer);
    if (peer >= 0 && rank < 0) { /* of another world */
        __atomic_fetch_add(&trace.untraced, 1, __ATOMIC_RELAXED);
        return false;
    }
    *sig = (struct sig){.op = (uint8_t)op, .group = c->local->index, .peer = rank, .tag = tag < 0 ? -1 : tag, .slot = -1};
    return true;
}

static void message_add(struct sig sig, double bytes, const MPI_Request *request)
{
    hopbyte_lock();
    if (request) {
        const struct pending *p = pending_add(request);
        sig.slot = p ? p->slot : -1;
    }
    event_add(sig, bytes);
    hopbyte_unlock();
}

static double bytes_of(MPI_Count count, MPI_Datatype type)
{
    return count > 0 ? (double)count * (double)hopbyte_type_size(type) : 0;
}

void hopbyte_trace_send(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type,
                        const MPI_Request *request)
{
    struct sig sig;
    if (message_sig(&sig, TRACE_SEND, comm, dest, tag))
        message_add(sig, bytes_of(count, type), request);
}

void hopbyte_trace_receive(MPI_Comm comm, int source, int tag, const MPI_Status *status, const MPI_Request *request)
{
    struct sig sig;
    bool known = status && status != MPI_STATUS_IGNORE && !request;
    if (known && source == MPI_ANY_SOURCE)
        source = status->MPI_SOURCE;
    if (known && tag == MPI_ANY_TAG)
        tag = status->MPI_TAG;
    if (message_sig(&sig, TRACE_RECEIVE, comm, source, tag))
        message_add(sig, 0, request);
}

void hopbyte_trace_both(MPI_Comm comm, int dest, int send_tag, MPI_Count count, MPI_Datatype type, int source,
                        int receive_tag)
{
    struct sig send, receive;
    bool sends = message_sig(&send, TRACE_SEND, comm, dest, send_tag);
    bool receives = message_sig(&receive, TRACE_RECEIVE, comm, source, receive_tag);
    hopbyte_lock();
    send.slot = sends ? slot_take() : -1;
    receive.slot = receives ? slot_take() : -1;
    if (receives)
        event_add(receive, 0);
    if (sends)
        event_add(send, bytes_of(count, type));
    for (int i = 0; i < 2; i++)
        if (i ? sends : receives)
            event_add((struct sig){.op = TRACE_WAIT, .slot = i ? send.slot : receive.slot, .peer = -1, .tag = -1}, 0);
    slot_give(send.slot);
    slot_give(receive.slot);
    hopbyte_unlock();
}

void hopbyte_trace_matched(MPI_Comm comm, const MPI_Status *status, int source, int tag)
{
    bool known = status && status != MPI_STATUS_IGNORE;
    if (!message_sig(&matched, TRACE_RECEIVE, comm, known ? status->MPI_SOURCE : source, known ? status->MPI_TAG : tag))
        matched.op = 0;
}

void hopbyte_trace_matched_receive(const MPI_Request *request)
{
    if (matched.op)
        message_add(matched, 0, request);
    matched.op = 0;
}

void hopbyte_trace_persistent(enum hopbyte_trace_op op, MPI_Comm comm, int peer, int tag, MPI_Count count,
                              MPI_Datatype type, const MPI_Request *request)
{
    struct sig sig;
    if (!message_sig(&sig, op, comm, peer, tag))
        return;
    hopbyte_lock();
    struct pending *p = pending_add(request);
    if (p) {
        p->persistent = true;
        p->active = false;
        p->sig = sig;
        p->sig.slot = p->slot;
        p->bytes = op == TRACE_SEND ? bytes_of(count, type) : 0;
    }
    hopbyte_unlock();
}

void hopbyte_trace_start(MPI_Request request)
{
    hopbyte_lock();
    struct pending *p = *pending_find((uintptr_t)request);
    if (p && p->persistent) {
        p->active = true;
        event_add(p->sig, p->bytes);
    }
    hopbyte_unlock();
}

/* Rows that are too many to keep are given as their sum. */
void hopbyte_trace_item(const struct hopbyte_item *item)
{
    enum hopbyte_class what = hopbyte_key_class(item->key);
    if (what == CLASS_PAIR) {
        if (!item->bytes)
            return;
        if (rows.count < ROWS) {
            rows.peer[rows.count] = hopbyte_key_rank(item->key);
            rows.bytes[rows.count] = (double)item->bytes;
        }
        rows.count++;
        return;
    }
    if (what != CLASS_CALL && what != CLASS_DIRECT) { /* one-sided; single messages are added by their calls */
        __atomic_fetch_add(&trace.untraced, what == CLASS_PUT || what == CLASS_GET, __ATOMIC_RELAXED);
        return;
    }
    struct sig sig = {.op = TRACE_COLLECTIVE,
                      .kind = (uint8_t)hopbyte_key_kind(item->key),
                      .group = hopbyte_key_group(item->key),
                      .peer = hopbyte_key_rank(item->key),
                      .tag = rows.count > ROWS,
                      .slot = -1};
    hopbyte_lock();
    for (int i = 0; i < rows.count && rows.count <= ROWS; i++)
        event_add((struct sig){.op = TRACE_ROW, .peer = rows.peer[i], .tag = -1, .slot = -1}, rows.bytes[i]);
    trace.rounded += rows.count > ROWS;
    event_add(sig, (double)item->bytes);
    hopbyte_unlock();
    rows.count = 0;
}

/* --- the file --- */

struct writer {
    FILE *out;
    double tick;
};

static void event_write(void *context, const struct hopbyte_fold_node *node, const char *loop, bool end)
{
    struct writer *w = context;
    if (loop) {
        fprintf(w->out, "(\t%s\n", loop);
        return;
    }
    if (end) {
        fputs(")\n", w->out);
        return;
    }
    const struct hopbyte_fold_sums *s = &node->sums;
    double gap = s->gap * w->tick * 1e9 / (double)s->times, inside = s->inside * w->tick * 1e9 / (double)s->times;
    fprintf(w->out, "%" PRIu32, node->event);
    fprintf(w->out, gap || inside || s->most ? "\t%.4g" : "", gap);
    fprintf(w->out, inside || s->most ? "\t%.4g" : "", inside);
    fprintf(w->out, s->most ? "\t%.10g" : "", s->bytes / (double)s->times);
    fprintf(w->out, s->most != s->least ? "\t%.10g\t%.10g\n" : "\n", s->least, s->most);
}

static void sigs_write(FILE *out)
{
    static const char *const names[] = {"", "send", "receive", "wait", "collective", "row", "end"};
    for (uint32_t i = 0; i < trace.count; i++) {
        const struct sig *s = &trace.sigs[i];
        const struct hopbyte_group *g = hopbyte_group_at(s->group);
        char group[20] = "-";
        if (g && (s->op == TRACE_SEND || s->op == TRACE_RECEIVE || s->op == TRACE_COLLECTIVE))
            snprintf(group, sizeof group, "%016" PRIx64, g->id);
        fprintf(out, "event\t%" PRIu32 "\t%s\t%u\t%s\t%d\t%d\t%d\t%s\n", i, names[s->op], s->phase, group, s->peer, s->tag,
                s->slot, s->op == TRACE_COLLECTIVE ? hopbyte_kind_names[s->kind] : "-");
    }
}

/* The lock is held. */
void hopbyte_trace_write(const char *ended)
{
    char path[PATH_MAX + 32], temporary[PATH_MAX + 64];
    if (!hopbyte_tracing())
        return;
    if (ended) {
        uint64_t now = hopbyte_clock();
        own.gap += time_take(now, now);
        event_add((struct sig){.op = TRACE_END, .peer = -1, .tag = -1, .slot = -1}, 0);
        trace.over = true;
        hopbyte_trace_leave();
    }
    uint64_t untraced = __atomic_load_n(&trace.untraced, __ATOMIC_RELAXED);
    uint64_t threads = __atomic_load_n(&trace.threads, __ATOMIC_RELAXED);
    snprintf(path, sizeof path, "%s.hbt", hopbyte_file_stem());
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    FILE *out = fopen(temporary, "we");
    if (!out) {
        trace.cut = "its file cannot be written";
        return;
    }
    locale_t numbers = hopbyte_numbers_begin();
    fprintf(out, "# hopbyte-trace 1\nrank\t%d\nsize\t%d\nseconds\t%.6f\n", hopbyte_recorder.rank, hopbyte_recorder.size,
            hopbyte_seconds_now() - trace.started);
    hopbyte_library_write(out);
    for (int i = 0; i < hopbyte_phase_count(); i++)
        fprintf(out, "phase\t%d\t%s\n", i, hopbyte_phase_name(i));
    const struct hopbyte_group *g;
    for (int i = 0; (g = hopbyte_group_at((uint16_t)i)); i++) {
        hopbyte_group_write(out, g);
        fputc('\n', out);
    }
    sigs_write(out);
    fputs("program\n", out);
    struct writer w = {out, hopbyte_tick_seconds()};
    hopbyte_fold_walk(&trace.fold, event_write, &w);
    fprintf(out, "events\t%" PRIu64 "\n", trace.events);
    if (trace.rounded)
        fprintf(out, "rounded\t%" PRIu64 "\n", trace.rounded);
    if (untraced)
        fprintf(out, "untraced\t%" PRIu64 "\n", untraced);
    if (threads > 1)
        fprintf(out, "threads\t%" PRIu64 "\n", threads);
    if (trace.cut)
        fprintf(out, "cut\t%s\n", trace.cut);
    fprintf(out, "ended\t%s\n", ended ? ended : "running");
    hopbyte_numbers_end(numbers);
    bool bad = ferror(out);
    if (fclose(out) != 0 || bad || rename(temporary, path) != 0) {
        unlink(temporary);
        trace.cut = "its file cannot be written";
        hopbyte_say("cannot write %s; the trace of rank %d ends here", path, hopbyte_recorder.rank);
    }
}
