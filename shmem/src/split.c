/* Splits of a team. Members of strided and Cartesian splits follow from the arguments, which are compared; colours are
 * exchanged. */
#include "state.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Members of the parent from + i * step. */
static shmem_team_t make_line(const struct team *parent, int64_t from, int64_t step, int size)
{
    int *pes = calloc((size_t)size, sizeof *pes);
    if (!pes)
        shmem_fail("no memory for a team of %d PEs", size);
    for (int i = 0; i < size; i++)
        pes[i] = team_pe(parent, (int)(from + i * step));
    return team_make(size, pes);
}

/* A refused split, as at all members: member 0 says why. */
static int refuse(const struct team *parent, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (parent->me == 0)
        shmem_say("%s", line);
    shmem_leave();
    return -1;
}

static int contexts_wanted(const shmem_team_config_t *config, long mask)
{
    return config && (mask & SHMEM_TEAM_NUM_CONTEXTS) ? config->num_contexts : 0;
}

int hopbyte_team_split_strided(shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t *config,
                               long mask, shmem_team_t *team)
{
    static const char *const names[] = {"start", "stride", "size", "num_contexts"};
    const char *call = "shmem_team_split_strided";
    *team = SHMEM_TEAM_INVALID;
    if (!parent)
        return -1;
    struct team *t = team_mine(parent, call);
    int contexts = contexts_wanted(config, mask);
    shmem_enter(call);
    check_equal(t, call, names, (int64_t[]){start, stride, size, contexts}, 4);
    int64_t last = start + (int64_t)stride * ((int64_t)size - 1);
    if (contexts)
        return refuse(t, "%s: contexts of a team are not available here", call);
    if (size < 1 || size > t->size)
        return refuse(t, "%s: size %d: expected 1 to %d, the size of the parent", call, size, t->size);
    if (start < 0 || start >= t->size || last < 0 || last >= t->size)
        return refuse(t, "%s: start %d, stride %d, size %d reach from member %d to %" PRId64 " of a parent of %d", call,
                      start, stride, size, start, last, t->size);
    if (stride == 0 && size > 1)
        return refuse(t, "%s: stride 0 with size %d", call, size);
    int64_t member = stride ? ((int64_t)t->me - start) / stride : 0;
    if (member >= 0 && member < size && start + member * stride == t->me)
        *team = make_line(t, start, stride, size);
    shmem_leave();
    return 0;
}

/* The team of this PE along one axis of a grid: cells whose index differs in that coordinate only. `cells`: of the grid
 * if it is full, members of the parent if the last row may be short. */
static shmem_team_t make_axis(const struct team *parent, int below, int range, int64_t cells)
{
    int64_t at = (parent->me / below) % range, from = parent->me - at * below;
    int size = 0;
    while (size < range && from + (int64_t)size * below < cells)
        size++;
    return make_line(parent, from, below, size);
}

int hopbyte_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t *xconfig, long xmask,
                          shmem_team_t *xteam, const shmem_team_config_t *yconfig, long ymask, shmem_team_t *yteam)
{
    static const char *const names[] = {"xrange", "num_contexts"};
    const char *call = "shmem_team_split_2d";
    *xteam = *yteam = SHMEM_TEAM_INVALID;
    if (!parent)
        return -1;
    struct team *t = team_mine(parent, call);
    int contexts = contexts_wanted(xconfig, xmask) | contexts_wanted(yconfig, ymask);
    shmem_enter(call);
    check_equal(t, call, names, (int64_t[]){xrange, contexts}, 2);
    if (contexts)
        return refuse(t, "%s: contexts of a team are not available here", call);
    if (xrange < 1)
        return refuse(t, "%s: xrange %d: expected 1 or more", call, xrange);
    xrange = xrange > t->size ? t->size : xrange;
    *xteam = make_axis(t, 1, xrange, t->size);
    *yteam = make_axis(t, xrange, (t->size + xrange - 1) / xrange, t->size);
    shmem_leave();
    return 0;
}

/* --- Cray's names: errors end the job --- */

static void split_grid(const char *call, shmem_team_t parent, int dims, const int *ranges, shmem_team_t *const *teams)
{
    static const char *const names[] = {"xaxis_range", "yaxis_range", "zaxis_range"};
    struct team *t = team_mine(parent, call);
    int64_t values[3], cells = 1;
    shmem_enter(call);
    for (int d = 0; d < dims; d++) {
        values[d] = ranges[d];
        *teams[d] = SHMEM_TEAM_INVALID;
    }
    check_equal(t, call, names, values, dims);
    for (int d = 0; d < dims; d++) {
        if (ranges[d] < 1)
            shmem_fail("%s: %s %d: expected 1 or more", call, names[d], ranges[d]);
        cells = cells > INT_MAX ? cells : cells * ranges[d];
    }
    if (cells > t->size)
        shmem_fail("%s: a grid of %" PRId64 " cells does not fit the parent of %d PEs; a split with a short last row is "
                   "shmem_team_split_2d",
                   call, cells, t->size);
    if (t->me < cells)
        for (int d = 0, below = 1; d < dims; below *= ranges[d++])
            *teams[d] = make_axis(t, below, ranges[d], cells);
    shmem_leave();
}

void shmemx_team_split_2d(shmem_team_t parent, int xrange, int yrange, shmem_team_t *xteam, shmem_team_t *yteam)
{
    split_grid("shmemx_team_split_2d", parent, 2, (int[]){xrange, yrange}, (shmem_team_t *[]){xteam, yteam});
}

void shmemx_team_split_3d(shmem_team_t parent, int xrange, int yrange, int zrange, shmem_team_t *xteam,
                          shmem_team_t *yteam, shmem_team_t *zteam)
{
    split_grid("shmemx_team_split_3d", parent, 3, (int[]){xrange, yrange, zrange},
               (shmem_team_t *[]){xteam, yteam, zteam});
}

void shmemx_team_split_strided(shmem_team_t parent, int start, int stride, int size, shmem_team_t *team)
{
    team_mine(parent, "shmemx_team_split_strided");
    if (hopbyte_team_split_strided(parent, start, stride, size, NULL, 0, team) != 0)
        shmem_fail("shmemx_team_split_strided: no such team: start %d, stride %d, size %d", start, stride, size);
}

struct seat {
    int key, member;
};

static int by_key(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : x->member - y->member;
}

void shmemx_team_split_color(shmem_team_t parent, int color, int key, shmem_team_t *team)
{
    const char *call = "shmemx_team_split_color";
    struct team *t = team_mine(parent, call);
    int64_t mine[2] = {color, key}, *all = (int64_t *)channel_board();
    int size = 0;
    if (color < 0 && color != SHMEM_COLOR_UNDEFINED)
        shmem_fail("%s: color %d: expected 0 or more, or SHMEM_COLOR_UNDEFINED", call, color);
    shmem_enter(call);
    team_barrier(t); /* the board may be in use by a call on another team until all members are here */
    team_gather(t, all, mine, sizeof mine);
    struct seat *seats = calloc((size_t)t->size, sizeof *seats);
    int *pes = calloc((size_t)t->size, sizeof *pes);
    if (!seats || !pes)
        shmem_fail("no memory for a team of %d PEs", t->size);
    for (int i = 0; i < t->size; i++)
        if (all[2 * i] == color)
            seats[size++] = (struct seat){(int)all[2 * i + 1], i};
    team_barrier(t);
    shmem_leave();
    *team = SHMEM_TEAM_INVALID;
    if (color == SHMEM_COLOR_UNDEFINED) {
        free(pes);
    } else {
        qsort(seats, (size_t)size, sizeof *seats, by_key);
        for (int i = 0; i < size; i++)
            pes[i] = team_pe(t, seats[i].member);
        *team = team_make(size, pes);
    }
    free(seats);
}
