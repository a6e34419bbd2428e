/* Known traffic, one kind at a time: traffic KIND[+KIND…] REPETITIONS. Every kind works on any number of ranks >= 2.
 * COLLECTIVE@COUNT is that collective of so many doubles (the vector, or each block) in a phase of its own. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static int rank, size, repetitions;
enum { ROOM = 1 << 16 };
static char out[ROOM], in[ROOM];

/* All blocking and nonblocking sends to the right neighbour, sizes that depend on the rank. */
static void sends(MPI_Comm comm)
{
    int me, n, bytes = 3 * rank + 5;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    int right = (me + 1) % n, left = (me + n - 1) % n;
    char buffer[4 * (ROOM / 64 + MPI_BSEND_OVERHEAD)];
    void *detached;
    int detached_size;
    MPI_Request request, receive;
    MPI_Buffer_attach(buffer, sizeof buffer);
    for (int kind = 0; kind < 8; kind++) {
        MPI_Irecv(in, ROOM, MPI_BYTE, left, kind, comm, &receive);
        MPI_Barrier(comm); /* ready sends need the receive to be there */
        request = MPI_REQUEST_NULL;
        switch (kind) {
        case 0: MPI_Send(out, bytes, MPI_BYTE, right, kind, comm); break;
        case 1: MPI_Bsend(out, bytes, MPI_BYTE, right, kind, comm); break;
        case 2: MPI_Issend(out, bytes, MPI_BYTE, right, kind, comm, &request); break;
        case 3: MPI_Rsend(out, bytes, MPI_BYTE, right, kind, comm); break;
        case 4: MPI_Isend(out, bytes, MPI_INT, right, kind, comm, &request); break;
        case 5: MPI_Ibsend(out, bytes, MPI_BYTE, right, kind, comm, &request); break;
        case 6: MPI_Irsend(out, bytes, MPI_DOUBLE, right, kind, comm, &request); break;
        case 7: MPI_Ssend(out, bytes, MPI_BYTE, right, kind, comm); break;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    MPI_Buffer_detach(&detached, &detached_size);
}

static void point(void)
{
    sends(MPI_COMM_WORLD);
    /* a reversed communicator, and one of the odd and even ranks */
    MPI_Comm reversed, half;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    sends(reversed);
    int me, n;
    MPI_Comm_rank(half, &me);
    MPI_Comm_size(half, &n);
    MPI_Sendrecv(out, 11, MPI_SHORT, (me + 1) % n, 0, in, 22, MPI_BYTE, (me + n - 1) % n, 0, half, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(out, 7, MPI_DOUBLE, (me + 1) % n, 0, (me + n - 1) % n, 0, half, MPI_STATUS_IGNORE);
    /* MPI_PROC_NULL, empty messages, messages to oneself */
    MPI_Send(out, 100, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Request request;
    MPI_Irecv(in, ROOM, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, 13, MPI_BYTE, rank, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(in, ROOM, MPI_BYTE, 0, 2, MPI_COMM_SELF, &request);
    MPI_Send(out, 17, MPI_BYTE, 0, 2, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 0, MPI_BYTE, (rank + 1) % size, 3, in, 0, MPI_BYTE, (rank + size - 1) % size, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
}

/* Derived types of the same handle value, freed and made again with another size. */
static void types(void)
{
    for (int n = 1; n <= 20; n++) {
        MPI_Datatype vector;
        MPI_Type_vector(n, 2, 4, MPI_INT, &vector);
        MPI_Type_commit(&vector);
        MPI_Sendrecv(out, 3, vector, (rank + 1) % size, n, in, ROOM, MPI_BYTE, (rank + size - 1) % size, n,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&vector);
    }
}

/* Communicators of the same handle value and other members. */
static void communicators(void)
{
    for (int n = 1; n < size; n++) {
        MPI_Comm part;
        int me, members;
        MPI_Comm_split(MPI_COMM_WORLD, rank < n, rank * (n % 2 ? 1 : -1), &part);
        MPI_Comm_rank(part, &me);
        MPI_Comm_size(part, &members);
        MPI_Sendrecv(out, n, MPI_BYTE, (me + 1) % members, n, in, ROOM, MPI_BYTE, (me + members - 1) % members, n, part,
                     MPI_STATUS_IGNORE);
        MPI_Comm_free(&part);
    }
}

static void persistent(void)
{
    MPI_Request requests[4];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Send_init(out, 10, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Ssend_init(out, 9, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv_init(in, 10, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Recv_init(in + 1024, 9, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[3]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(4, requests);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Start(&requests[2]);
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
}

static void collective(const char *kind)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int root = size > 2 ? 2 : 0, *counts = calloc((size_t)size, sizeof *counts), *places = calloc((size_t)size, sizeof *places),
        *mine = calloc((size_t)size, sizeof *mine), *theirs = calloc((size_t)size, sizeof *theirs);
    for (int i = 0, at = 0; i < size; at += counts[i], i++) {
        counts[i] = i % 3 ? 2 * i : 0;
        places[i] = at;
        mine[i] = (rank + i) % 3 ? rank + 2 * i : 0;
        theirs[i] = (rank + i) % 3 ? i + 2 * rank : 0;
    }
#define IS(name) (strcmp(kind, name) == 0)
    if (IS("barrier")) MPI_Barrier(comm);
    else if (IS("bcast")) MPI_Bcast(out, 100, MPI_INT, root, comm);
    else if (IS("reduce")) MPI_Reduce(out, in, 25, MPI_DOUBLE, MPI_SUM, root, comm);
    else if (IS("allreduce")) MPI_Allreduce(out, in, 25, MPI_DOUBLE, MPI_SUM, comm);
    else if (IS("scan")) MPI_Scan(out, in, 3, MPI_INT, MPI_SUM, comm);
    else if (IS("exscan")) MPI_Exscan(out, in, 3, MPI_INT, MPI_SUM, comm);
    else if (IS("gather")) MPI_Gather(out, 6, MPI_INT, in, 6, MPI_INT, root, comm);
    else if (IS("gatherv")) MPI_Gatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, root, comm);
    else if (IS("scatter")) MPI_Scatter(out, 6, MPI_INT, in, 6, MPI_INT, root, comm);
    else if (IS("scatterv")) MPI_Scatterv(out, counts, places, MPI_INT, in, counts[rank], MPI_INT, root, comm);
    else if (IS("allgather")) MPI_Allgather(out, 6, MPI_INT, in, 6, MPI_INT, comm);
    else if (IS("allgatherv")) MPI_Allgatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, comm);
    else if (IS("alltoall")) MPI_Alltoall(out, 6, MPI_INT, in, 6, MPI_INT, comm);
    else if (IS("alltoallv")) {
        int *at = calloc((size_t)size, sizeof *at);
        MPI_Alltoallv(out, mine, at, MPI_BYTE, in, theirs, at, MPI_BYTE, comm);
        free(at);
    } else if (IS("alltoallw")) {
        int *at = calloc((size_t)size, sizeof *at);
        MPI_Datatype *all = calloc((size_t)size, sizeof *all);
        for (int i = 0; i < size; i++)
            all[i] = MPI_SHORT;
        MPI_Alltoallw(out, mine, at, all, in, theirs, at, all, comm);
        free(at);
        free(all);
    } else if (IS("reduce_scatter")) MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm);
    else if (IS("reduce_scatter_block")) MPI_Reduce_scatter_block(out, in, 5, MPI_INT, MPI_SUM, comm);
    else if (IS("in_place")) {
        if (rank == root) MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 6, MPI_INT, root, comm);
        else MPI_Gather(out, 6, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, comm);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 6, MPI_INT, comm);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 6, MPI_INT, comm);
        MPI_Allreduce(MPI_IN_PLACE, in, 5, MPI_INT, MPI_SUM, comm);
    } else if (IS("ibcast")) {
        MPI_Request request;
        MPI_Ibcast(out, 100, MPI_INT, root, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        fprintf(stderr, "traffic: unknown kind %s\n", kind);
        MPI_Abort(comm, 2);
    }
    free(counts);
    free(places);
    free(mine);
    free(theirs);
}

static void grid_neighbors(void)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0}, counts[4] = {1, 2, 3, 4}, places[4] = {0, 8, 16, 32};
    static MPI_Comm grid = MPI_COMM_NULL; /* created once: its creation sends internal messages of the library */
    if (grid == MPI_COMM_NULL) {
        MPI_Dims_create(size, 2, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    }
    MPI_Neighbor_alltoall(out, 5, MPI_INT, in, 5, MPI_INT, grid);
    MPI_Neighbor_allgather(out, 3, MPI_INT, in, 3, MPI_INT, grid);
    int places_in[4] = {0, 8, 16, 32}, counts_in[4] = {2, 1, 4, 3};
    MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, counts_in, places_in, MPI_INT, grid);
}

static void graph_neighbors(void)
{
    MPI_Comm ring;
    int to[2] = {(rank + 1) % size, (rank + 2) % size}, from[2] = {(rank + size - 1) % size, (rank + 2 * size - 2) % size};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &ring);
    int counts[2] = {4, 8}, places[2] = {0, 16};
    MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, ring);
    MPI_Comm_free(&ring);
}

static void one_sided(void)
{
    MPI_Win win;
    char *base;
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, reversed, &base, &win);
    int me;
    MPI_Comm_rank(reversed, &me);
    int right = (me + 1) % size, left = (me + size - 1) % size;
    long one = 1, old, compare = 0;
    MPI_Win_fence(0, win);
    MPI_Put(out, 10 + rank, MPI_INT, right, 0, 10 + rank, MPI_INT, win);
    MPI_Put(out, 10, MPI_INT, MPI_PROC_NULL, 0, 10, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Get(in, 20 + rank, MPI_BYTE, left, 0, 20 + rank, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(out, 3, MPI_LONG, left, 1024, 3, MPI_LONG, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Win_lock_all(0, win);
    MPI_Get_accumulate(out, 4, MPI_LONG, in, 4, MPI_LONG, right, 2048, 4, MPI_LONG, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, left, 0, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Compare_and_swap(&one, &compare, &old, MPI_LONG, left, 0, win);
    MPI_Win_flush_all(win);
    MPI_Request request;
    MPI_Rput(out, 9, MPI_BYTE, right, 3000, 9, MPI_BYTE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&reversed);
}

/* Point to point and collectives between the lower and the upper half. */
static void between(void)
{
    MPI_Comm half, inter;
    int low = rank < size / 2, bytes = 8;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? size / 2 : 0, 7, &inter);
    int me, others;
    MPI_Comm_rank(half, &me);
    MPI_Comm_remote_size(inter, &others);
    if (me < others && me < size / 2)
        MPI_Sendrecv(out, bytes + rank, MPI_BYTE, me, 0, in, ROOM, MPI_BYTE, me, 0, inter, MPI_STATUS_IGNORE);
    MPI_Bcast(out, 10, MPI_BYTE, low ? (me == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void regions(void)
{
    extern void hopbyte_region_begin(const char *) __attribute__((weak));
    extern void hopbyte_region_end(void) __attribute__((weak));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
#define EXCHANGE(bytes)                                                                                                \
    MPI_Sendrecv(out, bytes, MPI_BYTE, right, 0, in, ROOM, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    EXCHANGE(1);
    if (hopbyte_region_begin) hopbyte_region_begin("solve");
    EXCHANGE(2);
    if (hopbyte_region_begin) hopbyte_region_begin("halo");
    EXCHANGE(4);
    if (hopbyte_region_end) hopbyte_region_end();
    EXCHANGE(8);
    if (hopbyte_region_end) hopbyte_region_end();
    MPI_Pcontrol(0);
    EXCHANGE(1000); /* paused */
    MPI_Pcontrol(1);
    EXCHANGE(16);
    MPI_Pcontrol(2);
    EXCHANGE(32);
    MPI_Pcontrol(3);
    EXCHANGE(64);
    MPI_Pcontrol(-3);
    EXCHANGE(128);
}

/* More destinations and phases than a small table holds. */
static void many(void)
{
    for (int phase = 2; phase < 300; phase++) {
        MPI_Pcontrol(phase);
        for (int to = 0; to < size; to++)
            MPI_Sendrecv(out, phase, MPI_BYTE, (rank + to) % size, 0, in, ROOM, MPI_BYTE, (rank + size - to) % size, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(out, in, phase, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }
    MPI_Pcontrol(-2);
}

/* The same, nonblocking. False for other kinds. */
static bool begun(const char *kind, int count, int root, double *a, double *b, const int *counts, const int *places)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request request;
    if (strncmp(kind, "ibcast@", 7) == 0) MPI_Ibcast(a, count, MPI_DOUBLE, root, comm, &request);
    else if (strncmp(kind, "ireduce@", 8) == 0) MPI_Ireduce(a, b, count, MPI_DOUBLE, MPI_SUM, root, comm, &request);
    else if (strncmp(kind, "iallreduce_in_place@", 20) == 0) MPI_Iallreduce(MPI_IN_PLACE, b, count, MPI_DOUBLE, MPI_SUM, comm, &request);
    else if (strncmp(kind, "iallreduce@", 11) == 0) MPI_Iallreduce(a, b, count, MPI_DOUBLE, MPI_SUM, comm, &request);
    else if (strncmp(kind, "igather@", 8) == 0)
        MPI_Igather(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, root, comm, &request);
    else if (strncmp(kind, "iscatter@", 9) == 0)
        MPI_Iscatter(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, root, comm, &request);
    else if (strncmp(kind, "iallgather@", 11) == 0)
        MPI_Iallgather(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, comm, &request);
    else if (strncmp(kind, "iallgatherv@", 12) == 0)
        MPI_Iallgatherv(a, count, MPI_DOUBLE, b, counts, places, MPI_DOUBLE, comm, &request);
    else if (strncmp(kind, "ialltoall@", 10) == 0)
        MPI_Ialltoall(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, comm, &request);
    else if (strncmp(kind, "ireduce_scatter@", 16) == 0)
        MPI_Ireduce_scatter_block(a, b, count, MPI_DOUBLE, MPI_SUM, comm, &request);
    else if (strncmp(kind, "ireduce_scatter_v@", 18) == 0)
        MPI_Ireduce_scatter(a, b, counts, MPI_DOUBLE, MPI_SUM, comm, &request);
    else return false;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return true;
}

/* Phases are pcontrol-100, pcontrol-101, … in the order of the list. */
static void sized(const char *kind, int count)
{
    static int level = 100;
    MPI_Comm comm = MPI_COMM_WORLD;
    int root = size > 2 ? 2 : 0;
    size_t room = (size_t)count * (size_t)size;
    double *a = calloc(room + 1, sizeof *a), *b = calloc(room + 1, sizeof *b);
    int *counts = calloc((size_t)size, sizeof *counts), *places = calloc((size_t)size, sizeof *places);
    for (int i = 0; i < size; i++) {
        counts[i] = count;
        places[i] = i * count;
    }
    MPI_Pcontrol(level++);
    if (strncmp(kind, "barrier@", 8) == 0) MPI_Barrier(comm);
    else if (strncmp(kind, "bcast@", 6) == 0) MPI_Bcast(a, count, MPI_DOUBLE, root, comm);
    else if (strncmp(kind, "reduce@", 7) == 0) MPI_Reduce(a, b, count, MPI_DOUBLE, MPI_SUM, root, comm);
    else if (strncmp(kind, "allreduce@", 10) == 0) MPI_Allreduce(a, b, count, MPI_DOUBLE, MPI_SUM, comm);
    else if (strncmp(kind, "scan@", 5) == 0) MPI_Scan(a, b, count, MPI_DOUBLE, MPI_SUM, comm);
    else if (strncmp(kind, "gather@", 7) == 0) MPI_Gather(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, root, comm);
    else if (strncmp(kind, "scatter@", 8) == 0) MPI_Scatter(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, root, comm);
    else if (strncmp(kind, "allgather@", 10) == 0) MPI_Allgather(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, comm);
    else if (strncmp(kind, "alltoall@", 9) == 0) MPI_Alltoall(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, comm);
    else if (strncmp(kind, "reduce_scatter@", 15) == 0)
        MPI_Reduce_scatter_block(a, b, count, MPI_DOUBLE, MPI_SUM, comm);
    else if (strncmp(kind, "reduce_scatter_v@", 17) == 0) MPI_Reduce_scatter(a, b, counts, MPI_DOUBLE, MPI_SUM, comm);
    else if (strncmp(kind, "allgatherv@", 11) == 0)
        MPI_Allgatherv(a, count, MPI_DOUBLE, b, counts, places, MPI_DOUBLE, comm);
    else if (!begun(kind, count, root, a, b, counts, places)) MPI_Abort(comm, 2);
    free(counts);
    free(places);
    free(a);
    free(b);
}

/* One call of every size up to 599 bytes. */
static void sizes(void)
{
    for (int bytes = 1; bytes < 600; bytes++)
        MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
}

static void one_of(const char *kind)
{
    const char *count = strchr(kind, '@');
    if (count) {
        sized(kind, atoi(count + 1));
        return;
    }
    static const struct {
        const char *kind;
        void (*run)(void);
    } kinds[] = {{"point", point}, {"types", types}, {"communicators", communicators}, {"persistent", persistent},
                 {"grid", grid_neighbors}, {"graph", graph_neighbors}, {"rma", one_sided}, {"between", between},
                 {"regions", regions}, {"many", many}, {"sizes", sizes}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].kind) == 0) {
            kinds[i].run();
            return;
        }
    if (strcmp(kind, "nothing") != 0)
        collective(kind);
}

/* kind+kind+… */
static void all_of(const char *list)
{
    char copy[4096], *rest = copy, *kind;
    snprintf(copy, sizeof copy, "%s", list);
    while ((kind = strsep(&rest, "+")))
        one_of(kind);
}

/* Ends this process in the middle of a job, once all ranks have counted the same. */
static void end_by(const char *way)
{
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(500000);
    if (strcmp(way, "finalize") == 0)
        return;
    if (strcmp(way, "abort()") == 0) abort();
    else if (strcmp(way, "_exit") == 0) _exit(5);
    else if (strcmp(way, "_Exit") == 0) _Exit(6);
    else if (strcmp(way, "fault") == 0) *(volatile int *)(uintptr_t)16 = 1;
    else kill(getpid(), atoi(way)); /* a signal */
    sleep(60);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *kind = argc > 1 ? argv[1] : "point";
    repetitions = argc > 2 ? atoi(argv[2]) : 1;
    for (int i = 0; i < repetitions; i++)
        all_of(kind);
    if (argc > 3 && strcmp(argv[3], "abort") == 0 && rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (argc > 3 && strcmp(argv[3], "exit") == 0)
        exit(4); /* without MPI_Finalize */
    if (argc > 4 && strcmp(argv[3], "end") == 0)
        end_by(argc <= 5 || atoi(argv[5]) == rank ? argv[4] : "0"); /* signal 0 does nothing */
    MPI_Finalize();
    return 0;
}
