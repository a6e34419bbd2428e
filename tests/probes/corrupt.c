/* Preloaded into a probe, corrupts rank 1's messages, so that tests see the damage reported: one byte of every large
 * enough message sent, of every result of a collective, of every put; gets are one element short.
 * HOPBYTE_CORRUPT_FROM=N leaves the first N calls alone (set-up, first messages). */
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int calls;

static int damages(MPI_Comm comm, long bytes) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    const char *from = getenv("HOPBYTE_CORRUPT_FROM");
    return rank == 1 && bytes >= 8 && atomic_fetch_add(&calls, 1) >= (from ? atoi(from) : 0);
}

static long size_of(int count, MPI_Datatype type) {
    int size;
    PMPI_Type_size(type, &size);
    return (long)count * size;
}

/* Sets the first eight bytes to a fixed value, so that corrupting twice does not restore them. */
static void damage(const void *buffer) {
    unsigned char *at = (unsigned char *)buffer;
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(0xa5 + i);
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    if (damages(comm, size_of(count, type)))
        damage(buffer);
    return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
    if (damages(comm, size_of(count, type)))
        damage(buffer);
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    int result = PMPI_Bcast(buffer, count, type, root, comm);
    if (damages(comm, size_of(count, type)))
        damage(buffer);
    return result;
}

int MPI_Alltoall(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                 MPI_Comm comm) {
    int result = PMPI_Alltoall(out, count, type, in, in_count, in_type, comm);
    if (damages(comm, size_of(in_count, in_type)))
        damage(in);
    return result;
}

int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    int result = PMPI_Allreduce(out, in, count, type, op, comm);
    if (type == MPI_DOUBLE && damages(comm, size_of(count, type)))
        damage(in);
    return result;
}

int MPI_Put(const void *buffer, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
            MPI_Datatype target_type, MPI_Win window) {
    if (damages(MPI_COMM_WORLD, size_of(count, type)) || target == 1)
        damage(buffer);
    return PMPI_Put(buffer, count, type, target, at, target_count, target_type, window);
}

int MPI_Get(void *buffer, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
            MPI_Datatype target_type, MPI_Win window) {
    return PMPI_Get(buffer, count - 1, type, target, at, target_count - 1, target_type, window);
}
