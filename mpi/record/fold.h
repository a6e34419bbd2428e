/* Sequences with their repetitions folded into loops, while they grow. */
#ifndef HOPBYTE_FOLD_H
#define HOPBYTE_FOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Sums over the executions of one event of the program. */
struct hopbyte_fold_sums {
    double gap, inside, bytes; /* computing before the call, time in it (both in ticks), bytes */
    double least, most;        /* bytes of one execution */
    uint64_t times;
};

struct hopbyte_fold_loop;

/* An event, or a loop. */
struct hopbyte_fold_node {
    uint64_t hash;
    uint32_t event; /* its number, if loop is NULL */
    struct hopbyte_fold_loop *loop;
    struct hopbyte_fold_sums sums;
    int64_t before, before_loop; /* positions of the last node of this hash, and of the last loop; -1 for none */
};

struct hopbyte_fold {
    struct hopbyte_fold_node *list;
    uint64_t *prefix; /* polynomial hashes of the list's beginnings */
    int64_t count, room;
    int64_t *last; /* position of the last node by hash; -1 */
    uint64_t last_room;
    int64_t following, position; /* loop whose next iteration seems to run, and how far; -1 */
    uint64_t nodes;              /* in the list and in loops */
    bool failed;                 /* out of memory */
};

void hopbyte_fold_append(struct hopbyte_fold *fold, uint32_t event, double gap, double inside, double bytes);
/* Calls `visit` for every event and the begin and end of every loop, in order. `text` of a loop holds its counts. */
typedef void (*hopbyte_fold_visit)(void *context, const struct hopbyte_fold_node *event, const char *loop, bool end);
void hopbyte_fold_walk(const struct hopbyte_fold *fold, hopbyte_fold_visit visit, void *context);

#endif
