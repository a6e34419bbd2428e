/* Handles and ranks of a call to world ranks. */
#include "../common/hash.h"
#include "record.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 512, LIST_BYTES_MAX = 64 << 20 };

static struct hopbyte_comm *buckets[BUCKETS];
static struct hopbyte_group **groups;
static int group_count, group_room;
static size_t list_bytes;
static MPI_Group world_group;

void hopbyte_groups_init(MPI_Group world)
{
    world_group = world;
    NEXT(Group_size)(world, &hopbyte_recorder.size);
    NEXT(Group_rank)(world, &hopbyte_recorder.rank);
}

const struct hopbyte_group *hopbyte_group_at(uint16_t index)
{
    return index < group_count ? groups[index] : NULL;
}

static uint64_t ranks_hash(const int *ranks, int count)
{
    uint64_t hash = HOPBYTE_FNV_BASIS;
    for (int i = 0; i < count; i++) {
        uint32_t rank = (uint32_t)ranks[i];
        const unsigned char bytes[4] = {rank & 0xff, rank >> 8 & 0xff, rank >> 16 & 0xff, rank >> 24};
        hash = hopbyte_fnv1a(hash, bytes, sizeof bytes);
    }
    return hash;
}

static bool ranks_are_strided(const int *ranks, int count)
{
    for (int i = 2; i < count; i++)
        if (ranks[i] - ranks[i - 1] != ranks[1] - ranks[0])
            return false;
    return count < 2 || (ranks[0] >= 0 && ranks[1] >= 0);
}

static int rank_position(const int *ranks, int count, int rank)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return i;
    return RANK_OUTSIDE;
}

/* Keeps the group for good, so that the file can list it. Beyond the limits on number or memory, it lives as long as
 * its communicator, and its collective calls have no group in the file. */
static void group_register(struct hopbyte_group *g)
{
    size_t bytes = g->list ? (size_t)g->size * sizeof(int) : 0;
    g->index = INDEX_OTHER;
    if (group_count >= INDEX_OTHER || list_bytes + bytes > LIST_BYTES_MAX)
        return;
    if (group_count == group_room) {
        int room = group_room ? group_room * 2 : 16;
        struct hopbyte_group **more = realloc(groups, (size_t)room * sizeof *groups);
        if (!more)
            return;
        groups = more;
        group_room = room;
    }
    g->index = (uint16_t)group_count;
    groups[group_count++] = g;
    list_bytes += bytes;
    hopbyte_file_define();
}

/* Takes ownership of `ranks`. */
static struct hopbyte_group *group_intern(int *ranks, int count)
{
    uint64_t id = ranks_hash(ranks, count);
    for (int i = 0; i < group_count; i++)
        if (groups[i]->id == id && groups[i]->size == count) {
            free(ranks);
            return groups[i];
        }
    struct hopbyte_group *g = calloc(1, sizeof *g);
    if (!g) {
        free(ranks);
        return NULL;
    }
    g->id = id;
    g->size = count;
    g->me = rank_position(ranks, count, hopbyte_recorder.rank);
    if (ranks_are_strided(ranks, count)) {
        g->first = count ? ranks[0] : 0;
        g->stride = count > 1 ? ranks[1] - ranks[0] : 0;
        free(ranks);
    } else {
        g->list = ranks;
    }
    group_register(g);
    return g;
}

static int *ranks_translate(MPI_Group group, int count)
{
    size_t room = (size_t)(count ? count : 1) * sizeof(int);
    int *in = malloc(room), *out = malloc(room);
    if (!in || !out) {
        free(in);
        free(out);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        in[i] = i;
    NEXT(Group_translate_ranks)(group, count, in, world_group, out);
    for (int i = 0; i < count; i++)
        if (out[i] == MPI_UNDEFINED)
            out[i] = RANK_OUTSIDE; /* a process of another world: spawned or connected */
    free(in);
    return out;
}

static struct hopbyte_group *group_learn(MPI_Group group)
{
    int count = 0;
    NEXT(Group_size)(group, &count);
    int *ranks = ranks_translate(group, count);
    NEXT(Group_free)(&group);
    if (!ranks)
        return NULL;
    hopbyte_lock();
    struct hopbyte_group *g = group_intern(ranks, count);
    hopbyte_unlock();
    return g;
}

static struct hopbyte_comm *comm_learn(MPI_Comm comm)
{
    struct hopbyte_comm *c = calloc(1, sizeof *c);
    int inter = 0;
    MPI_Group group;
    if (!c)
        return NULL;
    NEXT(Comm_test_inter)(comm, &inter);
    NEXT(Comm_group)(comm, &group);
    c->inter = inter;
    c->local = c->peers = group_learn(group);
    if (inter) {
        NEXT(Comm_remote_group)(comm, &group);
        c->peers = group_learn(group);
    }
    return c;
}

static struct hopbyte_comm *window_learn(MPI_Win win)
{
    struct hopbyte_comm *c = calloc(1, sizeof *c);
    MPI_Group group;
    if (!c)
        return NULL;
    NEXT(Win_get_group)(win, &group);
    c->window = true;
    c->local = c->peers = group_learn(group);
    return c;
}

static struct hopbyte_comm **bucket_find(uintptr_t handle, bool window)
{
    struct hopbyte_comm **at = &buckets[(handle * UINT64_C(0x9e3779b97f4a7c15)) >> 55];
    while (*at && ((*at)->handle != handle || (*at)->window != window))
        at = &(*at)->next;
    return at;
}

static struct hopbyte_comm *registry_get(uintptr_t handle, bool window)
{
    hopbyte_lock();
    struct hopbyte_comm *c = *bucket_find(handle, window);
    hopbyte_unlock();
    return c;
}

static void comm_free(struct hopbyte_comm *c)
{
    if (c->peers != c->local && c->peers && c->peers->index == INDEX_OTHER) {
        free(c->peers->list);
        free(c->peers);
    }
    if (c->local && c->local->index == INDEX_OTHER) {
        free(c->local->list);
        free(c->local);
    }
    free(c->neighbors);
    free(c);
}

/* Two threads may look up the same handle at once; the second finds the first's entry and frees its own. */
static struct hopbyte_comm *registry_put(struct hopbyte_comm *c, uintptr_t handle)
{
    if (!c || !c->peers || !c->local) {
        free(c);
        hopbyte_unknown("MPI_Comm_group", "out of memory for the members of a communicator or window");
        return NULL;
    }
    hopbyte_lock();
    struct hopbyte_comm **at = bucket_find(handle, c->window), *old = *at;
    if (!old) {
        c->handle = handle;
        *at = c;
    }
    hopbyte_unlock();
    if (old) {
        comm_free(c);
        return old;
    }
    return c;
}

struct recent {
    uintptr_t handle;
    uint64_t generation;
    struct hopbyte_comm *comm;
};

static bool recent_hit(const struct recent *recent, uintptr_t handle)
{
    return recent->comm && recent->handle == handle &&
           recent->generation == __atomic_load_n(&hopbyte_recorder.generation, __ATOMIC_RELAXED);
}

static void recent_set(struct recent *recent, uintptr_t handle, struct hopbyte_comm *c)
{
    recent->handle = handle;
    recent->generation = __atomic_load_n(&hopbyte_recorder.generation, __ATOMIC_RELAXED);
    recent->comm = c;
}

struct hopbyte_comm *hopbyte_comm_find(MPI_Comm comm)
{
    static _Thread_local struct recent recent;
    uintptr_t handle = (uintptr_t)comm;
    if (__builtin_expect(recent_hit(&recent, handle), 1))
        return recent.comm;
    struct hopbyte_comm *c = registry_get(handle, false);
    if (!c)
        c = registry_put(comm_learn(comm), handle);
    recent_set(&recent, handle, c);
    return c;
}

void hopbyte_comm_created(MPI_Comm comm, MPI_Comm original)
{
    if (comm == MPI_COMM_NULL)
        return;
    hopbyte_comm_forget(comm);
    struct hopbyte_comm *c =
        registry_put(comm_learn(original == MPI_COMM_NULL ? comm : original), (uintptr_t)comm);
    if (!c || c->inter)
        return;
    hopbyte_lock();
    uint64_t free = ~(c->local->numbers | 1);
    c->number = free ? (uint8_t)__builtin_ctzll(free) : 0;
    c->local->numbers |= UINT64_C(1) << c->number;
    hopbyte_unlock();
}

static bool has_outside(const struct hopbyte_group *g)
{
    for (int i = 0; i < g->size; i++)
        if (hopbyte_group_world_rank(g, i) < 0)
            return true;
    return false;
}

uint16_t hopbyte_comm_both(const struct hopbyte_comm *c)
{
    if (c->both)
        return c->both->index;
    const struct hopbyte_group *first = c->local, *second = c->peers;
    int count = first->size + second->size;
    int *ranks = has_outside(first) || has_outside(second) ? NULL : malloc((size_t)count * sizeof(int));
    if (!ranks)
        return INDEX_OTHER;
    if (hopbyte_group_world_rank(second, 0) < hopbyte_group_world_rank(first, 0)) {
        first = c->peers;
        second = c->local;
    }
    for (int i = 0; i < count; i++)
        ranks[i] = i < first->size ? hopbyte_group_world_rank(first, i)
                                   : hopbyte_group_world_rank(second, i - first->size);
    hopbyte_lock();
    struct hopbyte_group *both = group_intern(ranks, count);
    hopbyte_unlock();
    ((struct hopbyte_comm *)c)->both = both;
    return both ? both->index : INDEX_OTHER;
}

struct hopbyte_comm *hopbyte_window_find(MPI_Win win)
{
    static _Thread_local struct recent recent;
    uintptr_t handle = (uintptr_t)win;
    if (__builtin_expect(recent_hit(&recent, handle), 1))
        return recent.comm;
    struct hopbyte_comm *c = registry_get(handle, true);
    if (!c)
        c = registry_put(window_learn(win), handle);
    recent_set(&recent, handle, c);
    return c;
}

static void registry_forget(uintptr_t handle, bool window)
{
    hopbyte_lock();
    struct hopbyte_comm **at = bucket_find(handle, window), *c = *at;
    if (c)
        *at = c->next;
    if (c && c->number)
        c->local->numbers &= ~(UINT64_C(1) << c->number);
    hopbyte_unlock();
    if (!c)
        return;
    __atomic_fetch_add(&hopbyte_recorder.generation, 1, __ATOMIC_RELAXED);
    comm_free(c);
}

void hopbyte_comm_forget(MPI_Comm comm)
{
    registry_forget((uintptr_t)comm, false);
}

void hopbyte_window_forget(MPI_Win win)
{
    registry_forget((uintptr_t)win, true);
}

static void neighbors_of_cart(struct hopbyte_comm *c, MPI_Comm comm)
{
    int dimensions = 0;
    NEXT(Cartdim_get)(comm, &dimensions);
    c->neighbors = calloc((size_t)dimensions * 2 + 1, sizeof *c->neighbors);
    if (!c->neighbors)
        return;
    /* Blocks are ordered by dimension, the lower neighbour first (MPI 3.1, section 7.6). */
    for (int d = 0; d < dimensions; d++)
        NEXT(Cart_shift)(comm, d, 1, &c->neighbors[2 * d], &c->neighbors[2 * d + 1]);
    c->neighbor_count = 2 * dimensions;
}

static void neighbors_of_graph(struct hopbyte_comm *c, MPI_Comm comm)
{
    int rank, count = 0;
    NEXT(Comm_rank)(comm, &rank);
    NEXT(Graph_neighbors_count)(comm, rank, &count);
    c->neighbors = calloc((size_t)count + 1, sizeof *c->neighbors);
    if (!c->neighbors)
        return;
    NEXT(Graph_neighbors)(comm, rank, count, c->neighbors);
    c->neighbor_count = count;
}

static void neighbors_of_dist_graph(struct hopbyte_comm *c, MPI_Comm comm)
{
    int in = 0, out = 0, weighted = 0;
    NEXT(Dist_graph_neighbors_count)(comm, &in, &out, &weighted);
    int *sources = calloc((size_t)in + 1, sizeof *sources), *source_weights = calloc((size_t)in + 1, sizeof(int)),
        *weights = calloc((size_t)out + 1, sizeof(int));
    c->neighbors = calloc((size_t)out + 1, sizeof *c->neighbors);
    if (sources && source_weights && weights && c->neighbors) {
        NEXT(Dist_graph_neighbors)(comm, in, sources, source_weights, out, c->neighbors, weights);
        c->neighbor_count = out;
    }
    free(sources);
    free(source_weights);
    free(weights);
}

void hopbyte_neighbors_learn(struct hopbyte_comm *c, MPI_Comm comm)
{
    if (c->neighbors_known)
        return;
    c->neighbors_known = true;
    int kind = MPI_UNDEFINED;
    NEXT(Topo_test)(comm, &kind);
    if (kind == MPI_CART)
        neighbors_of_cart(c, comm);
    else if (kind == MPI_GRAPH)
        neighbors_of_graph(c, comm);
    else if (kind == MPI_DIST_GRAPH)
        neighbors_of_dist_graph(c, comm);
}
