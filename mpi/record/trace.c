/* The program of a rank, in order: calls with peers and sizes, the computation between them, waits and requests.
 * ../FORMAT.md describes the file. Loops are folded while the program runs (fold.c). This file has the events and the
 * times; messages.c the point-to-point calls, program.c the file. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

bool hopbyte_tracing_on;
struct hopbyte_trace hopbyte_trace;
#define trace hopbyte_trace

enum { ROWS = 64, NODES_AN_HOUR = 300000 };
/* Ticks until the clock is looked at for the first time: enough to know how long a tick is. */
enum { LOOK_FIRST = 1 << 24 };

/* The clock of a thread. */
static _Thread_local struct {
    double gap, inside; /* of its next event, in ticks */
} own;
/* Messages of a collective whose sizes its arguments give. */
static _Thread_local struct {
    int32_t peer[ROWS];
    double bytes[ROWS];
    int count;
} rows;
/* The request that the thread's next collective call has begun. */
static _Thread_local struct {
    MPI_Request request;
    bool begun;
} requested;
static _Thread_local struct hopbyte_open open_call;
static struct hopbyte_open *deferred; /* an open call that no event has followed; the lock protects it */

bool hopbyte_trace_init(void)
{
    const char *wanted = getenv("HOPBYTE_RECORD_TRACE");
    if (!wanted || strcmp(wanted, "1") != 0)
        return true;
    trace.last_end = hopbyte_clock();
    trace.started = hopbyte_seconds_now();
    trace.next_write = trace.started + 2;
    trace.next_look = trace.last_end + LOOK_FIRST;
    __atomic_store_n(&hopbyte_tracing_on, true, __ATOMIC_RELAXED);
    return true;
}

void hopbyte_trace_leave(void)
{
    __atomic_store_n(&hopbyte_tracing_on, false, __ATOMIC_RELAXED);
}

/* A sig in three words. Its fields are put together one by one: a load of several that were just stored waits for them. */
struct sig_words {
    uint64_t word[3];
};
static inline struct sig_words sig_words(const struct hopbyte_sig *sig, uint16_t phase)
{
    uint64_t calls = sig->op | (uint64_t)sig->kind << 8 | (uint64_t)sig->group << 16;
    calls |= (uint64_t)phase << 32 | (uint64_t)sig->comm << 48 | (uint64_t)sig->how << 56;
    return (struct sig_words){{calls, (uint32_t)sig->peer | (uint64_t)(uint32_t)sig->tag << 32, (uint32_t)sig->slot}};
}

static uint64_t sig_hash(struct sig_words words)
{
    uint64_t hash = words.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ words.word[1] * UINT64_C(0xff51afd7ed558ccd) ^
                    words.word[2] * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 32;
}

static bool sigs_grow(void)
{
    uint32_t room = trace.room ? trace.room * 2 : 1024;
    struct hopbyte_sig *sigs = realloc(trace.sigs, room * sizeof *sigs);
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
        uint64_t at = sig_hash(sig_words(&sigs[i], sigs[i].phase)) & (room * 2 - 1);
        while (index[at])
            at = (at + 1) & (room * 2 - 1);
        index[at] = i + 1;
    }
    return true;
}

/* Number of a sig in a phase; UINT32_MAX without memory. */
static uint32_t sig_number(const struct hopbyte_sig *sig, uint16_t phase)
{
    if (trace.count == trace.room && !sigs_grow())
        return UINT32_MAX;
    struct sig_words words = sig_words(sig, phase);
    uint64_t mask = (uint64_t)trace.room * 2 - 1, at = sig_hash(words) & mask;
    for (; trace.index[at]; at = (at + 1) & mask) {
        const struct hopbyte_sig *known = &trace.sigs[trace.index[at] - 1];
        struct sig_words other = sig_words(known, known->phase);
        if (memcmp(&words, &other, sizeof words) == 0)
            return trace.index[at] - 1;
    }
    trace.sigs[trace.count] = *sig;
    trace.sigs[trace.count].phase = phase;
    trace.index[at] = ++trace.count;
    return trace.count - 1;
}

/* Bounds of memory. */
static void bounds_check(void)
{
    if (trace.fold.failed)
        trace.cut = "out of memory";
    if ((double)trace.fold.nodes > NODES_AN_HOUR * (1 + (hopbyte_seconds_now() - trace.started) / 3600))
        trace.cut = "too many calls that do not repeat";
}

/* Writes the trace if it is time, and sets the tick of the next look. */
static void clock_look(void)
{
    double now = hopbyte_seconds_now(), begun = now;
    if (now >= trace.next_write) {
        hopbyte_trace_write(NULL);
        now = hopbyte_seconds_now();
        trace.write_seconds = now - begun;
        trace.next_write = begun + (trace.write_seconds * 200 > 2 ? trace.write_seconds * 200 : 2);
        __atomic_store_n(&trace.last_end, hopbyte_clock(), __ATOMIC_RELAXED);
    }
    double wait = trace.next_write > now ? trace.next_write - now : 0;
    trace.next_look = hopbyte_clock() + (uint64_t)(wait / hopbyte_tick_seconds());
}

static void event_append(const struct hopbyte_sig *sig, double bytes, double gap, double inside)
{
    if (trace.cut || trace.over)
        return;
    uint32_t number = sig_number(sig, (uint16_t)__atomic_load_n(&hopbyte_recorder.phase, __ATOMIC_RELAXED));
    if (number == UINT32_MAX) {
        trace.cut = "out of memory";
        return;
    }
    hopbyte_fold_append(&trace.fold, number, gap, inside, bytes);
    trace.events++;
    if (__builtin_expect(!(trace.events & 255), 0))
        bounds_check();
    /* A program may call MPI rarely: every event looks, by the clock that was read for its time. */
    if (__builtin_expect(__atomic_load_n(&trace.last_end, __ATOMIC_RELAXED) >= trace.next_look, 0))
        clock_look();
}

/* --- open calls of threads --- */

static void items_append(const struct hopbyte_sink *items, int32_t slot, double *gap);

/* The deferred call becomes a begin here. */
static void deferred_tell(void)
{
    struct hopbyte_open *call = deferred;
    deferred = NULL;
    call->told = true;
    for (int i = 0; i < call->count; i++) {
        call->sigs[i].slot = hopbyte_slot_take();
        if (call->sigs[i].op == TRACE_COLLECTIVE)
            items_append(&call->items, call->sigs[i].slot, &call->gap);
        else
            event_append(&call->sigs[i], call->bytes[i], call->gap, 0);
        call->gap = 0;
    }
}

void hopbyte_event_add(struct hopbyte_sig sig, double bytes)
{
    if (__builtin_expect(deferred && deferred != &open_call, 0))
        deferred_tell();
    event_append(&sig, bytes, own.gap, own.inside);
    own.gap = own.inside = 0;
}

/* Time between the last call and this one; adds the time in it. */
static double time_take(uint64_t begun, uint64_t ended)
{
    struct hopbyte_moments moments = hopbyte_moments_take(&trace.last_end, begun, ended);
    own.inside += (double)moments.inside;
    return (double)moments.gap;
}

void hopbyte_open_begin(struct hopbyte_open call)
{
    uint64_t now = hopbyte_clock();
    hopbyte_thread_note();
    call.gap = own.gap + time_take(now, now);
    own.gap = 0;
    hopbyte_lock();
    if (deferred)
        deferred_tell();
    open_call = call;
    deferred = &open_call;
    hopbyte_unlock();
}

struct hopbyte_open *hopbyte_open_end(void)
{
    if (!open_call.count)
        return NULL;
    if (open_call.told)
        return &open_call;
    deferred = NULL;
    own.gap += open_call.gap;
    open_call.count = 0;
    return NULL;
}

void hopbyte_trace_close(void)
{
    hopbyte_lock();
    struct hopbyte_open *told = hopbyte_open_end();
    for (int i = 0; told && i < told->count; i++)
        hopbyte_slot_give(told->sigs[i].slot);
    open_call.count = 0;
    hopbyte_unlock();
    free(open_call.items.items);
    open_call.items = (struct hopbyte_sink){0};
}

void hopbyte_trace_open_collective(struct hopbyte_sink *items)
{
    hopbyte_open_begin((struct hopbyte_open){.count = 1, .sigs[0].op = TRACE_COLLECTIVE, .items = *items});
}

void hopbyte_trace_time(uint64_t begun, uint64_t ended)
{
    hopbyte_thread_note();
    own.gap += time_take(begun, ended);
}

void hopbyte_trace_now(void)
{
    uint64_t now = hopbyte_clock();
    hopbyte_trace_time(now, now);
}

/* --- slots --- */

int32_t hopbyte_slot_take(void)
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

void hopbyte_slot_give(int32_t slot)
{
    if (slot >= 0)
        trace.used[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

/* --- collectives --- */

void hopbyte_trace_requested(const MPI_Request *request)
{
    requested.begun = request != NULL;
    if (request)
        requested.request = *request;
}

/* Rows that are too many to keep are given as their sum. */
static void row_keep(const struct hopbyte_item *item)
{
    if (!item->bytes)
        return;
    if (rows.count < ROWS) {
        rows.peer[rows.count] = hopbyte_key_rank(item->key);
        rows.bytes[rows.count] = (double)item->bytes;
    }
    rows.count++;
}

/* One collective call with the rows before it. The lock is held. */
static void collective_append(const struct hopbyte_item *item, int32_t slot, double *gap, double *inside)
{
    struct hopbyte_sig sig = {.op = TRACE_COLLECTIVE,
                              .kind = (uint8_t)hopbyte_key_kind(item->key),
                              .group = hopbyte_key_group(item->key),
                              .comm = (uint8_t)hopbyte_key_phase(item->key),
                              .how = (uint8_t)((item->size & HOW_BITS) >> HOW_SHIFT),
                              .peer = hopbyte_key_rank(item->key),
                              .tag = rows.count > ROWS,
                              .slot = slot};
    uint64_t both = hopbyte_key_class(item->key) == CLASS_DIRECT ? item->size & ~HOW_BITS : 0;
    if (both) { /* between two groups: of both */
        sig.kind |= KIND_INTER;
        sig.group = (uint16_t)(both - 1);
        sig.peer = -1;
    }
    for (int i = 0; i < rows.count && rows.count <= ROWS; i++) {
        event_append(&(struct hopbyte_sig){.op = TRACE_ROW, .peer = rows.peer[i], .tag = -1, .slot = -1}, rows.bytes[i],
                     *gap, *inside);
        *gap = *inside = 0;
    }
    trace.rounded += rows.count > ROWS;
    event_append(&sig, (double)item->bytes, *gap, *inside);
    *gap = *inside = 0;
    rows.count = 0;
}

static void items_append(const struct hopbyte_sink *items, int32_t slot, double *gap)
{
    double inside = 0;
    int kept = rows.count; /* of the thread that tells: none, for its own rows come after this */
    rows.count = 0;
    for (int i = 0; i < items->count; i++) {
        if (hopbyte_key_class(items->items[i].key) == CLASS_PAIR)
            row_keep(&items->items[i]);
        else
            collective_append(&items->items[i], slot, gap, &inside);
    }
    rows.count = kept;
}

void hopbyte_trace_item(const struct hopbyte_item *item)
{
    enum hopbyte_class what = hopbyte_key_class(item->key);
    if (what == CLASS_PAIR) {
        row_keep(item);
        return;
    }
    if (what != CLASS_CALL && what != CLASS_DIRECT) { /* one-sided; single messages are added by their calls */
        __atomic_fetch_add(&trace.untraced, what == CLASS_PUT || what == CLASS_GET, __ATOMIC_RELAXED);
        return;
    }
    hopbyte_lock();
    struct hopbyte_open *told = hopbyte_open_end();
    if (told && requested.begun) {
        hopbyte_request_begin(requested.request, told->sigs[0].slot);
        told->count = 0; /* The slot is the request's. */
    } else if (told) {
        hopbyte_event_add(
            (struct hopbyte_sig){.op = TRACE_WAIT, .slot = told->sigs[0].slot, .peer = -1, .tag = -1}, 0);
    } else {
        if (deferred)
            deferred_tell();
        int32_t slot = requested.begun ? hopbyte_request_begin(requested.request, -1) : -1;
        collective_append(item, slot, &own.gap, &own.inside);
    }
    hopbyte_unlock();
    requested.begun = false;
    rows.count = 0;
}

/* Adds the end. The lock is held. */
void hopbyte_trace_end(void)
{
    uint64_t now = hopbyte_clock();
    own.gap += time_take(now, now);
    hopbyte_event_add((struct hopbyte_sig){.op = TRACE_END, .peer = -1, .tag = -1, .slot = -1}, 0);
    trace.over = true;
    hopbyte_trace_leave();
}
