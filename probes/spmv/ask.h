/* A map from libhopbyte for blocks that can move: the machine, the current link states, and the blocks' traffic. The
 * library is loaded on demand, so that the proxy runs without it. One process queries for all. */
#ifndef HOPBYTE_ASK_H
#define HOPBYTE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hopbyte_ask;

/* Result of a query. */
struct hopbyte_asked {
    unsigned long long version;  /* snapshot of the oracle, 0 without one */
    double before, after, bound; /* seconds of the worst link: present, mapped, and bound */
    double refresh, map;         /* seconds of the query: link states; mapping */
};

/* Loads `library`, opens the machine `fabric` and the oracle (NULL: no traffic of other jobs). Rank r is on the node
 * named nodes[r]. NULL: `problem` has the reason. */
struct hopbyte_ask *hopbyte_ask_open(const char *library, const char *fabric, const char *oracle, int ranks,
                                     const char *const *nodes, char *problem, size_t room);
void hopbyte_ask_close(struct hopbyte_ask *ask);

/* The best map now for blocks that send bytes[i] from block from[i] to block to[i], with block_of[r] on rank r;
 * searched for `seconds`. Blocks that stay on their node stay at their rank. */
bool hopbyte_ask_map(struct hopbyte_ask *ask, size_t count, const uint32_t *from, const uint32_t *to,
                     const double *bytes, const int *block_of, double seconds, int *next, struct hopbyte_asked *asked,
                     char *problem, size_t room);

#endif
