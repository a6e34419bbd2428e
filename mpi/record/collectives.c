/* Collective calls: this rank's contribution, counted by kind, communicator, root and size; the reader expands them
 * into messages. If the call's arguments give destinations and bytes (vector and neighbourhood collectives that send
 * directly, inter-communicators), pairs are counted. */
#include "record.h"

const char *const hopbyte_kind_names[KIND_COUNT] = {
    [KIND_NONE] = "none",
    [KIND_BARRIER] = "barrier",
    [KIND_BCAST] = "bcast",
    [KIND_REDUCE] = "reduce",
    [KIND_ALLREDUCE] = "allreduce",
    [KIND_SCAN] = "scan",
    [KIND_EXSCAN] = "exscan",
    [KIND_GATHER] = "gather",
    [KIND_GATHERV] = "gatherv",
    [KIND_SCATTER] = "scatter",
    [KIND_SCATTERV] = "scatterv",
    [KIND_ALLGATHER] = "allgather",
    [KIND_ALLGATHERV] = "allgatherv",
    [KIND_ALLTOALL] = "alltoall",
    [KIND_ALLTOALLV] = "alltoallv",
    [KIND_ALLTOALLW] = "alltoallw",
    [KIND_REDUCE_SCATTER] = "reduce_scatter",
    [KIND_REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
    [KIND_NEIGHBOR_ALLGATHER] = "neighbor_allgather",
    [KIND_NEIGHBOR_ALLGATHERV] = "neighbor_allgatherv",
    [KIND_NEIGHBOR_ALLTOALL] = "neighbor_alltoall",
    [KIND_NEIGHBOR_ALLTOALLV] = "neighbor_alltoallv",
    [KIND_NEIGHBOR_ALLTOALLW] = "neighbor_alltoallw",
    [KIND_PUT] = "put",
    [KIND_GET] = "get",
    [KIND_ACCUMULATE] = "accumulate",
    [KIND_GET_ACCUMULATE] = "get_accumulate",
    [KIND_FETCH_AND_OP] = "fetch_and_op",
    [KIND_COMPARE_AND_SWAP] = "compare_and_swap",
};

static uint64_t count_at(struct hopbyte_counts counts, int i)
{
    return counts.wide ? (uint64_t)((const MPI_Count *)counts.array)[i] : (uint64_t)((const int *)counts.array)[i];
}

static uint64_t counts_sum(struct hopbyte_counts counts, int size)
{
    uint64_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += count_at(counts, i);
    return sum;
}

static uint64_t message_size(MPI_Count count, MPI_Datatype type)
{
    return count > 0 ? (uint64_t)count * hopbyte_type_size(type) : 0; /* with no elements the type may be null */
}

/* A call with messages counted as pairs, after them. */
static void direct_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c, int root,
                       uint64_t bytes)
{
    uint64_t both = c->inter && hopbyte_tracing() ? UINT64_C(1) + hopbyte_comm_both(c) : 0;
    hopbyte_sink_collective(sink, CLASS_DIRECT, kind, c, root < 0 ? RANK_OUTSIDE : root, both, bytes);
}

static void pair_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c, int member,
                     uint64_t bytes)
{
    hopbyte_sink_collective(sink, CLASS_PAIR, kind, c, hopbyte_group_world_rank(c->peers, member), 0, bytes);
}

static void each_peer_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c,
                          uint64_t bytes)
{
    for (int i = 0; i < c->peers->size; i++)
        pair_add(sink, kind, c, i, bytes);
}

/* Between two groups every sender sends directly. The root passes MPI_ROOT, the rest of its group MPI_PROC_NULL. */
static void inter_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c, int root,
                      uint64_t bytes)
{
    bool up = kind == KIND_REDUCE || kind == KIND_GATHER || kind == KIND_GATHERV;
    bool down = kind == KIND_BCAST || kind == KIND_SCATTER;
    if (up && root >= 0)
        pair_add(sink, kind, c, root, bytes);
    else if (!up && (!down || root == MPI_ROOT))
        each_peer_add(sink, kind, c, bytes);
    direct_add(sink, kind, c, root, bytes);
}

static void plain_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c, int root,
                      uint64_t bytes)
{
    if (c->inter)
        inter_add(sink, kind, c, root, bytes);
    else
        hopbyte_sink_collective(sink, CLASS_CALL, kind, c, root, bytes, bytes);
}

void hopbyte_collective_simple(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm, int root,
                               MPI_Count count, MPI_Datatype type)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    /* Without a root RANK_OUTSIDE is given, which is MPI_PROC_NULL in MPICH. */
    bool rooted = kind == KIND_BCAST || kind == KIND_REDUCE;
    bool idle = c->inter && rooted && root == MPI_PROC_NULL;
    plain_add(sink, kind, c, root, idle ? 0 : message_size(count, type));
}

void hopbyte_collective_gather(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm, int root,
                               const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, MPI_Count recvcount,
                               MPI_Datatype recvtype)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    bool sends = !(c->inter && kind == KIND_GATHER && root < 0);
    uint64_t bytes = !sends                     ? 0
                     : sendbuf == MPI_IN_PLACE ? message_size(recvcount, recvtype)
                                               : message_size(sendcount, sendtype);
    plain_add(sink, kind, c, root, bytes);
}

void hopbyte_collective_scatter(struct hopbyte_sink *sink, MPI_Comm comm, int root, MPI_Count sendcount,
                                MPI_Datatype sendtype, MPI_Count recvcount, MPI_Datatype recvtype)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    bool sends = c->inter ? root == MPI_ROOT : root == c->peers->me;
    uint64_t bytes = sends                              ? message_size(sendcount, sendtype)
                     : c->inter && root == MPI_PROC_NULL ? 0
                                                         : message_size(recvcount, recvtype);
    plain_add(sink, KIND_SCATTER, c, root, bytes);
}

void hopbyte_collective_gatherv(struct hopbyte_sink *sink, MPI_Comm comm, int root, const void *sendbuf,
                                MPI_Count sendcount, MPI_Datatype sendtype)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    bool sends = root >= 0 && (c->inter || root != c->peers->me) && sendbuf != MPI_IN_PLACE;
    uint64_t bytes = sends ? message_size(sendcount, sendtype) : 0;
    if (c->inter) {
        inter_add(sink, KIND_GATHERV, c, root, bytes);
        return;
    }
    if (bytes)
        pair_add(sink, KIND_GATHERV, c, root, bytes);
    direct_add(sink, KIND_GATHERV, c, root, bytes);
}

/* Counts one message per non-empty block, except this rank's own; returns the bytes contributed. */
static uint64_t blocks_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c,
                           struct hopbyte_counts counts, const MPI_Datatype *types, MPI_Datatype type)
{
    uint64_t total = 0;
    for (int i = 0; i < c->peers->size; i++) {
        uint64_t count = count_at(counts, i);
        uint64_t bytes = count ? count * hopbyte_type_size(types ? types[i] : type) : 0;
        total += bytes;
        if (bytes && (c->inter || i != c->peers->me))
            pair_add(sink, kind, c, i, bytes);
    }
    return total;
}

void hopbyte_collective_scatterv(struct hopbyte_sink *sink, MPI_Comm comm, int root, struct hopbyte_counts counts,
                                 MPI_Datatype sendtype)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    bool sends = c->inter ? root == MPI_ROOT : root == c->peers->me;
    uint64_t bytes = sends ? blocks_add(sink, KIND_SCATTERV, c, counts, NULL, sendtype) : 0;
    direct_add(sink, KIND_SCATTERV, c, root, bytes);
}

/* Every member knows all blocks; their sum is the size. */
void hopbyte_collective_allgatherv(struct hopbyte_sink *sink, MPI_Comm comm, MPI_Count sendcount,
                                   MPI_Datatype sendtype, struct hopbyte_counts counts, MPI_Datatype recvtype)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    if (c->inter) { /* counts describe the remote group, hence received bytes */
        inter_add(sink, KIND_ALLGATHERV, c, RANK_OUTSIDE, message_size(sendcount, sendtype));
        return;
    }
    uint64_t total = counts_sum(counts, c->local->size), width = total ? hopbyte_type_size(recvtype) : 0;
    hopbyte_sink_collective(sink, CLASS_CALL, KIND_ALLGATHERV, c, RANK_OUTSIDE, total * width,
                            count_at(counts, c->local->me) * width);
}

void hopbyte_collective_alltoallv(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm,
                                  struct hopbyte_counts counts, const MPI_Datatype *types, MPI_Datatype type)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    uint64_t bytes = blocks_add(sink, kind, c, counts, types, type);
    direct_add(sink, kind, c, RANK_OUTSIDE, bytes);
}

/* Counts are the same at every member, and so is their sum, the size. */
void hopbyte_collective_reduce_scatter(struct hopbyte_sink *sink, MPI_Comm comm, struct hopbyte_counts counts,
                                       MPI_Datatype type)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    uint64_t total = counts_sum(counts, c->local->size), width = total ? hopbyte_type_size(type) : 0;
    if (c->inter)
        inter_add(sink, KIND_REDUCE_SCATTER, c, RANK_OUTSIDE, total * width);
    else
        hopbyte_sink_collective(sink, CLASS_CALL, KIND_REDUCE_SCATTER, c, RANK_OUTSIDE, total * width,
                                count_at(counts, c->local->me) * width);
}

static uint64_t neighbor_add(struct hopbyte_sink *sink, enum hopbyte_kind kind, const struct hopbyte_comm *c, int i,
                             uint64_t bytes)
{
    if (c->neighbors[i] < 0) /* MPI_PROC_NULL: the edge of a grid that is not periodic */
        return 0;
    pair_add(sink, kind, c, c->neighbors[i], bytes);
    return bytes;
}

void hopbyte_collective_neighbor(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm, MPI_Count count,
                                 MPI_Datatype type)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    hopbyte_neighbors_learn(c, comm);
    uint64_t total = 0, bytes = message_size(count, type);
    for (int i = 0; i < c->neighbor_count; i++)
        total += neighbor_add(sink, kind, c, i, bytes);
    direct_add(sink, kind, c, RANK_OUTSIDE, total);
}

void hopbyte_collective_neighborv(struct hopbyte_sink *sink, enum hopbyte_kind kind, MPI_Comm comm,
                                  struct hopbyte_counts counts, const MPI_Datatype *types, MPI_Datatype type)
{
    struct hopbyte_comm *c = hopbyte_comm_find(comm);
    if (!c)
        return;
    hopbyte_neighbors_learn(c, comm);
    uint64_t total = 0;
    for (int i = 0; i < c->neighbor_count; i++)
        total += neighbor_add(sink, kind, c, i, message_size((MPI_Count)count_at(counts, i), types ? types[i] : type));
    direct_add(sink, kind, c, RANK_OUTSIDE, total);
}
