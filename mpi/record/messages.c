/* Point-to-point messages of the trace: sends, receives, requests, and waits for them. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#define trace hopbyte_trace

/* A request under way, or a persistent one. */
struct pending {
    uintptr_t handle;
    int32_t slot;
    bool persistent, active;
    bool cancelled; /* somebody asked for it */
    bool buffered;  /* complete as soon as it has begun */
    bool twin;      /* the next one of this handle belongs to it */
    int parts, ready; /* partitions of a send, and those that may leave */
    const struct hopbyte_group *peers; /* of a receive from any source: the communicator's ranks */
    struct hopbyte_sig sig;
    double bytes; /* of a persistent one */
    struct pending *next;
};

/* A message that a matching probe found. */
struct found {
    uintptr_t message;
    struct hopbyte_sig sig;
    const struct hopbyte_group *peers;
    struct found *next;
};

enum { BUCKETS = 4096 };
static struct pending *requests[BUCKETS];
static struct found *found;

static bool open_receives; /* there was a receive from any source or of any tag; atomic */

/* A receive from any source that ends together with others: what it was asked to match, and what it took. */
struct ended {
    struct hopbyte_sig sig; /* without its slot */
    int place, source, tag;
};

/* Requests, statuses and message of the call that runs. */
static _Thread_local struct {
    uintptr_t *handles;
    MPI_Status *statuses;
    struct ended *ended;
    int room, status_room, ended_room;
    uintptr_t message;
} before;

static struct pending **pending_find(uintptr_t handle)
{
    struct pending **at = &requests[(handle * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

/* A request that begins, with its slot. Several may have the same handle: those that are complete already. */
static struct pending *pending_add(MPI_Request request, int32_t slot)
{
    struct pending *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        trace.cut = "out of memory";
        return NULL;
    }
    fresh->handle = (uintptr_t)request;
    fresh->slot = slot;
    fresh->active = true;
    struct pending **end = &requests[(fresh->handle * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
    while (*end)
        end = &(*end)->next;
    *end = fresh;
    return fresh;
}

static void pending_drop(struct pending **at)
{
    struct pending *p = *at;
    hopbyte_slot_give(p->slot);
    *at = p->next;
    free(p);
}

int32_t hopbyte_request_begin(MPI_Request request, int32_t slot)
{
    struct pending *p = *pending_find((uintptr_t)request);
    if (p && p->persistent && p->sig.op == TRACE_COLLECTIVE) {
        p->active = true;
        return p->slot;
    }
    p = pending_add(request, slot < 0 ? hopbyte_slot_take() : slot);
    return p ? p->slot : -1;
}

/* The event at the end of a request: a wait, with the source and tag of a message that a receive from any source took. */
static struct hopbyte_sig end_sig(int32_t slot, const struct hopbyte_group *peers, const MPI_Status *status)
{
    struct hopbyte_sig sig = {.op = TRACE_WAIT, .slot = slot, .peer = -1, .tag = -1};
    if (peers && status && status->MPI_SOURCE >= 0) {
        sig.peer = hopbyte_group_world_rank(peers, status->MPI_SOURCE);
        sig.tag = sig.peer < 0 ? -1 : status->MPI_TAG;
    }
    return sig;
}

/* Whether a request for which that was asked has been cancelled; without a status, a receive. */
static bool is_cancelled(const struct pending *p, const MPI_Status *status)
{
    int cancelled = p->sig.op == TRACE_RECEIVE;
    if (p->cancelled && status)
        NEXT(Test_cancelled)(status, &cancelled);
    return p->cancelled && cancelled;
}

/* `from` tells the source, if it is to be told. */
static void request_done(uintptr_t handle, const MPI_Status *status, const MPI_Status *from)
{
    bool twin;
    do {
        struct pending **at = pending_find(handle), *p = *at;
        if (!p || !p->active)
            return;
        twin = p->twin;
        struct hopbyte_sig sig = end_sig(p->slot, p->peers, from);
        if (is_cancelled(p, status))
            sig = (struct hopbyte_sig){.op = TRACE_CANCEL, .slot = p->slot, .peer = -1, .tag = -1};
        if (!p->buffered)
            hopbyte_event_add(sig, 0);
        p->active = p->cancelled = false;
        if (!p->persistent)
            pending_drop(at);
    } while (twin);
}

static const MPI_Status *status_known(const MPI_Status *status)
{
    return status == MPI_STATUS_IGNORE || status == MPI_STATUSES_IGNORE ? NULL : status;
}

MPI_Status *hopbyte_trace_status(MPI_Status *status, int count, bool needed)
{
    if (status_known(status) || !(needed || __atomic_load_n(&open_receives, __ATOMIC_RELAXED)) || count < 1)
        return status;
    if (count > before.status_room) {
        MPI_Status *more = realloc(before.statuses, (size_t)count * 2 * sizeof *more);
        if (!more)
            return status;
        before.statuses = more;
        before.status_room = count * 2;
    }
    return before.statuses;
}

void hopbyte_trace_before(int count, const MPI_Request *handles)
{
    if (count > before.room) {
        uintptr_t *more = realloc(before.handles, (size_t)count * 2 * sizeof *more);
        if (!more)
            return;
        before.handles = more;
        before.room = count * 2;
    }
    for (int i = 0; i < count; i++)
        before.handles[i] = (uintptr_t)handles[i];
}

void hopbyte_trace_done(int at, const MPI_Status *status)
{
    if (at < 0 || at >= before.room) /* MPI_UNDEFINED */
        return;
    hopbyte_lock();
    request_done(before.handles[at], status_known(status), status_known(status));
    hopbyte_unlock();
}

void hopbyte_trace_done_some(int count, const int *places, const MPI_Status *statuses)
{
    const MPI_Status *known = status_known(statuses);
    for (int i = 0; i < count; i++)
        hopbyte_trace_done(places[i], known ? known + i : NULL);
}

static int by_place(const void *a, const void *b)
{
    const struct ended *one = a, *other = b;
    int order = memcmp(&one->sig, &other->sig, sizeof one->sig);
    return order ? order : (one->place > other->place) - (one->place < other->place);
}

static int by_source(const void *a, const void *b)
{
    const struct ended *one = a, *other = b;
    int order = memcmp(&one->sig, &other->sig, sizeof one->sig);
    if (!order)
        order = (one->source > other->source) - (one->source < other->source);
    return order ? order : (one->tag > other->tag) - (one->tag < other->tag);
}

/* Receives from any source that end together: twice in `before.ended`, in their order and in that of their sources. Returns
 * their number; 0 without memory. */
static int ended_find(int count, const MPI_Status *known)
{
    int open = 0;
    for (int i = 0; i < count; i++) {
        const struct pending *p = *pending_find(before.handles[i]);
        if (!p || !p->active || !p->peers || is_cancelled(p, known + i))
            continue;
        if (2 * open + 2 > before.ended_room) {
            int room = before.ended_room ? 2 * before.ended_room : 64;
            struct ended *more = realloc(before.ended, (size_t)room * sizeof *more);
            if (!more)
                return 0;
            before.ended = more;
            before.ended_room = room;
        }
        struct ended *e = &before.ended[open++];
        *e = (struct ended){.sig = p->sig, .place = i, .source = known[i].MPI_SOURCE, .tag = known[i].MPI_TAG};
        e->sig.slot = -1;
    }
    if (open) {
        memcpy(before.ended + open, before.ended, (size_t)open * sizeof *before.ended);
        qsort(before.ended, (size_t)open, sizeof *before.ended, by_place);
        qsort(before.ended + open, (size_t)open, sizeof *before.ended, by_source);
    }
    return open;
}

/* Receives that match the same messages and end together take these in the order of their sources: the order in which they
 * came in differs from one iteration to the next, and would keep loops from being folded. */
void hopbyte_trace_done_all(int count, const MPI_Status *statuses)
{
    const MPI_Status *known = status_known(statuses);
    count = count < before.room ? count : before.room;
    hopbyte_lock();
    int open = known ? ended_find(count, known) : 0;
    for (int i = 0; i < open; i++) {
        const struct ended *receive = before.ended + i, *taken = receive + open;
        request_done(before.handles[receive->place], known + receive->place, known + taken->place);
        before.handles[receive->place] = (uintptr_t)MPI_REQUEST_NULL;
    }
    for (int i = 0; i < count; i++)
        request_done(before.handles[i], known ? known + i : NULL, NULL);
    hopbyte_unlock();
}

void hopbyte_trace_free(MPI_Request request)
{
    hopbyte_lock();
    struct pending **at = pending_find((uintptr_t)request);
    if (*at && (*at)->active && is_cancelled(*at, NULL))
        request_done((uintptr_t)request, NULL, NULL);
    else if (*at)
        pending_drop(at);
    at = pending_find((uintptr_t)request);
    if (*at && (*at)->persistent)
        pending_drop(at);
    hopbyte_unlock();
}

void hopbyte_trace_cancel(MPI_Request request)
{
    hopbyte_lock();
    struct pending *p = *pending_find((uintptr_t)request);
    if (p)
        p->cancelled = true;
    hopbyte_unlock();
}

/* --- events of calls --- */

/* The group by which both sides of a communicator know it. */
static const struct hopbyte_group *common_group(const struct hopbyte_comm *c)
{
    bool theirs = c->inter && hopbyte_group_world_rank(c->peers, 0) < hopbyte_group_world_rank(c->local, 0);
    return theirs ? c->peers : c->local;
}

/* False: no message. `peers` is set for a receive that any message may match. */
static bool message_sig(struct hopbyte_sig *sig, const struct hopbyte_group **peers, enum hopbyte_trace_op op,
                        MPI_Comm comm, int peer, int tag)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c || (peer < 0 && peer != MPI_ANY_SOURCE))
        return false;
    int rank = peer < 0 ? -1 : hopbyte_group_world_rank(c->peers, peer);
    if (peer >= 0 && rank < 0) { /* of another world */
        __atomic_fetch_add(&trace.untraced, 1, __ATOMIC_RELAXED);
        return false;
    }
    bool open = op == TRACE_RECEIVE && (rank < 0 || tag < 0);
    if (open)
        __atomic_store_n(&open_receives, true, __ATOMIC_RELAXED);
    *peers = open && c->peers->index != INDEX_OTHER ? c->peers : NULL;
    *sig = (struct hopbyte_sig){.op = (uint8_t)op,
                                .group = common_group(c)->index,
                                .comm = c->number,
                                .peer = rank,
                                .tag = tag < 0 ? -1 : tag,
                                .slot = -1};
    return true;
}

/* A request of the messages of one call, in their order; `peers` is of a receive from any source, which is the first. */
static void requests_add(int messages, const struct hopbyte_sig *sigs, const struct hopbyte_group *peers,
                         MPI_Request request)
{
    struct pending *last = NULL;
    for (int i = 0; i < messages; i++) {
        struct pending *p = pending_add(request, sigs[i].slot);
        if (!p)
            return;
        p->sig = sigs[i];
        p->peers = sigs[i].op == TRACE_RECEIVE ? peers : NULL;
        if (last)
            last->twin = true;
        last = p;
    }
}

/* Where this call was told before it ended: its waits, or the request that it has begun. */
static bool told_end(const MPI_Request *request, const MPI_Status *status)
{
    struct hopbyte_open *told = hopbyte_open_end();
    if (told && request) {
        requests_add(told->count, told->sigs, told->peers, *request);
        told->count = 0; /* The slots are the request's. */
        return true;
    }
    for (int i = 0; told && i < told->count; i++)
        hopbyte_event_add(end_sig(told->sigs[i].slot, told->peers, status), 0);
    return told != NULL;
}

static void message_add(struct hopbyte_sig sig, const struct hopbyte_group *peers, double bytes,
                        const MPI_Request *request, const MPI_Status *status)
{
    hopbyte_lock();
    if (!told_end(request, status)) {
        if (request) {
            sig.slot = hopbyte_slot_take();
            requests_add(1, &sig, peers, *request);
        }
        hopbyte_event_add(sig, bytes);
    }
    hopbyte_unlock();
}

static double bytes_of(MPI_Count count, MPI_Datatype type)
{
    return count > 0 ? (double)count * (double)hopbyte_type_size(type) : 0;
}

void hopbyte_trace_open_send(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type)
{
    struct hopbyte_open call = {.count = 1, .bytes[0] = bytes_of(count, type)};
    if (message_sig(&call.sigs[0], &call.peers, TRACE_SEND, comm, dest, tag))
        hopbyte_open_begin(call);
}

void hopbyte_trace_open_receive(MPI_Comm comm, int source, int tag)
{
    struct hopbyte_open call = {.count = 1};
    if (message_sig(&call.sigs[0], &call.peers, TRACE_RECEIVE, comm, source, tag))
        hopbyte_open_begin(call);
}

void hopbyte_trace_open_both(MPI_Comm comm, int dest, int send_tag, MPI_Count count, MPI_Datatype type, int source,
                             int receive_tag)
{
    struct hopbyte_open call = {0};
    const struct hopbyte_group *none;
    if (message_sig(&call.sigs[0], &call.peers, TRACE_RECEIVE, comm, source, receive_tag))
        call.count++;
    if (message_sig(&call.sigs[call.count], &none, TRACE_SEND, comm, dest, send_tag))
        call.bytes[call.count++] = bytes_of(count, type);
    if (call.count)
        hopbyte_open_begin(call);
}

void hopbyte_trace_send(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type,
                        const MPI_Request *request)
{
    struct hopbyte_sig sig;
    const struct hopbyte_group *peers;
    if (message_sig(&sig, &peers, TRACE_SEND, comm, dest, tag))
        message_add(sig, peers, bytes_of(count, type), request, NULL);
}

/* A send with a request for which nobody waits. */
static void buffered_add(struct hopbyte_sig sig, double bytes)
{
    sig.slot = hopbyte_slot_take();
    hopbyte_event_add(sig, bytes);
    hopbyte_slot_give(sig.slot);
}

void hopbyte_trace_buffered(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type)
{
    struct hopbyte_sig sig;
    const struct hopbyte_group *peers;
    if (!message_sig(&sig, &peers, TRACE_SEND, comm, dest, tag))
        return;
    hopbyte_lock();
    if (!hopbyte_open_end())
        buffered_add(sig, bytes_of(count, type));
    hopbyte_unlock();
}

void hopbyte_trace_receive(MPI_Comm comm, int source, int tag, const MPI_Status *status, const MPI_Request *request)
{
    struct hopbyte_sig sig;
    const struct hopbyte_group *peers;
    status = status_known(status);
    if (status && source == MPI_ANY_SOURCE)
        source = status->MPI_SOURCE;
    if (status && tag == MPI_ANY_TAG)
        tag = status->MPI_TAG;
    if (message_sig(&sig, &peers, TRACE_RECEIVE, comm, source, tag))
        message_add(sig, peers, 0, request, status);
}

void hopbyte_trace_both(MPI_Comm comm, int dest, int send_tag, MPI_Count count, MPI_Datatype type, int source,
                        int receive_tag, const MPI_Status *status, const MPI_Request *request)
{
    struct hopbyte_sig sigs[2];
    const struct hopbyte_group *peers = NULL, *none;
    int messages = 0;
    status = status_known(status);
    if (message_sig(&sigs[0], &peers, TRACE_RECEIVE, comm, source, receive_tag))
        messages++;
    int receives = messages;
    messages += message_sig(&sigs[messages], &none, TRACE_SEND, comm, dest, send_tag);
    hopbyte_lock();
    if (told_end(request, status))
        messages = 0;
    for (int i = 0; i < messages; i++) {
        sigs[i].slot = hopbyte_slot_take();
        hopbyte_event_add(sigs[i], i < receives ? 0 : bytes_of(count, type));
    }
    if (request)
        requests_add(messages, sigs, peers, *request);
    for (int i = 0; i < messages && !request; i++)
        hopbyte_event_add(end_sig(sigs[i].slot, i < receives ? peers : NULL, status), 0);
    for (int i = 0; i < messages && !request; i++)
        hopbyte_slot_give(sigs[i].slot);
    hopbyte_unlock();
}

void hopbyte_trace_matched(MPI_Comm comm, MPI_Message message, const MPI_Status *status, int source, int tag)
{
    struct found *fresh = calloc(1, sizeof *fresh);
    status = status_known(status);
    if (!fresh || !message_sig(&fresh->sig, &fresh->peers, TRACE_RECEIVE, comm, status ? status->MPI_SOURCE : source,
                               status ? status->MPI_TAG : tag)) {
        free(fresh);
        return;
    }
    fresh->message = (uintptr_t)message;
    hopbyte_lock();
    fresh->next = found;
    found = fresh;
    hopbyte_unlock();
}

void hopbyte_trace_message(MPI_Message message)
{
    before.message = (uintptr_t)message;
}

void hopbyte_trace_matched_receive(const MPI_Status *status, const MPI_Request *request)
{
    hopbyte_lock();
    struct found **at = &found;
    while (*at && (*at)->message != before.message)
        at = &(*at)->next;
    struct found *it = *at;
    if (it)
        *at = it->next;
    hopbyte_unlock();
    if (!it)
        return;
    status = status_known(status);
    if (status && it->peers) {
        it->sig.peer = it->sig.peer < 0 ? hopbyte_group_world_rank(it->peers, status->MPI_SOURCE) : it->sig.peer;
        it->sig.tag = it->sig.tag < 0 ? status->MPI_TAG : it->sig.tag;
    }
    message_add(it->sig, it->peers, 0, request, status);
    free(it);
}

static struct pending *persistent_add(MPI_Request request)
{
    struct pending *p = pending_add(request, hopbyte_slot_take());
    if (p) {
        p->persistent = true;
        p->active = false;
    }
    return p;
}

void hopbyte_trace_persistent(enum hopbyte_trace_op op, bool buffered, MPI_Comm comm, int peer, int tag,
                              MPI_Count count, MPI_Datatype type, const MPI_Request *request)
{
    struct hopbyte_sig sig;
    const struct hopbyte_group *peers;
    if (!message_sig(&sig, &peers, op, comm, peer, tag))
        return;
    hopbyte_lock();
    struct pending *p = persistent_add(*request);
    if (p) {
        p->buffered = buffered;
        p->peers = peers;
        p->sig = sig;
        p->sig.slot = p->slot;
        p->bytes = op == TRACE_SEND ? bytes_of(count, type) : 0;
    }
    hopbyte_unlock();
}

void hopbyte_trace_persistent_collective(const MPI_Request *request)
{
    hopbyte_lock();
    struct pending *p = persistent_add(*request);
    if (p)
        p->sig = (struct hopbyte_sig){.op = TRACE_COLLECTIVE, .slot = p->slot};
    hopbyte_unlock();
}

void hopbyte_trace_partitioned(MPI_Request request, int parts)
{
    hopbyte_lock();
    struct pending *p = *pending_find((uintptr_t)request);
    if (p)
        p->parts = parts;
    hopbyte_unlock();
}

void hopbyte_trace_start(MPI_Request request)
{
    hopbyte_lock();
    struct pending *p = *pending_find((uintptr_t)request);
    if (p && p->persistent && p->sig.op != TRACE_COLLECTIVE) {
        p->active = true;
        p->ready = 0;
        if (!p->parts)
            hopbyte_event_add(p->sig, p->bytes);
    }
    hopbyte_unlock();
}

void hopbyte_trace_ready(MPI_Request request, int parts)
{
    hopbyte_trace_now();
    hopbyte_lock();
    struct pending *p = *pending_find((uintptr_t)request);
    if (p && p->active && p->ready < p->parts) {
        p->ready += parts;
        if (p->ready >= p->parts)
            hopbyte_event_add(p->sig, p->bytes);
    }
    hopbyte_unlock();
}
