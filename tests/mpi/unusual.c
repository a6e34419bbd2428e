/* Legal uses of MPI that a trace must keep in an order which can be run again: unusual KIND[+KIND…]. For an even number of
 * ranks. Every rank has a ring of two neighbours. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 5, LARGE = 200000, SMALL = 400, THREADS = 4 };
#define WORLD MPI_COMM_WORLD
#define IGNORED MPI_STATUS_IGNORE

static int rank, size, after, before;
static char out[LARGE * THREADS], in[LARGE * THREADS];
static MPI_Comm copies[THREADS];

/* Dynamic sparse exchange: nobody knows how many messages come, and the barrier ends when all have been received. */
static void sparse(void)
{
    MPI_Request sends[2], barrier = MPI_REQUEST_NULL;
    int ended = 0, begun = 0;
    MPI_Issend(out, LARGE, MPI_CHAR, after, 1, WORLD, &sends[0]);
    MPI_Issend(out, SMALL, MPI_CHAR, (rank + 2) % size, 1, WORLD, &sends[1]);
    while (!ended) {
        int there, count, sent = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, WORLD, &there, &status);
        if (there) {
            MPI_Get_count(&status, MPI_CHAR, &count);
            MPI_Recv(in, count, MPI_CHAR, status.MPI_SOURCE, 1, WORLD, IGNORED);
        }
        if (begun) {
            MPI_Test(&barrier, &ended, IGNORED);
            continue;
        }
        MPI_Testall(2, sends, &sent, MPI_STATUSES_IGNORE);
        if (sent)
            MPI_Ibarrier(WORLD, &barrier);
        begun = sent;
    }
}

/* A barrier that begins on one side before the message, and on the other after it has been received. */
static void ahead(void)
{
    MPI_Request barrier;
    if (rank % 2 == 0) {
        MPI_Ibarrier(WORLD, &barrier);
        MPI_Recv(in, LARGE, MPI_CHAR, rank + 1, 2, WORLD, IGNORED);
    } else {
        MPI_Ssend(out, LARGE, MPI_CHAR, rank - 1, 2, WORLD);
        MPI_Ibarrier(WORLD, &barrier);
    }
    MPI_Wait(&barrier, IGNORED);
}

static void buffered(void)
{
    int room = 2 * LARGE + 2 * MPI_BSEND_OVERHEAD;
    void *buffer = malloc((size_t)room);
    MPI_Request request;
    MPI_Buffer_attach(buffer, room);
    MPI_Bsend(out, LARGE, MPI_CHAR, after, 3, WORLD);
    MPI_Ibsend(out, SMALL, MPI_CHAR, after, 4, WORLD, &request);
    MPI_Wait(&request, IGNORED);
    MPI_Recv(in, LARGE, MPI_CHAR, before, 3, WORLD, IGNORED);
    MPI_Recv(in, SMALL, MPI_CHAR, before, 4, WORLD, IGNORED);
    MPI_Buffer_detach(&buffer, &room);
    free(buffer);
}

static void cancelled(void)
{
    MPI_Request request;
    MPI_Irecv(in, SMALL, MPI_CHAR, MPI_ANY_SOURCE, 99, WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, IGNORED);
    MPI_Irecv(in, SMALL, MPI_CHAR, before, 98, WORLD, &request);
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    MPI_Recv_init(in, SMALL, MPI_CHAR, before, 97, WORLD, &request);
    MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, IGNORED);
    MPI_Request_free(&request);
}

static void freed(void)
{
    MPI_Request request;
    MPI_Isend(out, LARGE, MPI_CHAR, after, 5, WORLD, &request);
    MPI_Request_free(&request);
    MPI_Irecv(in, LARGE, MPI_CHAR, before, 5, WORLD, &request);
    MPI_Wait(&request, IGNORED);
    MPI_Barrier(WORLD);
}

/* Two groups: messages, and operations with roots on one side. */
static void groups(void)
{
    MPI_Comm half, both;
    int second = rank >= size / 2, me = rank % (size / 2);
    int root = !second ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL;
    char *all = malloc((size_t)size * SMALL);
    MPI_Comm_split(WORLD, second, rank, &half);
    MPI_Intercomm_create(half, 0, WORLD, second ? 0 : size / 2, 6, &both);
    if (second) {
        MPI_Send(out, LARGE, MPI_CHAR, me, 7, both);
        MPI_Recv(in, SMALL, MPI_CHAR, me, 8, both, IGNORED);
    } else {
        MPI_Recv(in, LARGE, MPI_CHAR, MPI_ANY_SOURCE, 7, both, IGNORED);
        MPI_Send(out, SMALL, MPI_CHAR, me, 8, both);
    }
    MPI_Bcast(out, SMALL, MPI_CHAR, root, both);
    MPI_Gather(out, SMALL, MPI_CHAR, all, SMALL, MPI_CHAR, root, both);
    MPI_Allgather(out, SMALL, MPI_CHAR, all, SMALL, MPI_CHAR, both);
    MPI_Barrier(both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
    free(all);
}

/* A ring of two in one dimension: the same neighbour on both sides. A gather to a root leaves no blocks behind. */
static void neighbours(void)
{
    MPI_Comm grid;
    int sides[2] = {size / 2, 2}, round[2] = {1, 1}, *counts = calloc((size_t)size * 4, sizeof *counts);
    int *places = counts + size, *none = counts + 2 * size;
    MPI_Cart_create(WORLD, 2, sides, round, 0, &grid);
    for (int i = 0; i < size; i++)
        places[i] = i * SMALL, counts[i] = SMALL;
    MPI_Gatherv(out, SMALL, MPI_CHAR, in, counts, places, MPI_CHAR, 0, WORLD);
    MPI_Neighbor_alltoall(out, SMALL, MPI_CHAR, in, SMALL, MPI_CHAR, grid);
    MPI_Gatherv(out, SMALL, MPI_CHAR, in, counts, places, MPI_CHAR, 0, WORLD);
    MPI_Alltoallv(out, none, none, MPI_CHAR, in, none, none, MPI_CHAR, WORLD);
    MPI_Comm_free(&grid);
    free(counts);
}

/* Others than the first sender must not be taken for it: each sends its data only after its header has been received. */
static void anybody(void)
{
    for (int turn = 0; turn < size - 1 && rank == 0; turn++) {
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(in, 1, MPI_CHAR, MPI_ANY_SOURCE, 9, WORLD, &request);
        MPI_Wait(&request, &status);
        MPI_Recv(in, LARGE, MPI_CHAR, status.MPI_SOURCE, 10, WORLD, IGNORED);
    }
    if (rank == 0)
        return;
    for (volatile int i = 0; i < (size - rank) * 300000; i++)
        ;
    MPI_Ssend(out, 1, MPI_CHAR, 0, 9, WORLD);
    MPI_Ssend(out, LARGE, MPI_CHAR, 0, 10, WORLD);
}

/* The receives of one turn end together, and must not be taken for those of the next: every sender waits for an answer, and
 * the last ones have made more calls before. */
static void several(void)
{
    int ready = rank * 10;
    for (int i = 0; i < ready; i++)
        MPI_Sendrecv(out, 1, MPI_CHAR, rank, 13, in, 1, MPI_CHAR, rank, 13, WORLD, IGNORED);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request *requests = malloc((size_t)size * sizeof *requests);
        for (int i = 0; i < size - 1 && rank == 0; i++)
            MPI_Irecv(in + i, 1, MPI_CHAR, MPI_ANY_SOURCE, 14, WORLD, &requests[i]);
        if (rank == 0)
            MPI_Waitall(size - 1, requests, MPI_STATUSES_IGNORE);
        for (int to = 1; to < size && rank == 0; to++)
            MPI_Send(out, 1, MPI_CHAR, to, 15, WORLD);
        if (rank > 0) {
            MPI_Ssend(out, 1, MPI_CHAR, 0, 14, WORLD);
            MPI_Recv(in, 1, MPI_CHAR, 0, 15, WORLD, IGNORED);
        }
        free(requests);
    }
}

/* Two messages are found before either is received. */
static void found(void)
{
    MPI_Request sends[2], request;
    MPI_Message large, small;
    MPI_Isend(out, LARGE, MPI_CHAR, after, 11, WORLD, &sends[0]);
    MPI_Isend(out, SMALL, MPI_CHAR, after, 12, WORLD, &sends[1]);
    MPI_Mprobe(MPI_ANY_SOURCE, 11, WORLD, &large, IGNORED);
    MPI_Mprobe(before, 12, WORLD, &small, IGNORED);
    MPI_Imrecv(in, SMALL, MPI_CHAR, &small, &request);
    MPI_Mrecv(in, LARGE, MPI_CHAR, &large, IGNORED);
    MPI_Wait(&request, IGNORED);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
}

/* The message on the copy must not be taken for the one on the world. */
static void copied(void)
{
    if (rank % 2 == 0) {
        MPI_Request request;
        MPI_Isend(out, LARGE, MPI_CHAR, rank + 1, 0, copies[0], &request);
        MPI_Ssend(out, SMALL, MPI_CHAR, rank + 1, 0, WORLD);
        MPI_Wait(&request, IGNORED);
        return;
    }
    MPI_Recv(in, SMALL, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, IGNORED);
    MPI_Recv(in, LARGE, MPI_CHAR, rank - 1, 0, copies[0], IGNORED);
}

static void *message(void *argument)
{
    int number = (int)(long)argument, tag = number % 2;
    char *mine = (number < 2 ? out : in) + number % 2 * LARGE;
    for (int turn = 0; turn < 20; turn++) {
        if (number < 2)
            MPI_Ssend(mine, LARGE, MPI_CHAR, tag ? after : before, 20 + tag, WORLD);
        else
            MPI_Recv(mine, LARGE, MPI_CHAR, tag ? before : after, 20 + tag, WORLD, IGNORED);
    }
    return NULL;
}

static void *collective(void *argument)
{
    int number = (int)(long)argument;
    double sum[8] = {0}, one[8] = {1};
    for (int turn = 0; turn < 20; turn++) {
        if ((turn + number) % 2)
            MPI_Allreduce(one, sum, 8, MPI_DOUBLE, MPI_SUM, copies[number]);
        else
            MPI_Bcast(sum, 8, MPI_DOUBLE, 0, copies[number]);
    }
    return NULL;
}

static void all_threads(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void run(const char *kind)
{
    static const struct {
        const char *name;
        void (*work)(void);
    } kinds[] = {{"sparse", sparse},     {"ahead", ahead},   {"buffered", buffered},     {"cancelled", cancelled},
                 {"freed", freed},       {"groups", groups}, {"neighbours", neighbours}, {"anybody", anybody},
                 {"found", found},       {"copied", copied}, {"several", several}};
    if (!strcmp(kind, "messages") || !strcmp(kind, "collectives")) {
        all_threads(*kind == 'm' ? message : collective);
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i].name)) {
            for (int turn = 0; turn < TURNS; turn++)
                kinds[i].work();
            return;
        }
    fprintf(stderr, "unusual: no kind %s\n", kind);
    MPI_Abort(WORLD, 2);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (argc < 2 || provided != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "unusual: needs a kind and MPI_THREAD_MULTIPLE\n");
        MPI_Abort(WORLD, 2);
    }
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    after = (rank + 1) % size;
    before = (rank + size - 1) % size;
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(WORLD, &copies[i]);
    for (char *kind = strtok(argv[1], "+"); kind; kind = strtok(NULL, "+")) {
        run(kind);
        MPI_Barrier(WORLD); /* receives from any source take no message of another kind */
    }
    MPI_Finalize();
    return 0;
}
