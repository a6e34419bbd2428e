/* Contributions of single calls: sends, one-sided operations, and persistent operations at every start. */
#include "record.h"

#include <stdlib.h>

static void item_add(struct hopbyte_sink *sink, struct hopbyte_item item)
{
    /* Until here a key has the number of the communicator in place of the phase, for the trace. */
    uint64_t key = (item.key & ~(UINT64_C(0xfff) << 52)) | (uint64_t)hopbyte_recorder.phase << 52;
    if (!sink || sink->counted) {
        if (hopbyte_tracing())
            hopbyte_trace_item(&item);
        if (hopbyte_key_class(key) == CLASS_CALL)
            hopbyte_tally_call(key, item.size, item.bytes, item.messages);
        else
            hopbyte_tally_add(key, item.bytes, item.messages);
        return;
    }
    if (sink->count == sink->room) {
        int room = sink->room ? sink->room * 2 : 1;
        struct hopbyte_item *more = realloc(sink->items, (size_t)room * sizeof *more);
        if (!more) {
            hopbyte_unknown("MPI_Start", "out of memory for a persistent operation");
            return;
        }
        sink->items = more;
        sink->room = room;
    }
    sink->items[sink->count++] = item;
}

void hopbyte_sink_add(struct hopbyte_sink *sink, enum hopbyte_class what, enum hopbyte_kind kind, uint16_t group,
                      int rank, uint64_t bytes, uint64_t messages)
{
    item_add(sink, (struct hopbyte_item){hopbyte_key_pack(what, 0, kind, group, rank), 0, bytes, messages});
}

void hopbyte_sink_collective(struct hopbyte_sink *sink, enum hopbyte_class what, enum hopbyte_kind kind,
                             const struct hopbyte_comm *c, int rank, uint64_t size, uint64_t bytes)
{
    if (sink && what != CLASS_PAIR)
        size |= sink->how;
    item_add(sink, (struct hopbyte_item){hopbyte_key_pack(what, c->number, kind, c->peers->index, rank), size, bytes, 1});
}

uint64_t hopbyte_op_ask(MPI_Op op)
{
    int commutes = 1;
    bool known = op != MPI_OP_NULL && NEXT(Op_commutative)(op, &commutes) == MPI_SUCCESS;
    return known && !commutes ? HOW_ORDERED : 0;
}

const char *hopbyte_how_text(uint64_t how, char text[40])
{
    const char *request = how & HOW_NONBLOCKING ? ",nonblocking" : how & HOW_PERSISTENT ? ",persistent" : "";
    char words[40];
    snprintf(words, sizeof words, "%s%s%s", request, how & HOW_ORDERED ? ",ordered" : "",
             how & HOW_IN_PLACE ? ",in_place" : "");
    snprintf(text, 40, "%s", words + (*words == ','));
    return text;
}

void hopbyte_send_collect(struct hopbyte_sink *sink, MPI_Comm comm, int dest, uint64_t count, MPI_Datatype type)
{
    if (dest < 0) /* MPI_PROC_NULL */
        return;
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    hopbyte_sink_add(sink, CLASS_POINT, KIND_NONE, 0, hopbyte_group_world_rank(c->peers, dest),
                     count ? count * hopbyte_type_size(type) : 0, 1);
}

_Thread_local struct hopbyte_route hopbyte_routes[ROUTES];

bool hopbyte_route_find(struct hopbyte_route *route, MPI_Comm comm, int dest, MPI_Datatype type, bool empty)
{
    uint64_t generation = __atomic_load_n(&hopbyte_recorder.generation, __ATOMIC_RELAXED);
    uint32_t phase = __atomic_load_n(&hopbyte_recorder.phase, __ATOMIC_RELAXED);
    struct hopbyte_comm *c = dest < 0 ? NULL : hopbyte_comm_find(comm); /* below zero: MPI_PROC_NULL */
    if (!c)
        return false;
    *route = (struct hopbyte_route){(uintptr_t)comm, empty ? 0 : (uintptr_t)type, generation,
                                    hopbyte_key_pack(CLASS_POINT, phase, KIND_NONE, 0,
                                                     hopbyte_group_world_rank(c->peers, dest)),
                                    empty ? 0 : hopbyte_type_size(type), dest, phase};
    return true;
}

void hopbyte_rma_count(enum hopbyte_kind kind, MPI_Win win, int target, MPI_Count out_count, MPI_Datatype out_type,
                       MPI_Count in_count, MPI_Datatype in_type)
{
    if (target < 0)
        return;
    struct hopbyte_comm *c = hopbyte_window_find(win);
    if (!c)
        return;
    int rank = hopbyte_group_world_rank(c->peers, target);
    if (kind != KIND_GET && out_count >= 0)
        hopbyte_sink_add(NULL, CLASS_PUT, kind, 0, rank,
                         out_count ? (uint64_t)out_count * hopbyte_type_size(out_type) : 0, 1);
    if (kind != KIND_PUT && kind != KIND_ACCUMULATE)
        hopbyte_sink_add(NULL, CLASS_GET, kind, 0, rank, in_count ? (uint64_t)in_count * hopbyte_type_size(in_type) : 0,
                         1);
}

/* --- persistent operations: handle to list of contributions, chained by hash --- */

enum { REQUEST_BUCKETS = 1024 };

struct persistent {
    uintptr_t handle;
    struct hopbyte_sink sink;
    struct persistent *next;
};
static struct persistent *requests[REQUEST_BUCKETS];

static struct persistent **request_find(uintptr_t handle)
{
    struct persistent **at = &requests[(handle * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

void hopbyte_persistent_add(MPI_Request request, struct hopbyte_sink *sink)
{
    struct persistent *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        free(sink->items);
        hopbyte_unknown("MPI_Start", "out of memory for a persistent operation");
        return;
    }
    fresh->handle = (uintptr_t)request;
    fresh->sink = *sink;
    hopbyte_lock();
    struct persistent **at = request_find(fresh->handle), *old = *at;
    fresh->next = old ? old->next : NULL;
    *at = fresh;
    hopbyte_unlock();
    if (old) {
        free(old->sink.items);
        free(old);
    }
}

void hopbyte_persistent_start(MPI_Request request)
{
    hopbyte_lock();
    struct persistent *p = *request_find((uintptr_t)request);
    hopbyte_unlock();
    if (!p)
        hopbyte_unknown("MPI_Start", "a persistent operation that no known function created");
    for (int i = 0; p && i < p->sink.count; i++)
        item_add(NULL, p->sink.items[i]);
}

void hopbyte_persistent_free(MPI_Request request)
{
    hopbyte_lock();
    struct persistent **at = request_find((uintptr_t)request), *p = *at;
    if (p)
        *at = p->next;
    hopbyte_unlock();
    if (p)
        free(p->sink.items);
    free(p);
}
