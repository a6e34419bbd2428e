#include "rounds.h"

/* Fig. 5 in order. */
enum { EVEN_UP, ODD_DOWN, ODD_UP, EVEN_DOWN, LAST_UP, FIRST_DOWN };

int hopbyte_ring_phases(int length, bool closed) {
    if (length < 2)
        return 0;
    return closed && length % 2 == 1 ? 6 : 4;
}

bool hopbyte_ring_up(int phase) {
    return phase == EVEN_UP || phase == ODD_UP || phase == LAST_UP;
}

const char *hopbyte_ring_phase_name(int phase) {
    static const char *const names[] = {"even->odd +", "odd->even -",   "odd->even +",
                                        "even->odd -", "last->first +", "first->last -"};
    return names[phase];
}

int hopbyte_ring_target(int length, bool closed, int phase, int at) {
    int last = length - 1;
    if (phase >= hopbyte_ring_phases(length, closed))
        return -1;
    if (phase == LAST_UP)
        return at == last ? 0 : -1;
    if (phase == FIRST_DOWN)
        return at == 0 ? last : -1;
    bool odd_sends = phase == ODD_DOWN || phase == ODD_UP;
    if (odd_sends != (at % 2 == 1))
        return -1;
    int target = hopbyte_ring_up(phase) ? at + 1 : at - 1;
    bool over_the_end = target < 0 || target > last;
    if (over_the_end && (!closed || length % 2 == 1)) /* in an odd ring both ends are even: phases of their own */
        return -1;
    return over_the_end ? last - at : target;
}

int hopbyte_tournament_phases(int players) {
    return players < 2 ? 0 : 2 * (players - 1 + players % 2);
}

int hopbyte_tournament_target(int players, int phase, int at) {
    if (phase >= hopbyte_tournament_phases(players))
        return -1;
    /* Circle method: in round r, i and j meet when i + j = r modulo an odd number; a player paired with itself meets
     * the odd one out, which is a bye when the number of players is odd. */
    int seats = players + players % 2, odd = seats - 1, round = phase / 2;
    int partner;
    if (at == odd)
        partner = (int)((long long)round * (seats / 2) % odd); /* seats / 2 is one half modulo odd */
    else {
        partner = (round - at % odd + odd) % odd;
        if (partner == at)
            partner = odd;
    }
    if (partner >= players)
        return -1;
    bool lower_sends = phase % 2 == 0;
    return (at < partner) == lower_sends ? partner : -1;
}
