/* THREADS threads of every rank send SENDS messages each to every rank, all at once: threads THREADS SENDS. Every other
 * thread ends after its sends, the rest after MPI_Finalize. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size, sends, threads;
static pthread_barrier_t sent, finalized;

static void *work(void *argument)
{
    int tag = (int)(long)argument;
    MPI_Datatype pair;
    for (int i = 0; i < sends; i++) {
        MPI_Type_contiguous(2, MPI_INT, &pair); /* handles are freed all the time */
        MPI_Type_commit(&pair);
        for (int to = 0; to < size; to++) {
            int out[8] = {0}, in[8];
            MPI_Request request;
            MPI_Irecv(in, 8, MPI_INT, (rank + size - to) % size, tag, MPI_COMM_WORLD, &request);
            MPI_Send(out, 1 + tag % 4, pair, (rank + to) % size, tag, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Type_free(&pair);
    }
    pthread_barrier_wait(&sent);
    if (tag % 2)
        pthread_barrier_wait(&finalized);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE || argc < 3) {
        fprintf(stderr, "threads: needs MPI_THREAD_MULTIPLE and two arguments\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    threads = atoi(argv[1]);
    sends = atoi(argv[2]);
    pthread_t *all = calloc((size_t)threads, sizeof *all);
    pthread_barrier_init(&sent, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&finalized, NULL, (unsigned)threads / 2 + 1);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, work, (void *)(long)i);
    pthread_barrier_wait(&sent);
    for (int i = 0; i < threads; i += 2)
        pthread_join(all[i], NULL);
    MPI_Finalize();
    pthread_barrier_wait(&finalized);
    for (int i = 1; i < threads; i += 2)
        pthread_join(all[i], NULL);
    free(all);
    return 0;
}
