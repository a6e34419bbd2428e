/* Nanoseconds of one message of 8 bytes to oneself (Irecv, Send, Wait): pure software in one process, so that the
 * overhead of a preload library on the one recorded call is visible. Prints the smallest and the median of many
 * batches. `memory`: an allocation of 64 bytes and its release instead.
 *   overhead BATCHES [threads|memory] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 500 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double allocations(void)
{
    double start = MPI_Wtime();
    for (int i = 0; i < CALLS; i++) {
        void *memory;
        MPI_Alloc_mem(64, MPI_INFO_NULL, &memory);
        MPI_Free_mem(memory);
    }
    return (MPI_Wtime() - start) / CALLS * 1e9;
}

static double messages(int rank)
{
    long out = 0, in;
    MPI_Request request;
    double start = MPI_Wtime();
    for (int i = 0; i < CALLS; i++) {
        MPI_Irecv(&in, 1, MPI_LONG, rank, 1, MPI_COMM_WORLD, &request);
        MPI_Send(&out, 1, MPI_LONG, rank, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return (MPI_Wtime() - start) / CALLS * 1e9;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "";
    int rank, provided, threads = strcmp(mode, "threads") == 0, memory = strcmp(mode, "memory") == 0;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int batches = argc > 1 ? atoi(argv[1]) : 2000;
    double *times = calloc((size_t)batches, sizeof *times);
    for (int i = 0; times && i < batches; i++)
        times[i] = memory ? allocations() : messages(rank);
    qsort(times, (size_t)batches, sizeof *times, compare);
    printf("%.2f %.2f\n", times[0], times[batches / 2]);
    free(times);
    MPI_Finalize();
    return 0;
}
