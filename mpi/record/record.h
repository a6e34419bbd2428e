/* The recorder: messages between ranks by phase. ../FORMAT.md describes the file, README.md the use. Functions are
 * called from the generated wrappers after the MPI call has succeeded. */
#ifndef HOPBYTE_RECORD_H
#define HOPBYTE_RECORD_H

#include "../common/deep.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Classes of table entries. */
enum hopbyte_class {
    CLASS_POINT = 1, /* point to point: key holds the destination's world rank */
    CLASS_PAIR,      /* part of a collective with destination and bytes in its arguments */
    CLASS_CALL,      /* equal collective calls: key holds the root, and the size belongs to the key */
    CLASS_PUT,       /* one-sided, bytes from here to the target */
    CLASS_GET,       /* one-sided, bytes from the target to here */
    CLASS_DIRECT     /* collective calls whose messages are CLASS_PAIR entries: key holds the root */
};

enum hopbyte_kind {
    KIND_NONE,
    KIND_BARRIER,
    KIND_BCAST,
    KIND_REDUCE,
    KIND_ALLREDUCE,
    KIND_SCAN,
    KIND_EXSCAN,
    KIND_GATHER,
    KIND_GATHERV,
    KIND_SCATTER,
    KIND_SCATTERV,
    KIND_ALLGATHER,
    KIND_ALLGATHERV,
    KIND_ALLTOALL,
    KIND_ALLTOALLV,
    KIND_ALLTOALLW,
    KIND_REDUCE_SCATTER,
    KIND_REDUCE_SCATTER_BLOCK,
    KIND_NEIGHBOR_ALLGATHER,
    KIND_NEIGHBOR_ALLGATHERV,
    KIND_NEIGHBOR_ALLTOALL,
    KIND_NEIGHBOR_ALLTOALLV,
    KIND_NEIGHBOR_ALLTOALLW,
    KIND_PUT,
    KIND_GET,
    KIND_ACCUMULATE,
    KIND_GET_ACCUMULATE,
    KIND_FETCH_AND_OP,
    KIND_COMPARE_AND_SWAP,
    KIND_COUNT
};

extern const char *const hopbyte_kind_names[KIND_COUNT];

enum { RANK_OUTSIDE = -1, INDEX_OTHER = 0xffff, PHASES_MAX = 4096 };

/* An ordered set of ranks, as world ranks. Communicators with the same members share one. */
struct hopbyte_group {
    uint64_t id;       /* FNV-1a of the world ranks in order: the same on every rank */
    int size, me;      /* this process's rank in the group, or RANK_OUTSIDE */
    int first, stride; /* world rank of member i is first + i * stride when list is NULL */
    int *list;
    uint16_t index; /* in table keys; INDEX_OTHER if there are too many groups to number */
    uint64_t numbers; /* bits of the numbers that communicators of these members have */
};

/* Properties of a communicator or window handle. */
struct hopbyte_comm {
    uintptr_t handle;
    bool window, inter, neighbors_known;
    uint8_t number; /* among the communicators of the same members, in the order of their creation; 0 if it was not seen */
    struct hopbyte_group *peers, *local; /* peers: the group of the ranks in calls (remote in an inter-comm.) */
    struct hopbyte_group *both;          /* of an inter-communicator: all, once it is needed */
    int *neighbors;                      /* destinations of the topology, in the order of send buffers */
    int neighbor_count;
    struct hopbyte_comm *next;
};

/* One contribution of a call to the table. `size` is 0 in all classes but CLASS_CALL and, between two groups,
 * CLASS_DIRECT (the index of the group of both, plus 1, for the trace); in CLASS_CALL it is the size common to
 * all members (the vector, the block, or all blocks of a vector collective), or SIZE_ROUNDED and the largest power of
 * two not above it. */
struct hopbyte_item {
    uint64_t key, size, bytes, messages;
} __attribute__((aligned(16)));
#define SIZE_ROUNDED (UINT64_C(1) << 63)
/* How a collective was called, for which libraries have algorithms of their own: bits of the size in CLASS_CALL and, for
 * the trace, CLASS_DIRECT. */
#define HOW_NONBLOCKING (UINT64_C(1) << 62)
#define HOW_PERSISTENT (UINT64_C(1) << 61)
#define HOW_ORDERED (UINT64_C(1) << 60) /* with an operation that does not commute */
#define HOW_IN_PLACE (UINT64_C(1) << 59) /* an allreduce with a request */
#define HOW_BITS (HOW_NONBLOCKING | HOW_PERSISTENT | HOW_ORDERED | HOW_IN_PLACE)

/* Destination of contributions: the table (sink NULL, or `counted`), or a list that each start of a persistent operation
 * replays. */
struct hopbyte_sink {
    struct hopbyte_item *items;
    int count, room;
    uint64_t how; /* of all its collectives */
    bool counted;
};

struct hopbyte_recorder {
    bool on;    /* between init and finalize, and not paused */
    bool begun; /* between init and finalize */
    uint32_t phase;
    int rank, size;
    uint64_t generation; /* incremented when a communicator, window or datatype handle is freed */
};
extern struct hopbyte_recorder hopbyte_recorder;

static inline bool hopbyte_recording(void)
{
    return __builtin_expect(__atomic_load_n(&hopbyte_recorder.on, __ATOMIC_RELAXED), 1);
}

/* --- table.c: counts by key, bounded memory --- */

/* phase 12 bits, class 3, kind 5, group 16, world rank + 1 28 bits; never 0. */
static inline uint64_t hopbyte_key_pack(enum hopbyte_class what, uint32_t phase, enum hopbyte_kind kind, uint16_t group,
                                        int64_t rank)
{
    return ((uint64_t)phase << 52) | ((uint64_t)what << 49) | ((uint64_t)kind << 44) | ((uint64_t)group << 28) |
           (uint64_t)((rank + 1) & 0xfffffff);
}
static inline uint32_t hopbyte_key_phase(uint64_t key) { return (uint32_t)(key >> 52); }
static inline enum hopbyte_class hopbyte_key_class(uint64_t key) { return (enum hopbyte_class)(key >> 49 & 7); }
static inline enum hopbyte_kind hopbyte_key_kind(uint64_t key) { return (enum hopbyte_kind)(key >> 44 & 31); }
static inline uint16_t hopbyte_key_group(uint64_t key) { return (uint16_t)(key >> 28 & 0xffff); }
static inline int hopbyte_key_rank(uint64_t key) { return (int)(key & 0xfffffff) - 1; }

static inline uint64_t hopbyte_key_hash(uint64_t key, uint64_t size)
{
    return (key ^ size * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A thread's counts that are not yet in the table: one slot per hash value, key 0 is an empty slot. */
enum { TALLY_BITS = 6, TALLY_SLOTS = 1 << TALLY_BITS };
extern _Thread_local struct hopbyte_item *hopbyte_slots; /* of this thread; empty and shared until it counts */

bool hopbyte_table_init(void);
/* Flushes slot `at` of this thread to the table and gives it to another key. */
struct hopbyte_item *hopbyte_tally_turn(unsigned at, uint64_t key, uint64_t size);

/* One store for both numbers: a process killed at any instruction has counted a call whole or not at all. */
typedef uint64_t hopbyte_pair __attribute__((vector_size(16), may_alias));
static inline void hopbyte_slot_add(struct hopbyte_item *slot, uint64_t bytes, uint64_t messages)
{
#if defined(__SANITIZE_THREAD__)
    /* Read by other threads only where a process ends while its threads still send. */
    __atomic_store_n(&slot->bytes, slot->bytes + bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->messages, slot->messages + messages, __ATOMIC_RELAXED);
#else
    hopbyte_pair *counts = (hopbyte_pair *)&slot->bytes;
    *counts += (hopbyte_pair){bytes, messages};
#endif
}
/* Adds to this thread's count of `key`; without a lock if its slot still holds that key. */
static inline void hopbyte_tally_add(uint64_t key, uint64_t bytes, uint64_t messages)
{
    unsigned at = (unsigned)(hopbyte_key_hash(key, 0) >> (64 - TALLY_BITS));
    struct hopbyte_item *slot = &hopbyte_slots[at];
    if (__builtin_expect(slot->key != key, 0))
        slot = hopbyte_tally_turn(at, key, 0);
    hopbyte_slot_add(slot, bytes, messages);
}
/* The same for a CLASS_CALL key. */
static inline void hopbyte_tally_call(uint64_t key, uint64_t size, uint64_t bytes, uint64_t calls)
{
    unsigned at = (unsigned)(hopbyte_key_hash(key, size) >> (64 - TALLY_BITS));
    struct hopbyte_item *slot = &hopbyte_slots[at];
    if (__builtin_expect(slot->key != key || slot->size != size, 0))
        slot = hopbyte_tally_turn(at, key, size);
    hopbyte_slot_add(slot, bytes, calls);
}
/* Flushes the threads' counts to the table, which is written out and emptied when full. The lock is held. */
void hopbyte_tallies_gather(void);
/* Sums of everything counted so far, written out or not. */
struct hopbyte_totals {
    uint64_t messages, bytes, collectives, collective_bytes, one_sided, one_sided_bytes;
};
void hopbyte_totals_read(struct hopbyte_totals *totals);
/* Calls `visit` for every entry in ascending order of keys, commits the text that it wrote, and empties the table. */
void hopbyte_table_drain(void (*visit)(const struct hopbyte_item *));
/* In a forked child: forgets the memory that it shares with its parent. The same for the other parts. */
void hopbyte_table_leave(void);
void hopbyte_phases_leave(void);
void hopbyte_file_leave(void);
void hopbyte_live_leave(void);
void hopbyte_lock(void);
void hopbyte_unlock(void);

/* --- live.c: counts that outlive the process --- */

/* A rank's counts lie in a file mapped into memory, so a rank that is killed leaves them to the reader
 * (../FORMAT.md, "A rank that was killed"). Offsets are from the start of the file, 0 for memory outside it. All
 * fields are of 8 bytes. */
struct hopbyte_live_state {
    uint64_t text;    /* bytes of the text file that are valid */
    uint64_t table;   /* offset of the table */
    uint64_t room;    /* its entries */
    uint64_t emptied; /* 1: the table's counts are in the text */
};
/* A slot's counts on their way to the table: while `valid`, `item` is the entry's next value and the slot's next key
 * is `key`, at any content of entry and slot. */
struct hopbyte_live_move {
    uint64_t valid, entry, slot, key, size, unused;
    struct hopbyte_item item;
};
enum { LIVE_PIECES = 24 };
struct hopbyte_live {
    char magic[16];
    uint64_t order; /* LIVE_ORDER, for readers of another byte order */
    uint64_t current; /* index of the valid state */
    struct hopbyte_live_state states[2];
    struct hopbyte_live_move move;
    uint64_t cause, detail; /* enum hopbyte_cause, and the signal or the exit status */
    double stopped, stopped_monotonic; /* when the cause was seen, 0 if it was not */
    uint64_t phase; /* current phase, entered at `since` (monotonic) */
    double since;
    uint64_t times;   /* offset of PHASES_MAX struct hopbyte_phase_time */
    uint64_t rounded; /* collective calls counted under a rounded size, after too many different ones */
    struct {
        uint64_t offset, blocks;
    } tallies[LIVE_PIECES]; /* blocks of TALLY_SLOTS items */
    uint64_t calls;         /* offset of CALLS_MAX struct hopbyte_call_time */
    uint64_t phase_ticks;   /* offset of PHASES_MAX times in MPI, in ticks */
    double tick_seconds;    /* duration of a tick */
    uint64_t threads;       /* that called MPI; 0 where it is not counted, since one thread calls at a time */
    uint64_t first_ticks;   /* at the start, when the monotonic clock was `first_seconds` */
    double first_seconds;
    uint64_t last_ticks;    /* end of the last call; 0 before the first */
    uint64_t call, call_ticks; /* the call that began last, and its begin: later than `last_ticks` while the rank is in it */
};
#define LIVE_MAGIC "hopbyte-live 1"
#define LIVE_ORDER UINT64_C(0x0102030405060708)
enum hopbyte_cause { CAUSE_NONE, CAUSE_SIGNAL, CAUSE_EXIT, CAUSE_QUICK_EXIT };
struct hopbyte_phase_time {
    double seconds;
    uint64_t entries;
};

_Static_assert(offsetof(struct hopbyte_live, move) == 96 && offsetof(struct hopbyte_live, cause) == 176 &&
                   offsetof(struct hopbyte_live, tallies) == 240,
               "readers know these offsets");

extern struct hopbyte_live *hopbyte_live; /* in private memory if there is no file */

/* --- times.c: time in MPI by call and phase --- */

enum { CALLS_MAX = 1024, CALL_START = 0, CALL_STARTALL };
struct hopbyte_call_time {
    uint64_t ticks, calls;
};
extern bool hopbyte_clock_is_counter;
extern bool hopbyte_threaded; /* several threads may call MPI */
extern struct hopbyte_call_time *hopbyte_call_times;
extern uint64_t *hopbyte_phase_ticks;
/* Names of the wrapped functions, by number: generated. */
extern const char *const hopbyte_call_names[];
extern const int hopbyte_call_count;

bool hopbyte_times_init(void);
double hopbyte_seconds_now(void);
/* Duration of a tick of hopbyte_clock, in seconds. */
double hopbyte_tick_seconds(void);
/* At calls 1, 2, 4, 8, …: updates the duration of a tick. */
void hopbyte_call_often(void);
/* Names the call, once. */
void hopbyte_call_name(int call);

static inline uint64_t hopbyte_clock(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(hopbyte_clock_is_counter, 1))
        return __builtin_ia32_rdtsc();
#endif
    return (uint64_t)(hopbyte_seconds_now() * 1e9);
}

/* An atomic addition where several threads may call MPI; returns the sum. */
static inline uint64_t hopbyte_sum_add(uint64_t *sum, uint64_t value)
{
    if (__builtin_expect(hopbyte_threaded, 0))
        return __atomic_add_fetch(sum, value, __ATOMIC_RELAXED);
    value += __atomic_load_n(sum, __ATOMIC_RELAXED);
    __atomic_store_n(sum, value, __ATOMIC_RELAXED);
    return value;
}

/* Ticks between the last call of any thread and this one, and in this one. Where calls of threads overlap, each moment
 * belongs to the call that ends first: gaps and times of all threads add up to the duration of the run. */
struct hopbyte_moments {
    uint64_t gap, inside;
};
static inline struct hopbyte_moments hopbyte_moments_take(uint64_t *last_end, uint64_t begun, uint64_t ended)
{
    uint64_t last = __atomic_load_n(last_end, __ATOMIC_RELAXED);
    do {
        if (ended <= last)
            return (struct hopbyte_moments){0};
    } while (!__atomic_compare_exchange_n(last_end, &last, ended, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    bool after = begun > last;
    return (struct hopbyte_moments){after ? begun - last : 0, ended - (after ? begun : last)};
}
/* End of this thread's last call, if that looked for a message or a completion in vain; 0 otherwise. */
extern _Thread_local uint64_t hopbyte_looked;
/* The begin of the waiting that ends with a call that looks, for a loop of such calls waits between them, too: the begin of
 * the call, or earlier after one in vain. */
uint64_t hopbyte_look_begin(uint64_t begun);
void hopbyte_look_vain(uint64_t ended);

/* Counts this thread, once. */
void hopbyte_thread_note(void);
/* Ticks in a call of this thread that belong to no call of another. */
uint64_t hopbyte_thread_ticks(uint64_t begun, uint64_t ended);

/* A call begins: if the rank is killed in it, it is known where. */
static inline void hopbyte_call_begin(int call, uint64_t begun)
{
    if (__builtin_expect(!__atomic_load_n(&hopbyte_call_times[call].calls, __ATOMIC_RELAXED), 0))
        hopbyte_call_name(call);
    __atomic_store_n(&hopbyte_live->call, (uint64_t)call, __ATOMIC_RELAXED);
    __atomic_store_n(&hopbyte_live->call_ticks, begun, __ATOMIC_RELAXED);
}

static inline void hopbyte_call_count_time(int call, uint64_t begun, uint64_t ended)
{
    struct hopbyte_call_time *time = &hopbyte_call_times[call];
    uint64_t calls = hopbyte_sum_add(&time->calls, 1);
    if (__builtin_expect(!(calls & (calls - 1)), 0))
        hopbyte_call_often();
    hopbyte_sum_add(&time->ticks, ended - begun);
    hopbyte_looked = 0;
    uint64_t inside = ended - begun;
    if (__builtin_expect(hopbyte_threaded, 0))
        inside = hopbyte_thread_ticks(begun, ended);
    else
        __atomic_store_n(&hopbyte_live->last_ticks, ended, __ATOMIC_RELAXED);
    hopbyte_sum_add(&hopbyte_phase_ticks[__atomic_load_n(&hopbyte_recorder.phase, __ATOMIC_RELAXED)], inside);
}

/* --- trace.c, messages.c, program.c: the program of this rank --- */

extern bool hopbyte_tracing_on; /* atomic */
static inline bool hopbyte_tracing(void)
{
    return __builtin_expect(__atomic_load_n(&hopbyte_tracing_on, __ATOMIC_RELAXED), 0);
}
enum hopbyte_trace_op { TRACE_SEND = 1, TRACE_RECEIVE, TRACE_WAIT, TRACE_COLLECTIVE, TRACE_ROW, TRACE_END, TRACE_CANCEL };

bool hopbyte_trace_init(void);
/* Time of a call that has ended: taken by its first event, else by the next call's. */
void hopbyte_trace_time(uint64_t begun, uint64_t ended);
/* Computation until now, for an event before its call. */
void hopbyte_trace_now(void);
void hopbyte_trace_send(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type,
                        const MPI_Request *request);
/* A send that ends without its receiver. */
void hopbyte_trace_buffered(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type);
void hopbyte_trace_receive(MPI_Comm comm, int source, int tag, const MPI_Status *status, const MPI_Request *request);
/* A combined send and receive. */
void hopbyte_trace_both(MPI_Comm comm, int dest, int send_tag, MPI_Count count, MPI_Datatype type, int source,
                        int receive_tag, const MPI_Status *status, const MPI_Request *request);
/* A call begins, where several threads may call: another thread's event may come before its end. The functions
 * above and the contributions of a collective end it; then it is closed, whether it succeeded or not. */
void hopbyte_trace_open_send(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type);
void hopbyte_trace_open_receive(MPI_Comm comm, int source, int tag);
void hopbyte_trace_open_both(MPI_Comm comm, int dest, int send_tag, MPI_Count count, MPI_Datatype type, int source,
                             int receive_tag);
void hopbyte_trace_open_collective(struct hopbyte_sink *items);
void hopbyte_trace_close(void);
/* Found by a matching probe; and the receive of it, whose message is taken before the call. */
void hopbyte_trace_matched(MPI_Comm comm, MPI_Message message, const MPI_Status *status, int source, int tag);
void hopbyte_trace_message(MPI_Message message);
void hopbyte_trace_matched_receive(const MPI_Status *status, const MPI_Request *request);
/* A persistent send, receive or collective, at its creation; and at its start. */
void hopbyte_trace_persistent(enum hopbyte_trace_op op, bool buffered, MPI_Comm comm, int peer, int tag,
                              MPI_Count count, MPI_Datatype type, const MPI_Request *request);
void hopbyte_trace_persistent_collective(const MPI_Request *request);
void hopbyte_trace_start(MPI_Request request);
/* A partitioned send is in the trace where the last of its partitions is ready. */
void hopbyte_trace_partitioned(MPI_Request request, int parts);
void hopbyte_trace_ready(MPI_Request request, int parts);
void hopbyte_trace_free(MPI_Request request);
void hopbyte_trace_cancel(MPI_Request request);
/* The status or statuses of a call: where the program ignores them, others if they are `needed`, or if there were receives
 * from any source. */
MPI_Status *hopbyte_trace_status(MPI_Status *status, int count, bool needed);
/* Requests that the call may complete: before it. Then those that it has completed, by their index. */
void hopbyte_trace_before(int count, const MPI_Request *requests);
void hopbyte_trace_done(int at, const MPI_Status *status);
void hopbyte_trace_done_some(int count, const int *places, const MPI_Status *statuses);
void hopbyte_trace_done_all(int count, const MPI_Status *statuses);
/* The collective call whose contributions follow has begun with this request; NULL: it has not. */
void hopbyte_trace_requested(const MPI_Request *request);
/* One contribution of a collective call to the counts. */
void hopbyte_trace_item(const struct hopbyte_item *item);
/* Writes the trace; `ended` as in the record, or NULL while the job runs. */
void hopbyte_trace_write(const char *ended);
void hopbyte_trace_end(void);
void hopbyte_trace_leave(void);

/* --- live.c, continued --- */

/* Creates the file; without a path, or if that fails, counts stay in private memory. */
void hopbyte_live_init(const char *path);
/* Zeroed memory in the file; NULL if there is no file or no space. */
void *hopbyte_live_take(size_t bytes, uint64_t *offset);
/* Makes `next` the valid state, in one store. */
void hopbyte_live_commit(struct hopbyte_live_state next);
static inline struct hopbyte_live_state hopbyte_live_state(void)
{
    return hopbyte_live->states[hopbyte_live->current];
}
/* Notes the cause of an end; safe in signal handlers. */
void hopbyte_live_cause(enum hopbyte_cause cause, int detail);
/* Removes the file: the record is complete. */
void hopbyte_live_finish(void);
/* No store before it is delayed past it, as seen after the death of the process. */
static inline void hopbyte_live_order(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/* --- cause.c: how the process ended --- */

/* Before MPI's initialisation, and after it: signals that would end the process, or would have before MPI's library
 * installed a handler of its own, are noted. */
void hopbyte_cause_before(void);
void hopbyte_cause_watch(void);

/* --- groups.c: handles to world ranks --- */

/* Sets the world's size and this rank; call once after MPI_Init or, with Sessions, with the world's group. */
void hopbyte_groups_init(MPI_Group world);
struct hopbyte_comm *hopbyte_comm_find(MPI_Comm comm);
/* Learns a communicator that was created, by that of which it is a copy if there is one, and numbers it. */
void hopbyte_comm_created(MPI_Comm comm, MPI_Comm original);
/* Index of the group of all members of an inter-communicator, in the same order on both sides. */
uint16_t hopbyte_comm_both(const struct hopbyte_comm *c);
struct hopbyte_comm *hopbyte_window_find(MPI_Win win);
void hopbyte_comm_forget(MPI_Comm comm);
void hopbyte_window_forget(MPI_Win win);
const struct hopbyte_group *hopbyte_group_at(uint16_t index);
void hopbyte_neighbors_learn(struct hopbyte_comm *c, MPI_Comm comm);

static inline int hopbyte_group_world_rank(const struct hopbyte_group *g, int rank)
{
    if (__builtin_expect(rank < 0 || rank >= g->size, 0))
        return RANK_OUTSIDE;
    return g->list ? g->list[rank] : g->first + rank * g->stride;
}

/* --- types.c: sizes of datatypes --- */

uint64_t hopbyte_type_size(MPI_Datatype type);
void hopbyte_type_forget(void);

/* --- traffic.c: contributions of single calls --- */

void hopbyte_sink_add(struct hopbyte_sink *sink, enum hopbyte_class what, enum hopbyte_kind kind, uint16_t group,
                      int rank, uint64_t bytes, uint64_t messages);
/* A contribution of a collective call: `size` as in hopbyte_item, `bytes` of this rank. */
void hopbyte_sink_collective(struct hopbyte_sink *sink, enum hopbyte_class what, enum hopbyte_kind kind,
                             const struct hopbyte_comm *c, int rank, uint64_t size, uint64_t bytes);
/* HOW_ORDERED for an operation that does not commute. */
uint64_t hopbyte_op_ask(MPI_Op op);
static inline uint64_t hopbyte_op_how(MPI_Op op)
{
    return __builtin_expect(op == MPI_SUM || op == MPI_MAX || op == MPI_MIN, 1) ? 0 : hopbyte_op_ask(op);
}
/* Words for bits of `how`, joined by commas; "" for none. */
const char *hopbyte_how_text(uint64_t how, char text[40]);

/* A thread's last lookup of a send's communicator, destination and type. */
struct hopbyte_route {
    uintptr_t comm, type; /* type: 0 for none */
    uint64_t generation, key, size;
    int dest;
    uint32_t phase;
};
enum { ROUTES = 16 };
extern _Thread_local struct hopbyte_route hopbyte_routes[ROUTES];
/* False: this send does not count. */
bool hopbyte_route_find(struct hopbyte_route *route, MPI_Comm comm, int dest, MPI_Datatype type, bool empty);
static inline void hopbyte_send_count(MPI_Comm comm, int dest, MPI_Count count, MPI_Datatype type)
{
    struct hopbyte_route *r = &hopbyte_routes[(unsigned)dest % ROUTES];
    if (__builtin_expect(r->comm != (uintptr_t)comm || r->type != (count ? (uintptr_t)type : 0) || r->dest != dest ||
                             r->generation != __atomic_load_n(&hopbyte_recorder.generation, __ATOMIC_RELAXED) ||
                             r->phase != __atomic_load_n(&hopbyte_recorder.phase, __ATOMIC_RELAXED),
                         0) &&
        !hopbyte_route_find(r, comm, dest, type, !count))
        return;
    hopbyte_tally_add(r->key, (uint64_t)count * r->size, 1);
}
void hopbyte_send_collect(struct hopbyte_sink *sink, MPI_Comm comm, int dest, uint64_t count, MPI_Datatype type);
/* `out_count` is negative for MPI_NO_OP, which sends nothing. */
void hopbyte_rma_count(enum hopbyte_kind kind, MPI_Win win, int target, MPI_Count out_count, MPI_Datatype out_type,
                       MPI_Count in_count, MPI_Datatype in_type);
void hopbyte_persistent_add(MPI_Request request, struct hopbyte_sink *sink);
void hopbyte_persistent_start(MPI_Request request);
void hopbyte_persistent_free(MPI_Request request);

/* --- collectives.c --- */

/* Counts argument of vector collectives: int[] or MPI_Count[]. */
struct hopbyte_counts {
    const void *array;
    bool wide;
};
#define HOPBYTE_COUNTS(array)                                                                                          \
    ((struct hopbyte_counts){(array), sizeof *(array) != sizeof(int)})

void hopbyte_collective_simple(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm, int root,
                               MPI_Count count, MPI_Datatype type);
void hopbyte_collective_gather(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm, int root,
                               const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, MPI_Count recvcount,
                               MPI_Datatype recvtype);
void hopbyte_collective_scatter(struct hopbyte_sink *sink, MPI_Comm comm, int root, MPI_Count sendcount,
                                MPI_Datatype sendtype, MPI_Count recvcount, MPI_Datatype recvtype);
void hopbyte_collective_gatherv(struct hopbyte_sink *sink, MPI_Comm comm, int root, const void *sendbuf,
                                MPI_Count sendcount, MPI_Datatype sendtype);
void hopbyte_collective_scatterv(struct hopbyte_sink *sink, MPI_Comm comm, int root, struct hopbyte_counts counts,
                                 MPI_Datatype sendtype);
void hopbyte_collective_allgatherv(struct hopbyte_sink *sink, MPI_Comm comm, MPI_Count sendcount,
                                   MPI_Datatype sendtype, struct hopbyte_counts counts, MPI_Datatype recvtype);
void hopbyte_collective_alltoallv(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm,
                                  struct hopbyte_counts counts, const MPI_Datatype *types, MPI_Datatype type);
void hopbyte_collective_reduce_scatter(struct hopbyte_sink *sink, MPI_Comm comm, struct hopbyte_counts counts,
                                       MPI_Datatype type);
void hopbyte_collective_neighbor(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm, MPI_Count count,
                                 MPI_Datatype type);
void hopbyte_collective_neighborv(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm,
                                  struct hopbyte_counts counts, const MPI_Datatype *types, MPI_Datatype type);

/* --- phases.c --- */

bool hopbyte_phases_init(void);
int hopbyte_phase_count(void);
const char *hopbyte_phase_name(int phase);
/* Seconds in a phase so far, and the number of entries. */
double hopbyte_phase_seconds(int phase, uint64_t *entries);
/* The phases in order, loops folded, as text; to be freed. */
char *hopbyte_phase_order(void);
/* Handles MPI_Pcontrol(level); `name` only under HOPBYTE_RECORD_PCONTROL=ipm. */
void hopbyte_phases_control(int level, const char *name);

/* --- variables.c: HOPBYTE_RECORD_PVARS --- */

/* Starts the variables of the MPI library that were asked for, reads them, and gives them up. The lock is not held: the
 * variables may be this library's own. */
void hopbyte_variables_begin(void);
void hopbyte_variables_read(void);
void hopbyte_variables_end(void);
/* Their lines, once; to be freed, and NULL without any. */
char *hopbyte_variables_text(void);

/* --- file.c --- */

/* Opens the temporary file. A spawned process is a rank of another world and gets a name of its own. */
void hopbyte_file_init(bool spawned);
/* Appends the phases and groups that are new, so that counts may use them. The table's lock is held. */
void hopbyte_file_define(void);
/* Appends the table to the temporary file and empties it. The table's lock is held. */
void hopbyte_file_spill(void);
/* Names a call at its first use. The table's lock is held. */
void hopbyte_file_call(int call);
/* Path of the record of this rank, without its extension. */
const char *hopbyte_file_stem(void);
/* Lines for the library and its settings. */
void hopbyte_library_write(FILE *out);
void hopbyte_group_write(FILE *out, const struct hopbyte_group *g);
/* Writes out the appended text; the number of valid bytes. */
uint64_t hopbyte_file_flush(void);
/* A call that the record does not contain, or not as messages: written at once, the first time for each name. */
void hopbyte_unknown(const char *name, const char *reason);
/* Written by the root of a call that started processes, at once: launchers may keep the preload from them. */
void hopbyte_started(int root, MPI_Comm comm, MPI_Comm children);
/* Writes the remaining entries and the trailer, and gives the file its final name. `ended` is the trailer's word. */
void hopbyte_file_finish(const char *ended);

#endif
