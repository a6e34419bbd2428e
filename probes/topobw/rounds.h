/* Pairs of positions by phase: pure functions, no MPI.
 *
 * A phase is a set of directed transfers that run at once. In no phase does a position both send and receive, or take
 * part twice; over all phases every directed link is used exactly once. */
#ifndef HOPBYTE_ROUNDS_H
#define HOPBYTE_ROUNDS_H

#include <stdbool.h>

/* Phases of a ring or line (paper 002, III.C and Fig. 5): even to odd positions going up, odd to even going down, odd
 * to even going up, even to odd going down; a closed ring of odd length has two more, last to first going up and first
 * to last going down. A length of one has none. */
int hopbyte_ring_phases(int length, bool closed);

/* Whether the transfers of a phase go up (towards larger positions, or from last to first). */
bool hopbyte_ring_up(int phase);

/* The position that `at` sends to in a phase, or -1. */
int hopbyte_ring_target(int length, bool closed, int phase, int at);

/* Name of a phase: "even->odd +" … "first->last -". */
const char *hopbyte_ring_phase_name(int phase);

/* Phases in which `players` meet pairwise, every ordered pair once (a round robin tournament, that is a
 * 1-factorisation of the complete graph, each round run in both directions): two phases per round, players - 1 rounds,
 * or `players` rounds for an odd number, with one player out in each. */
int hopbyte_tournament_phases(int players);

/* The player that `at` sends to in a phase, or -1 when it receives or sits out. */
int hopbyte_tournament_target(int players, int phase, int at);

#endif
