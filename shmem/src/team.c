/* Teams: handles, membership, translation. A team is known to its members alone and needs no symmetric memory. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* A handle is the generation of an entry and its number plus one: a destroyed team is recognised for good. */
enum { NUMBER_BITS = 20, ACTIVE_SETS = 64 };

static struct {
    struct team *entries;
    int room;
    struct {
        int start, log_stride, size;
        struct team team;
    } active[ACTIVE_SETS];
    int next_active;
} teams;

static shmem_team_t handle_of(int number)
{
    return (shmem_team_t)((uintptr_t)teams.entries[number].generation << NUMBER_BITS | (uintptr_t)(number + 1));
}

struct team *team_of(shmem_team_t team, const char *call)
{
    shmem_need_on(call);
    uintptr_t value = (uintptr_t)team;
    int number = (int)(value & ((1 << NUMBER_BITS) - 1)) - 1;
    if (!value)
        shmem_fail("%s: SHMEM_TEAM_INVALID instead of a team", call);
    if (number < 0 || number >= teams.room)
        shmem_fail("%s: %#zx is not a team", call, (size_t)value);
    struct team *t = &teams.entries[number];
    if (!t->used || t->generation != value >> NUMBER_BITS)
        shmem_fail("%s: this team was destroyed", call);
    return t;
}

struct team *team_mine(shmem_team_t team, const char *call)
{
    struct team *t = team_of(team, call);
    if (t->me < 0)
        shmem_fail("%s: this PE is not a member of the team", call);
    return t;
}

int team_member(const struct team *t, int pe)
{
    if (!t->pes) {
        int64_t distance = (int64_t)pe - t->start;
        if (t->size == 1)
            return distance ? -1 : 0;
        int64_t member = t->stride ? distance / t->stride : -1;
        return member >= 0 && member < t->size && member * t->stride == distance ? (int)member : -1;
    }
    for (int i = 0; i < t->size; i++)
        if (t->pes[i] == pe)
            return i;
    return -1;
}

static void team_fill(struct team *t, int size, int *pes, int start, int stride)
{
    uint32_t generation = t->generation;
    *t = (struct team){.size = size, .start = start, .stride = stride, .pes = pes, .generation = generation, .used = true};
    t->me = team_member(t, hopbyte_shmem.me);
}

static int entry_free(void)
{
    for (int i = 0; i < teams.room; i++)
        if (!teams.entries[i].used)
            return i;
    int room = teams.room ? 2 * teams.room : 16;
    struct team *entries = room < 1 << NUMBER_BITS ? realloc(teams.entries, (size_t)room * sizeof *entries) : NULL;
    if (!entries)
        shmem_fail("no memory for more than %d teams", teams.room);
    memset(entries + teams.room, 0, (size_t)(room - teams.room) * sizeof *entries);
    int number = teams.room;
    teams.entries = entries;
    teams.room = room;
    return number;
}

/* The start and stride of a list, if it has them. */
static bool list_is_strided(int size, const int *pes)
{
    for (int i = 2; i < size; i++)
        if (pes[i] - pes[i - 1] != pes[1] - pes[0])
            return false;
    return true;
}

shmem_team_t team_make(int size, int *pes)
{
    int number = entry_free();
    if (list_is_strided(size, pes)) {
        team_fill(&teams.entries[number], size, NULL, pes[0], size > 1 ? pes[1] - pes[0] : 1);
        free(pes);
    } else {
        team_fill(&teams.entries[number], size, pes, 0, 0);
    }
    return handle_of(number);
}

static void team_empty(struct team *t)
{
    free(t->pes);
    free(t->places.node);
    *t = (struct team){.generation = t->generation + 1};
}

void team_open(void)
{
    int *world = calloc((size_t)hopbyte_shmem.pes, sizeof *world), *node = calloc((size_t)hopbyte_shmem.pes, sizeof *node);
    int here = 0;
    if (!world || !node)
        shmem_fail("no memory for %d PEs", hopbyte_shmem.pes);
    for (int pe = 0; pe < hopbyte_shmem.pes; pe++) {
        world[pe] = pe;
        if (hopbyte_shmem.node[pe] == hopbyte_shmem.node[hopbyte_shmem.me])
            node[here++] = pe;
    }
    team_make(hopbyte_shmem.pes, world); /* SHMEM_TEAM_WORLD and SHMEM_TEAM_SHARED: handles 1 and 2 */
    team_make(here, node);
}

void team_close(void)
{
    for (int i = 0; i < teams.room; i++)
        if (teams.entries[i].used)
            team_empty(&teams.entries[i]);
    for (int i = 0; i < ACTIVE_SETS; i++)
        team_empty(&teams.active[i].team);
    free(teams.entries);
    memset(&teams, 0, sizeof teams);
}

struct team *team_active(int start, int log_stride, int size, const char *call)
{
    shmem_need_on(call);
    for (int i = 0; i < ACTIVE_SETS; i++)
        if (teams.active[i].team.used && teams.active[i].start == start && teams.active[i].log_stride == log_stride &&
            teams.active[i].size == size)
            return &teams.active[i].team;
    if (size < 1 || start < 0 || log_stride < 0 || log_stride > 30 ||
        start + (((int64_t)size - 1) << log_stride) >= hopbyte_shmem.pes)
        shmem_fail("%s: PE_start %d, logPE_stride %d, PE_size %d is not an active set of %d PEs", call, start, log_stride,
                   size, hopbyte_shmem.pes);
    int i = teams.next_active++ % ACTIVE_SETS;
    team_empty(&teams.active[i].team);
    teams.active[i].start = start;
    teams.active[i].log_stride = log_stride;
    teams.active[i].size = size;
    team_fill(&teams.active[i].team, size, NULL, start, 1 << log_stride);
    if (teams.active[i].team.me < 0) {
        teams.active[i].team.used = false;
        shmem_fail("%s: this PE is not in the active set PE_start %d, logPE_stride %d, PE_size %d", call, start, log_stride,
                   size);
    }
    return &teams.active[i].team;
}

/* Members by node, nodes in order of their first member. */
bool team_places(struct team *t)
{
    struct schedule_places *p = &t->places;
    if (p->node)
        return true;
    size_t n = (size_t)t->size;
    int *block = calloc(4 * n + 1, sizeof *block), *number = calloc((size_t)hopbyte_shmem.nodes, sizeof *number);
    if (!block || !number) {
        free(block);
        free(number);
        return false;
    }
    *p = (struct schedule_places){.members = t->size, .node = block, .local = block + n, .order = block + 2 * n,
                                  .first = block + 3 * n};
    for (int i = 0; i < t->size; i++) {
        int *seen = &number[hopbyte_shmem.node[team_pe(t, i)]];
        if (!*seen)
            *seen = ++p->nodes;
        p->node[i] = *seen - 1;
        p->local[i] = p->first[*seen]++;
        p->most = p->local[i] + 1 > p->most ? p->local[i] + 1 : p->most;
    }
    for (int k = 0; k < p->nodes; k++)
        p->first[k + 1] += p->first[k];
    for (int i = 0; i < t->size; i++)
        p->order[p->first[p->node[i]] + p->local[i]] = i;
    free(number);
    return true;
}

/* --- queries --- */

int hopbyte_team_my_pe(shmem_team_t team)
{
    return team ? team_of(team, "shmem_team_my_pe")->me : -1;
}

int hopbyte_team_n_pes(shmem_team_t team)
{
    return team ? team_of(team, "shmem_team_n_pes")->size : -1;
}

int hopbyte_team_translate_pe(shmem_team_t from, int pe, shmem_team_t to)
{
    if (!from || !to)
        return -1;
    struct team *a = team_of(from, "shmem_team_translate_pe"), *b = team_of(to, "shmem_team_translate_pe");
    return pe < 0 || pe >= a->size ? -1 : team_member(b, team_pe(a, pe));
}

int hopbyte_team_get_config(shmem_team_t team, long mask, shmem_team_config_t *config)
{
    if (!team)
        return -1;
    team_of(team, "shmem_team_get_config");
    if (mask && config)
        config->num_contexts = 0;
    return 0;
}

void hopbyte_team_destroy(shmem_team_t team)
{
    if (!team)
        return;
    struct team *t = team_of(team, "shmem_team_destroy");
    if (t - teams.entries < 2)
        shmem_fail("shmem_team_destroy: a predefined team cannot be destroyed");
    team_barrier(t); /* collective: nobody sends to a member that has left */
    team_empty(t);
}
