#include "schedule.h"

static int log2_floor(int n)
{
    int bits = 0;
    while (n > 1) {
        n >>= 1;
        bits++;
    }
    return bits;
}

static int log2_ceil(int n)
{
    return n > 1 ? log2_floor(n - 1) + 1 : 0;
}

/* --- a group of `size` members, all of them or one per node --- */

struct group {
    int size, power, bits, rest; /* size = power + rest, power = 2^bits */
    size_t count;
};

static struct group group_of(int size, size_t count)
{
    int bits = log2_floor(size);
    return (struct group){size, 1 << bits, bits, size - (1 << bits), count};
}

static int rounds_of(enum schedule_kind kind, int size)
{
    struct group g = group_of(size, 0);
    if (size == 1)
        return 0;
    if (kind == SCHEDULE_RING)
        return 2 * (size - 1);
    return (kind == SCHEDULE_HALVING ? 2 : 1) * g.bits + (g.rest ? 2 : 0);
}

/* Start of piece i of `pieces`; the pieces differ by at most one element. */
static size_t piece_at(size_t count, int pieces, int i)
{
    size_t each = count / (size_t)pieces, more = count % (size_t)pieces;
    return (size_t)i * each + ((size_t)i < more ? (size_t)i : more);
}

static void span(size_t count, int pieces, int from, int to, size_t *at, size_t *length)
{
    *at = piece_at(count, pieces, from);
    *length = piece_at(count, pieces, to) - *at;
}

static void ring_step(struct group g, int me, int round, struct schedule_step *step)
{
    int n = g.size, gather = round >= n - 1, turn = gather ? round - (n - 1) : round;
    int out = ((me - turn + gather) % n + n) % n, in = (out + n - 1) % n;
    step->to = (me + 1) % n;
    step->from = (me + n - 1) % n;
    span(g.count, n, out, out + 1, &step->send_at, &step->send_count);
    span(g.count, n, in, in + 1, &step->receive_at, &step->receive_count);
    step->fold = !gather;
}

/* Members beyond a power of two hand their input to a neighbour first and get the result last. */
static void fold_rest(struct group g, int me, bool last, struct schedule_step *step)
{
    step->fold = !last;
    if (me >= 2 * g.rest)
        return;
    bool gives = (me % 2 == 0) != last;
    *(gives ? &step->to : &step->from) = me ^ 1;
    *(gives ? &step->send_count : &step->receive_count) = g.count;
}

static void exchange(struct group g, enum schedule_kind kind, int me, int round, struct schedule_step *step)
{
    bool gather = kind == SCHEDULE_HALVING && round >= g.bits;
    step->fold = !gather;
    if (me < 2 * g.rest && me % 2 == 0)
        return;
    int rank = me < 2 * g.rest ? me / 2 : me - g.rest;
    int mask = kind == SCHEDULE_DOUBLING ? 1 << round
               : gather                  ? 1 << (round - g.bits)
                                         : g.power >> (round + 1);
    int other = rank ^ mask, peer = other < g.rest ? 2 * other + 1 : other + g.rest;
    step->to = step->from = peer;
    if (kind == SCHEDULE_DOUBLING) {
        step->send_count = step->receive_count = g.count;
        return;
    }
    int mine = rank & ~(mask - 1), theirs = other & ~(mask - 1);
    span(g.count, g.power, gather ? mine : theirs, (gather ? mine : theirs) + mask, &step->send_at, &step->send_count);
    span(g.count, g.power, gather ? theirs : mine, (gather ? theirs : mine) + mask, &step->receive_at,
         &step->receive_count);
}

static void group_step(enum schedule_kind kind, struct group g, int me, int round, struct schedule_step *step)
{
    int rounds = rounds_of(kind, g.size);
    if (kind == SCHEDULE_RING)
        ring_step(g, me, round, step);
    else if (g.rest && (round == 0 || round == rounds - 1))
        fold_rest(g, me, round != 0, step);
    else
        exchange(g, kind, me, round - (g.rest != 0), step);
}

/* --- the whole schedule --- */

static int tree_rounds(const struct schedule *s)
{
    return s->smp ? log2_ceil(s->places->most) : 0;
}

static int group_size(const struct schedule *s)
{
    return s->smp ? s->places->nodes : s->places->members;
}

int schedule_rounds(const struct schedule *s)
{
    return 2 * tree_rounds(s) + rounds_of(s->kind, group_size(s));
}

/* A binomial tree on each node: towards the leader, or away from it with `down`. */
static void tree_step(const struct schedule *s, int me, int level, bool down, struct schedule_step *step)
{
    const struct schedule_places *p = s->places;
    int node = p->node[me], local = p->local[me], bit = 1 << level;
    int here = p->first[node + 1] - p->first[node];
    step->fold = !down;
    if (local & (bit - 1))
        return;
    int other = local ^ bit;
    if (other >= here)
        return;
    bool sends = ((local & bit) != 0) != down;
    *(sends ? &step->to : &step->from) = p->order[p->first[node] + other];
    *(sends ? &step->send_count : &step->receive_count) = s->count;
}

void schedule_step(const struct schedule *s, int me, int round, struct schedule_step *step)
{
    const struct schedule_places *p = s->places;
    int up = tree_rounds(s), middle = rounds_of(s->kind, group_size(s));
    *step = (struct schedule_step){.to = -1, .from = -1};
    if (round < up) {
        tree_step(s, me, round, false, step);
    } else if (round >= up + middle) {
        tree_step(s, me, up - 1 - (round - up - middle), true, step);
    } else if (!s->smp) {
        group_step(s->kind, group_of(p->members, s->count), me, round, step);
    } else {
        /* Who folds in a round is the same on all nodes, so that members without a part know it too. */
        group_step(s->kind, group_of(p->nodes, s->count), p->node[me], round - up, step);
        if (p->local[me] != 0)
            *step = (struct schedule_step){.to = -1, .from = -1, .fold = step->fold};
        step->to = step->to < 0 ? -1 : p->order[p->first[step->to]];
        step->from = step->from < 0 ? -1 : p->order[p->first[step->from]];
    }
}

int schedule_repeats(const struct schedule *s, int round)
{
    int up = tree_rounds(s), half = group_size(s) - 1, turn = round - up;
    if (s->kind != SCHEDULE_RING || turn < 0 || turn >= 2 * half)
        return 1;
    return turn < half ? half - turn : 2 * half - turn;
}

size_t schedule_piece(const struct schedule *s)
{
    struct group g = group_of(group_size(s), s->count);
    bool whole = (s->smp && s->places->most > 1) || (s->kind != SCHEDULE_RING && g.rest);
    if (whole || s->kind == SCHEDULE_DOUBLING)
        return s->count;
    int pieces = s->kind == SCHEDULE_RING ? g.size : g.power > 1 ? 2 : 1;
    /* Halves of uneven pieces: the first power / 2 pieces may each have one element more. */
    return s->count / (size_t)pieces + (size_t)(s->kind == SCHEDULE_RING ? 1 : g.power);
}

const char *schedule_name(const struct schedule *s)
{
    static const char *const names[][2] = {
        {"doubling", "smp-doubling"}, {"halving", "smp-halving"}, {"ring", "smp-ring"}};
    return names[s->kind][s->smp];
}
