/* The point-to-point messages of collectives, by the algorithms FORMAT.md names. Each is linear in the bytes, so a
 * sum over calls of any sizes is decomposed as exactly as every call alone. */
#include "record.h"

struct collective {
    int size, me, root;
    uint64_t bytes, calls;
    hopbyte_emit emit;
    void *context;
};

static void send_to(const struct collective *c, int member, uint64_t bytes, uint64_t messages)
{
    c->emit(c->context, member, bytes, messages);
}

/* Rank relative to the root, and back. */
static int relative(const struct collective *c) { return (c->me - c->root + c->size) % c->size; }
static int member_at(const struct collective *c, int relative_rank) { return (relative_rank + c->root) % c->size; }

/* In the binomial tree of relative ranks the parent of r is r without its lowest set bit. */
static int lowest_bit(int r) { return r & -r; }

/* Members in the subtree of relative rank r, itself included. */
static int subtree_size(const struct collective *c, int r)
{
    int below = r ? lowest_bit(r) : c->size;
    return below < c->size - r ? below : c->size - r;
}

static void dissemination(const struct collective *c)
{
    for (int distance = 1; distance < c->size; distance *= 2)
        send_to(c, (c->me + distance) % c->size, 0, c->calls);
}

/* Down the tree: the whole message, or the blocks of the child's subtree. */
static void binomial_down(const struct collective *c, bool blocks)
{
    int r = relative(c), limit = r ? lowest_bit(r) : c->size;
    for (int bit = 1; bit < limit && r + bit < c->size; bit *= 2)
        send_to(c, member_at(c, r + bit), c->bytes * (uint64_t)(blocks ? subtree_size(c, r + bit) : 1), c->calls);
}

static void binomial_up(const struct collective *c, bool blocks)
{
    int r = relative(c);
    if (r)
        send_to(c, member_at(c, r - lowest_bit(r)), c->bytes * (uint64_t)(blocks ? subtree_size(c, r) : 1), c->calls);
}

/* The ranks beyond the largest power of two first fold into a neighbour and get the result back from it. */
static void recursive_doubling(const struct collective *c)
{
    int power = 1;
    while (power * 2 <= c->size)
        power *= 2;
    int extra = c->size - power, paired = c->me < 2 * extra;
    if (paired && c->me % 2 == 0) {
        send_to(c, c->me + 1, c->bytes, c->calls);
        return;
    }
    int r = paired ? c->me / 2 : c->me - extra;
    for (int distance = 1; distance < power; distance *= 2) {
        int other = r ^ distance;
        send_to(c, other < extra ? 2 * other + 1 : other + extra, c->bytes, c->calls);
    }
    if (paired)
        send_to(c, c->me - 1, c->bytes, c->calls);
}

static void ring(const struct collective *c)
{
    uint64_t steps = (uint64_t)c->size - 1;
    send_to(c, (c->me + 1) % c->size, c->bytes * steps, c->calls * steps);
}

static void chain(const struct collective *c)
{
    if (c->me + 1 < c->size)
        send_to(c, c->me + 1, c->bytes, c->calls);
}

void hopbyte_collective_decompose(enum hopbyte_kind kind, int size, int me, int root, uint64_t bytes, uint64_t calls,
                                  hopbyte_emit emit, void *context)
{
    struct collective c = {size, me, root < 0 ? 0 : root, bytes, calls, emit, context};
    if (size < 2 || me < 0)
        return;
    switch (kind) {
    case KIND_BARRIER: dissemination(&c); break;
    case KIND_BCAST: binomial_down(&c, false); break;
    case KIND_SCATTER: binomial_down(&c, true); break;
    case KIND_REDUCE: binomial_up(&c, false); break;
    case KIND_GATHER: binomial_up(&c, true); break;
    case KIND_ALLREDUCE: recursive_doubling(&c); break;
    case KIND_ALLGATHER:
    case KIND_REDUCE_SCATTER_BLOCK: ring(&c); break;
    case KIND_SCAN:
    case KIND_EXSCAN: chain(&c); break;
    case KIND_ALLTOALL: send_to(&c, MEMBER_EACH_OTHER, bytes, calls); break;
    default: break; /* the others name their destinations at the call */
    }
}
