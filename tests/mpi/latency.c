/* latency THREADS ROUNDS: as many pairs of threads of two ranks exchange messages; prints microseconds per message and
 * the time of the first thread to finish over that of the last. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, rounds;
static double seconds[64];
static pthread_barrier_t start;

static void *exchange(void *number)
{
    int t = (int)(long)number;
    char data[8] = {0};
    pthread_barrier_wait(&start);
    double begun = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        for (int way = 0; way < 2; way++)
            if (way == rank)
                MPI_Send(data, 8, MPI_BYTE, 1 - rank, 100 * way + t, MPI_COMM_WORLD);
            else
                MPI_Recv(data, 8, MPI_BYTE, 1 - rank, 100 * way + t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    seconds[t] = MPI_Wtime() - begun;
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, threads = argc > 2 ? atoi(argv[1]) : 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rounds = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t ids[64];
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    MPI_Barrier(MPI_COMM_WORLD);
    for (long t = 0; t < threads; t++)
        pthread_create(&ids[t], NULL, exchange, (void *)t);
    double least = 1e9, most = 0;
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        least = seconds[t] < least ? seconds[t] : least;
        most = seconds[t] > most ? seconds[t] : most;
    }
    if (rank == 0)
        printf("%.3f %.3f\n", most / rounds / 2 * 1e6, least / most);
    MPI_Finalize();
    return 0;
}
