/* Rounds of an all-reduce, as pure functions of the placement: which piece a member sends to whom, and what it does with
 * the piece that it receives. The executor, the cost model and the tests read the same rounds. */
#ifndef HOPBYTE_SHMEM_SCHEDULE_H
#define HOPBYTE_SHMEM_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

enum schedule_kind {
    SCHEDULE_DOUBLING, /* recursive doubling: few rounds, all bytes in each */
    SCHEDULE_HALVING,  /* recursive halving and doubling (Rabenseifner): least bytes, few rounds */
    SCHEDULE_RING,     /* reduce-scatter and all-gather round a ring: least bytes, neighbours only */
    SCHEDULE_KINDS
};

/* Members of a team by node. */
struct schedule_places {
    int members, nodes, most; /* `most`: members of the fullest node */
    int *node, *local;        /* of each member: its node, and its number on it */
    int *first, *order;       /* members of node k: order[first[k]] to order[first[k + 1] - 1]; the first is its leader */
};

struct schedule {
    enum schedule_kind kind;
    bool smp;     /* reduce on each node first, then between one leader per node, then distribute */
    size_t count; /* elements */
    const struct schedule_places *places;
};

/* One member's part of a round; peers are members of the team, -1 for none. A round either folds all its pieces into
 * the receivers' results or places them there. */
struct schedule_step {
    int to, from;
    size_t send_at, send_count, receive_at, receive_count;
    bool fold;
};

int schedule_rounds(const struct schedule *s);
void schedule_step(const struct schedule *s, int me, int round, struct schedule_step *step);
/* Number of rounds from `round` on with the same pairs and pieces of equal size, up to one element. */
int schedule_repeats(const struct schedule *s, int round);
/* The largest piece that is folded, in elements. */
size_t schedule_piece(const struct schedule *s);
const char *schedule_name(const struct schedule *s);

#endif
