/* groups: reductions between two halves of the ranks, whose bytes are known by hand.
   naps, work: the last rank tests for a message of the first, which comes late, and naps or works for a millisecond in between.
   window: all ranks but the first wait for it at a fence; at the end it prints the seconds that this rank waited. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void groups(int rank, int size)
{
    double in[10] = {0}, out[10];
    int low = rank < size / 2, first;
    MPI_Comm half, both;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
    MPI_Comm_rank(half, &first);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? size / 2 : 0, 9, &both);
    MPI_Allreduce(in, out, 6, MPI_DOUBLE, MPI_SUM, both);
    MPI_Reduce_scatter_block(in, out, 2, MPI_DOUBLE, MPI_SUM, both);
    int root = !low ? 0 : first == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Reduce(in, out, 5, MPI_DOUBLE, MPI_SUM, root, both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static void window(int rank, int size)
{
    double *memory, one = 1, waited = 0;
    MPI_Win window;
    MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 4; i++) {
        if (rank == 0)
            usleep(250000);
        double begun = MPI_Wtime();
        MPI_Put(&one, 1, MPI_DOUBLE, (rank + 1) % size, 0, 1, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        waited += MPI_Wtime() - begun;
    }
    MPI_Win_free(&window);
    printf("waited %d %.3f\n", rank, waited);
}

static void tests(int rank, int size, int naps)
{
    char message[8] = {0};
    for (int i = 0; i < 4; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            usleep(250000);
        if (rank == 0)
            MPI_Send(message, 8, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD);
        if (rank < size - 1)
            continue;
        MPI_Request request;
        MPI_Irecv(message, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
        for (int ended = 0; !ended;) {
            MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
            if (naps)
                usleep(1000);
            for (double begun = MPI_Wtime(); !naps && MPI_Wtime() < begun + 1e-3;)
                ;
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *word = argc > 1 ? argv[1] : "window";
    if (!strcmp(word, "naps") || !strcmp(word, "work"))
        tests(rank, size, !strcmp(word, "naps"));
    else
        (!strcmp(word, "groups") ? groups : window)(rank, size);
    MPI_Finalize();
    return 0;
}
