/* A map for blocks that are on their way, from libhopbyte: the machine, the links as they are now, the traffic of the
 * blocks. The library is looked for when it is needed, so that the proxy runs without it. One process asks for all. */
#ifndef HOPBYTE_ASK_H
#define HOPBYTE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hopbyte_ask;

/* What came of a question. */
struct hopbyte_asked {
    unsigned long long version;  /* snapshot of the oracle, 0 without one */
    double before, after, bound; /* seconds of the worst link: as it is, as mapped, at best */
    double refresh, map;         /* seconds that the question took: links as they are now; the mapping */
};

/* Loads `library`, opens the machine `fabric` and the oracle (NULL: nobody else sends). Rank r is on the node of the
 * name nodes[r]. NULL: `problem` says why. */
struct hopbyte_ask *hopbyte_ask_open(const char *library, const char *fabric, const char *oracle, int ranks,
                                     const char *const *nodes, char *problem, size_t room);
void hopbyte_ask_close(struct hopbyte_ask *ask);

/* The map that is best now for blocks that send bytes[i] from block from[i] to block to[i], of which rank r has
 * block_of[r]; searched for `seconds`. Blocks that stay on their node stay at their rank. */
bool hopbyte_ask_map(struct hopbyte_ask *ask, size_t count, const uint32_t *from, const uint32_t *to,
                     const double *bytes, const int *block_of, double seconds, int *next, struct hopbyte_asked *asked,
                     char *problem, size_t room);

#endif
