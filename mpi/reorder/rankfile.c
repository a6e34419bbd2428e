/* Orders from files: Cray's MPICH_RANK_ORDER, and hopbyte's `rank,node,slot`. */
#include "reorder.h"

#include "../common/coords.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    const struct hopbyte_nodes *nodes;
    int line, taken; /* taken: ranks read so far */
    bool *seen;      /* ranks */
};

static bool complain(const struct reader *r, const char *found, const char *expected)
{
    hopbyte_say("%s:%d: found \"%.60s\", expected %s", r->path, r->line, found, expected);
    return false;
}

static bool rank_take(struct reader *r, long rank)
{
    if (rank < 0 || rank >= r->nodes->ranks) {
        hopbyte_say("%s:%d: rank %ld, but the job has ranks 0 to %d; is the map from another job?", r->path, r->line,
                    rank, r->nodes->ranks - 1);
        return false;
    }
    if (r->seen[rank]) {
        hopbyte_say("%s:%d: rank %ld is listed twice", r->path, r->line, rank);
        return false;
    }
    r->seen[rank] = true;
    r->taken++;
    return true;
}

static bool all_taken(const struct reader *r)
{
    if (r->taken == r->nodes->ranks)
        return true;
    hopbyte_say("%s names %d ranks, the job has %d; is the map from another job?", r->path, r->taken, r->nodes->ranks);
    return false;
}

/* --- MPICH_RANK_ORDER: ranks and ranges, separated by commas or blanks, in the order of the slots --- */

static bool order_word(struct reader *r, const char *word, const int *positions, int *role)
{
    char *end;
    long from = strtol(word, &end, 10), to = from;
    if (end == word)
        return complain(r, word, "a rank or a range of ranks such as 8-15");
    if (*end == '-') {
        const char *second = end + 1;
        to = strtol(second, &end, 10);
        if (end == second)
            return complain(r, word, "a range such as 8-15");
    }
    if (*end || !isdigit((unsigned char)*word))
        return complain(r, word, "a rank or a range of ranks such as 8-15");
    for (long rank = from;; rank += to < from ? -1 : 1) {
        int slot = r->taken;
        if (!rank_take(r, rank))
            return false;
        role[positions[slot]] = (int)rank;
        if (rank == to)
            return true;
    }
}

static bool order_read(struct reader *r, FILE *in, const int *positions, int *role)
{
    char *line = NULL;
    size_t room = 0;
    bool fine = true;
    for (r->line = 1; fine && getline(&line, &room, in) > 0; r->line++) {
        char *rest;
        line[strcspn(line, "#")] = 0;
        for (char *word = strtok_r(line, ", \t\r\n", &rest); fine && word; word = strtok_r(NULL, ", \t\r\n", &rest))
            fine = order_word(r, word, positions, role);
    }
    free(line);
    return fine && all_taken(r);
}

/* --- rank,node,slot --- */

struct placed {
    int rank, node, slot, line;
};

static int placed_compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->node != y->node)
        return x->node - y->node;
    return x->slot != y->slot ? x->slot - y->slot : x->rank - y->rank;
}

/* A map may have full names and the hosts short ones, or the other way round. */
static int node_find(const struct hopbyte_nodes *n, const char *name)
{
    for (int k = 0; k < n->nodes; k++)
        if (strcmp(n->names[k], name) == 0)
            return k;
    for (int k = 0; k < n->nodes; k++)
        if (hopbyte_host_same(n->names[k], name))
            return k;
    return -1;
}

static bool placed_parse(struct reader *r, char *line, struct placed *p)
{
    char copy[128], *rest = line, *rank = strsep(&rest, ","), *node = strsep(&rest, ","), *slot = strsep(&rest, ","),
                    *end;
    snprintf(copy, sizeof copy, "%s", rank);
    long number = strtol(rank, &end, 10);
    if (!node || !*node || *end || !*rank)
        return complain(r, copy, "RANK,NODE,SLOT");
    if (!rank_take(r, number))
        return false;
    p->rank = (int)number;
    p->slot = p->rank;
    if (slot && *slot) {
        number = strtol(slot, &end, 10);
        if (*end || !isdigit((unsigned char)*slot) || number > INT_MAX)
            return complain(r, slot, "a slot (a whole number)");
        p->slot = (int)number;
    }
    p->line = r->line;
    p->node = node_find(r->nodes, node);
    if (p->node < 0)
        hopbyte_say("%s:%d: no rank of this job runs on node %s; is the map from another job?", r->path, r->line, node);
    return p->node >= 0;
}

/* A node's new ranks, in order of their slots, go to its processes in launch order. */
static bool placed_deal(struct reader *r, struct placed *all, const int *positions, int *role)
{
    int at = 0;
    qsort(all, (size_t)r->taken, sizeof *all, placed_compare);
    for (int k = 0; k < r->nodes->nodes; k++) {
        int wanted = 0;
        while (at + wanted < r->taken && all[at + wanted].node == k)
            wanted++;
        if (wanted != r->nodes->counts[k]) {
            hopbyte_say("%s puts %d ranks on node %s, but %d processes run there", r->path, wanted, r->nodes->names[k],
                        r->nodes->counts[k]);
            return false;
        }
        for (int i = 0; i < wanted; i++, at++)
            role[positions[at]] = all[at].rank;
    }
    return true;
}

static bool placement_read(struct reader *r, FILE *in, const int *positions, int *role)
{
    struct placed *all = calloc((size_t)r->nodes->ranks + 1, sizeof *all);
    char *line = NULL;
    size_t room = 0;
    bool fine = all != NULL;
    for (r->line = 2; fine && getline(&line, &room, in) > 0; r->line++) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line && *line != '#')
            fine = placed_parse(r, line, &all[r->taken]);
    }
    fine = fine && all_taken(r) && placed_deal(r, all, positions, role);
    free(line);
    free(all);
    return fine;
}

bool hopbyte_rankfile_read(const char *path, const struct hopbyte_nodes *nodes, const int *positions, int *role)
{
    struct reader r = {.path = path, .nodes = nodes, .seen = calloc((size_t)nodes->ranks, sizeof(bool))};
    FILE *in = fopen(path, "r");
    char head[16] = "";
    bool fine = false;
    if (!in) {
        hopbyte_say("cannot open the rank order %s: %s", path, strerror(errno));
    } else if (r.seen) {
        if (fgets(head, sizeof head, in) && strncmp(head, "rank,node", 9) == 0) {
            fine = placement_read(&r, in, positions, role);
        } else {
            rewind(in);
            fine = order_read(&r, in, positions, role);
        }
    }
    if (in)
        fclose(in);
    free(r.seen);
    return fine;
}
