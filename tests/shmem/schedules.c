/* Brute force over schedules without SHMEM: every member's rounds are run on arrays, with the messages of a round in
 * between. usage: schedules MEMBERS_MOST SEEDS. Checks the result, that senders and receivers agree, that no piece exceeds
 * the announced size, and bytes and rounds per member against the published formulas. */
#include "schedule.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;
static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static void fail(const char *what, const struct schedule *s, int me, int round)
{
    printf("BAD %s: %s, %d members, %d nodes, %zu elements, member %d, round %d\n", what, schedule_name(s),
           s->places->members, s->places->nodes, s->count, me, round);
    exit(1);
}

static void places_draw(struct schedule_places *p, int n, int nodes)
{
    static int block[4 * 256 + 4];
    memset(block, 0, sizeof block);
    *p = (struct schedule_places){n, 0, 0, block, block + 256, block + 512, block + 768};
    int number[256], name[256];
    for (int k = 0; k < nodes; k++)
        number[k] = -1;
    for (int i = 0; i < n; i++)
        name[i] = draw(nodes);
    for (int i = 0; i < n; i++) {
        if (number[name[i]] < 0)
            number[name[i]] = p->nodes++;
        p->node[i] = number[name[i]];
        p->local[i] = p->first[p->node[i] + 1]++;
        p->most = p->local[i] + 1 > p->most ? p->local[i] + 1 : p->most;
    }
    for (int k = 0; k < p->nodes; k++)
        p->first[k + 1] += p->first[k];
    for (int i = 0; i < n; i++)
        p->order[p->first[p->node[i]] + p->local[i]] = i;
}

/* Bytes of a member of a flat schedule for counts that the members divide; -1 where the formula has no value. */
static long formula(const struct schedule *s, int me)
{
    long n = s->places->members, m = (long)s->count, bits = 0, power = 1;
    while (2 * power <= n) {
        power *= 2;
        bits++;
    }
    long rest = n - power, first = me < 2 * rest && me % 2 == 0;
    if (s->kind == SCHEDULE_RING)
        return n > 1 ? 2 * (n - 1) * (m / n) : 0;
    if (first)
        return m;
    long extra = me < 2 * rest ? m : 0;
    return extra + (s->kind == SCHEDULE_DOUBLING ? bits * m : 2 * (power - 1) * (m / power));
}

static void run(const struct schedule *s)
{
    int n = s->places->members, rounds = schedule_rounds(s);
    size_t count = s->count;
    uint64_t *data = calloc((size_t)n * count + 1, 8), *next = calloc((size_t)n * count + 1, 8), want = 0;
    long sent[256] = {0};
    for (int i = 0; i < n; i++) {
        for (size_t e = 0; e < count; e++)
            data[(size_t)i * count + e] = (uint64_t)1 << (i % 60) << (i / 60);
        want += (uint64_t)1 << (i % 60) << (i / 60);
    }
    for (int round = 0; round < rounds; round++) {
        struct schedule_step step[256];
        memcpy(next, data, (size_t)n * count * 8);
        for (int i = 0; i < n; i++)
            schedule_step(s, i, round, &step[i]);
        for (int i = 0; i < n; i++) {
            const struct schedule_step *a = &step[i];
            if (a->fold != step[0].fold)
                fail("a round that both folds and places", s, i, round);
            if (a->to >= 0 && (step[a->to].from != i || step[a->to].receive_count != a->send_count ||
                               step[a->to].receive_at != a->send_at))
                fail("sender and receiver differ", s, i, round);
            if (a->from >= 0 && step[a->from].to != i)
                fail("nobody sends", s, i, round);
            if (a->to >= 0)
                sent[i] += (long)a->send_count;
            if (a->from < 0 || !a->receive_count)
                continue;
            if (a->receive_at + a->receive_count > count || (a->fold && a->receive_count > schedule_piece(s)))
                fail("piece too long", s, i, round);
            for (size_t e = a->receive_at; e < a->receive_at + a->receive_count; e++) {
                uint64_t got = data[(size_t)a->from * count + e];
                next[(size_t)i * count + e] = a->fold ? next[(size_t)i * count + e] + got : got;
            }
        }
        memcpy(data, next, (size_t)n * count * 8);
    }
    for (int i = 0; i < n; i++) {
        for (size_t e = 0; e < count; e++)
            if (data[(size_t)i * count + e] != want)
                fail("wrong result", s, i, -1);
        long power = 1;
        while (2 * power <= n)
            power *= 2;
        if (!s->smp && count % (size_t)n == 0 && count % (size_t)power == 0 && sent[i] != formula(s, i))
            fail("bytes", s, i, (int)sent[i]);
    }
    free(data);
    free(next);
}

int main(int argc, char **argv)
{
    int most = argc > 1 ? atoi(argv[1]) : 20, seeds = argc > 2 ? atoi(argv[2]) : 3;
    long cases = 0;
    for (int n = 1; n <= most; n++)
        for (int seed = 0; seed < seeds; seed++) {
            struct schedule_places places;
            places_draw(&places, n, 1 + draw(n));
            size_t counts[] = {0, 1, 3, 17, 64 * (size_t)n};
            for (int i = 0; i < 2 * SCHEDULE_KINDS; i++)
                for (int c = 0; c < 5; c++, cases++)
                    run(&(struct schedule){i % SCHEDULE_KINDS, i >= SCHEDULE_KINDS, counts[c], &places});
        }
    printf("checked %ld\n", cases);
    return 0;
}
