/* The properties of topobw's phases, for every ring and line up to 200 and every tournament up to 150 players. */
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long checks;

#define CHECK(what, ...)                                                                                               \
    do {                                                                                                               \
        checks++;                                                                                                      \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #what);                                         \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { SENDS = 1, RECEIVES = 2, MOST = 256 };

/* Marks a transfer in this phase's roles; fails when a position is in two. */
static void take_part(char *roles, int from, int to, int size, int phase) {
    CHECK(to >= 0 && to < size, "size %d phase %d: %d sends to %d", size, phase, from, to);
    CHECK(from != to, "size %d phase %d: %d sends to itself", size, phase, from);
    CHECK(roles[from] == 0, "size %d phase %d: sender %d has another role", size, phase, from);
    roles[from] = SENDS;
    CHECK(roles[to] == 0, "size %d phase %d: receiver %d has another role", size, phase, to);
    roles[to] = RECEIVES;
}

static void ring_check(int length, bool closed) {
    static int used[MOST][2];
    memset(used, 0, sizeof used);
    for (int phase = 0; phase < hopbyte_ring_phases(length, closed); phase++) {
        char roles[MOST] = {0};
        bool up = hopbyte_ring_up(phase);
        for (int at = 0; at < length; at++) {
            int to = hopbyte_ring_target(length, closed, phase, at);
            if (to < 0)
                continue;
            int expected = ((up ? at + 1 : at - 1) + length) % length;
            CHECK(to == expected, "ring %d phase %d: %d sends to %d, its neighbour is %d", length, phase, at, to,
                  expected);
            CHECK(closed || abs(to - at) == 1, "line %d phase %d: %d to %d crosses the open end", length, phase, at,
                  to);
            take_part(roles, at, to, length, phase);
            used[at][up]++;
        }
    }
    for (int at = 0; at < length; at++)
        for (int up = 0; up < 2; up++) {
            bool exists = length > 1 && (closed || (up ? at < length - 1 : at > 0));
            CHECK(used[at][up] == exists, "length %d closed %d: link %d%c used %d times", length, closed, at,
                  up ? '+' : '-', used[at][up]);
        }
}

/* Senders of each phase according to Fig. 5. */
static void figure_check(void) {
    for (int length = 2; length < 50; length++) {
        for (int at = 0; at < length; at++) {
            bool odd = at % 2;
            CHECK(odd ? hopbyte_ring_target(length, true, 0, at) == -1 : true, "phase 0 is even->odd");
            CHECK(odd ? true : hopbyte_ring_target(length, true, 1, at) == -1, "phase 1 is odd->even");
            CHECK(odd ? true : hopbyte_ring_target(length, true, 2, at) == -1, "phase 2 is odd->even");
            CHECK(odd ? hopbyte_ring_target(length, true, 3, at) == -1 : true, "phase 3 is even->odd");
        }
        if (length % 2 == 1) {
            CHECK(hopbyte_ring_target(length, true, 4, length - 1) == 0, "last to first");
            CHECK(hopbyte_ring_target(length, true, 5, 0) == length - 1, "first to last");
        }
    }
    CHECK(hopbyte_ring_up(0) && !hopbyte_ring_up(1) && hopbyte_ring_up(2) && !hopbyte_ring_up(3), "+ - + -");
    CHECK(hopbyte_ring_phases(8, true) == 4 && hopbyte_ring_phases(7, true) == 6, "four, six");
    CHECK(hopbyte_ring_phases(7, false) == 4 && hopbyte_ring_phases(1, true) == 0, "four, none");
}

static void tournament_check(int players) {
    static int met[MOST][MOST];
    memset(met, 0, sizeof met);
    int phases = hopbyte_tournament_phases(players);
    CHECK(phases == (players < 2 ? 0 : 2 * (players % 2 ? players : players - 1)), "%d players", players);
    for (int phase = 0; phase < phases; phase++) {
        char roles[MOST] = {0};
        int transfers = 0;
        for (int at = 0; at < players; at++) {
            int to = hopbyte_tournament_target(players, phase, at);
            if (to < 0)
                continue;
            take_part(roles, at, to, players, phase);
            met[at][to]++;
            transfers++;
        }
        CHECK(transfers == players / 2, "%d players, phase %d: %d transfers", players, phase, transfers);
    }
    for (int a = 0; a < players; a++)
        for (int b = 0; b < players; b++)
            CHECK(met[a][b] == (a != b), "%d players: %d to %d met %d times", players, a, b, met[a][b]);
}

int main(void) {
    for (int length = 1; length <= 200; length++) {
        ring_check(length, true);
        ring_check(length, false);
    }
    figure_check();
    for (int players = 0; players <= 150; players++)
        tournament_check(players);
    printf("rounds: %ld checks\n", checks);
    return 0;
}
