/* Arguments that must be equal at all members of a team. */
#include "state.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { CHECKED_MOST = 6 };

struct checked {
    int64_t values[CHECKED_MOST];
    int32_t pe; /* of these values */
    int32_t differs, other, which; /* `which`: the argument that differs between `differs` and `other`; -1 none */
    int64_t found, wanted;
};
_Static_assert(sizeof(struct checked) <= 2 * CELL_BYTES, "two cells");

static void exchange(int to, int from, struct checked *mine)
{
    struct checked theirs;
    channel_send_cell(to, mine, CELL_BYTES);
    channel_send_cell(to, (char *)mine + CELL_BYTES, sizeof *mine - CELL_BYTES);
    for (int half = 0; half < 2; half++) {
        memcpy((char *)&theirs + half * CELL_BYTES, channel_receive_cell(from),
               half ? sizeof theirs - CELL_BYTES : CELL_BYTES);
        channel_free_cell(from);
    }
    if (mine->which >= 0)
        return;
    if (theirs.which >= 0) {
        mine->which = theirs.which;
        mine->differs = theirs.differs;
        mine->other = theirs.other;
        mine->found = theirs.found;
        mine->wanted = theirs.wanted;
        return;
    }
    for (int i = 0; i < CHECKED_MOST && mine->which < 0; i++)
        if (theirs.values[i] != mine->values[i]) {
            mine->which = i;
            mine->differs = theirs.pe;
            mine->other = mine->pe;
            mine->found = theirs.values[i];
            mine->wanted = mine->values[i];
        }
}

/* Dissemination: after round k a member knows of 2^(k+1) members; a difference reaches everybody in as many rounds more. */
void check_equal(struct team *t, const char *call, const char *const *names, const int64_t *values, int count)
{
    struct checked mine = {.pe = hopbyte_shmem.me, .which = -1};
    memcpy(mine.values, values, (size_t)count * sizeof *values);
    for (int pass = 0; pass < 2; pass++)
        for (int step = 1; step < t->size; step *= 2)
            exchange(team_pe(t, (t->me + step) % t->size), team_pe(t, (t->me - step + t->size) % t->size), &mine);
    if (mine.which < 0)
        return;
    if (t->me != 0)
        sleep(2); /* one line is enough: member 0 ends the job */
    shmem_fail("%s: %s must be equal at all members: %" PRId64 " at PE %d, %" PRId64 " at PE %d", call,
               names[mine.which], mine.found, mine.differs, mine.wanted, mine.other);
}

void check_if_asked(struct team *t, const char *call, const char *const *names, const int64_t *values, int count)
{
    if (hopbyte_shmem.check)
        check_equal(t, call, names, values, count);
}
