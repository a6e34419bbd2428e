/* State of the library on one PE. Not thread safe: one thread at a time is in a call, which `enter` checks. */
#ifndef HOPBYTE_SHMEM_STATE_H
#define HOPBYTE_SHMEM_STATE_H

#include "cost.h"
#include "hopbyte_shmem.h"

#include <stdint.h>

enum { CELL_BYTES = 64, CELLS = 2, PLANS = 8 };

/* --- init.c --- */

struct shmem_state {
    bool on, verbose, check;
    int me, pes;
    double timeout; /* seconds without progress until a wait ends the job; 0: never */
    int *node;      /* of every PE, numbered in order of appearance */
    int nodes;
    struct cost_rates rates;
    const char *rates_from;
    size_t stage_bytes;
};
extern struct shmem_state hopbyte_shmem;

/* Prints one line and ends the job with status 2. */
_Noreturn void shmem_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void shmem_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void shmem_need_on(const char *call);
/* The same function of the OpenSHMEM library, which this library precedes. */
void *shmem_next(const char *name);
double shmem_now(void);
/* Calls of several threads at once are refused. */
void shmem_enter(const char *call);
void shmem_leave(void);

/* --- channel.c: ordered messages between any two PEs, in symmetric memory --- */

/* Collective over all PEs. */
void channel_open(void);
size_t channel_symmetric_bytes(int pes, size_t stage);
void *channel_stage(void);
/* A symmetric array of two words per PE, for members' exchanges while all of them are inside one call. */
uint64_t *channel_board(void);

/* Data to the same address at the other PE, which has promised that the memory is ready. */
void channel_send(int pe, void *to, const void *from, size_t bytes);
/* Waits for the next message from a PE. */
void channel_receive(int pe);
/* A message of at most CELL_BYTES into a cell of the receiver; received into `to`. */
void channel_send_cell(int pe, const void *from, size_t bytes);
const void *channel_receive_cell(int pe);
void channel_free_cell(int pe);
/* Data into the receiver's stage at an offset, after the receiver has granted it. */
void channel_grant(int pe);
void channel_send_stage(int pe, size_t offset, const void *from, size_t bytes);

/* --- team.c --- */

struct plan {
    size_t bytes, element;
    struct schedule schedule;
    double seconds;
};

struct team {
    int size, me;          /* me: -1 unless this PE is a member */
    int start, stride;     /* without a list: world PE of member i is start + i * stride */
    int *pes;
    struct schedule_places places; /* once a reduction needs them */
    struct plan plans[PLANS];
    int next_plan;
    uint32_t generation;
    bool used;
};

struct team *team_of(shmem_team_t team, const char *call);
/* As team_of, but this PE must be a member. */
struct team *team_mine(shmem_team_t team, const char *call);
static inline int team_pe(const struct team *t, int member)
{
    return t->pes ? t->pes[member] : t->start + member * t->stride;
}
int team_member(const struct team *t, int pe);
/* A team with `size` members; takes over the list. Teams of one PE's view: no communication. */
shmem_team_t team_make(int size, int *pes);
/* The team that equals an active set. */
struct team *team_active(int start, int log_stride, int size, const char *call);
void team_open(void);
void team_close(void);
bool team_places(struct team *t);

/* --- check.c --- */

/* Ends the job if a value differs between the members, which is then named with both values. Collective. */
void check_equal(struct team *t, const char *call, const char *const *names, const int64_t *values, int count);
/* The same with HOPBYTE_SHMEM_CHECK=1 only. */
void check_if_asked(struct team *t, const char *call, const char *const *names, const int64_t *values, int count);

/* --- reduce.c --- */

struct fold {
    const char *type, *name;
    size_t size;
    void (*apply)(void *into, const void *from, size_t count);
};
int reduce_team(struct team *t, const char *call, void *dest, const void *source, size_t count, const struct fold *fold);
/* Entry points of the generated names. */
int hopbyte_reduce(shmem_team_t team, void *dest, const void *source, size_t count, const struct fold *fold);
void hopbyte_reduce_active(void *dest, const void *source, int count, int start, int log_stride, int size, void *work,
                           long *sync, const struct fold *fold, const char *name);
struct reduce_settings {
    int large, smp; /* -1 unset */
    size_t cutoff;
    int forced; /* kind + SCHEDULE_KINDS * smp, or -1 */
    bool library;
};
extern struct reduce_settings reduce_settings;
/* Reads the environment; false after a message. */
bool reduce_settings_read(void);

/* --- move.c --- */

void team_barrier(struct team *t);
/* Every member's `bytes` at `mine` to place member * bytes of the symmetric array `all` of every member. */
void team_gather(struct team *t, void *all, const void *mine, size_t bytes);

extern struct hopbyte_shmem_counts hopbyte_shmem_counters;

/* --- partition.c --- */

/* Reads SHMEM_SYMMETRIC_PARTITION<ID>, before the library starts. */
void partition_settings_read(void);
/* Bytes that the symmetric heap needs for the partitions. */
size_t partition_symmetric_bytes(void);
uint64_t partition_hash(uint64_t seed);
/* Collective over all PEs. */
void partition_open(void);
/* Writes the report that was asked for. */
void partition_close(void);

/* --- settings.c --- */

/* Bytes with a suffix K, M or G (powers of 1024). False unless the whole text is a number. */
bool settings_bytes(const char *text, uint64_t *bytes);

#endif
