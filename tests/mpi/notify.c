/* notify MODE THREADS ROUNDS: notified puts between the ranks; prints a line of figures, or the first wrong result and
 * ends with 1.
 *   strict   threads of rank 0 and 1 in pairs, ROUNDS round trips: signal and data exactly those of the round
 *   stream   ring of ranks, puts up to four rounds ahead of the receiver's signals
 *   fanin    all threads of all ranks add to one counter of rank 0, and to one of their own
 *   alone    one rank, its threads in pairs (for the thread checks)
 *   errors   wrong arguments of every call
 *   fatal    a wrong target under the default error handler
 *   late     a signal that never comes */
#include "hopbyte_notify.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 32, AHEAD = 4, THREADS_MOST = 64 };

static int rank, size, threads;
static long rounds;
static uint64_t *memory;
static hopbyte_notify_t notify;
static pthread_barrier_t start;
static const char *mode;

static void wrong(const char *what, int thread, long round, uint64_t found, uint64_t expected)
{
    printf("%s: rank %d thread %d round %ld: %s: found %llu, expected %llu\n", mode, rank, thread, round, what,
           (unsigned long long)found, (unsigned long long)expected);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int code)
{
    if (code != MPI_SUCCESS)
        wrong(hopbyte_notify_reason(), -1, -1, (uint64_t)code, MPI_SUCCESS);
}

/* Payload of a round: its first word says how many follow that count. Lengths vary with the round. */
static int words_of(long round)
{
    return 1 + (int)((unsigned long)round * 7 % (WORDS - 1));
}

static void fill(uint64_t *out, int from, int thread, long round)
{
    for (int i = 0; i < words_of(round); i++)
        out[i] = ((uint64_t)from << 56) + ((uint64_t)thread << 48) + ((uint64_t)round << 8) + (uint64_t)i;
}

static void check(const uint64_t *in, int from, int thread, long round)
{
    uint64_t expected[WORDS];
    fill(expected, from, thread, round);
    for (int i = 0; i < words_of(round); i++)
        if (__atomic_load_n(&in[i], __ATOMIC_RELAXED) != expected[i])
            wrong("data", thread, round, in[i], expected[i]);
}

static void send(int to, int thread, int signal, long round, int slot)
{
    uint64_t out[WORDS];
    fill(out, rank, thread, round);
    must(hopbyte_notify_put_signal(notify, out, words_of(round) * 8, to, (MPI_Aint)slot * WORDS * 8, signal, 1));
}

static void receive(int from, int thread, int signal, long round, int slot, int exact)
{
    uint64_t value = 0;
    if (round % 3) {
        must(hopbyte_notify_wait(notify, signal, (uint64_t)round, &value));
    } else {
        for (int flag = 0; !flag;) {
            must(hopbyte_notify_test(notify, signal, (uint64_t)round, &flag, &value));
            if (!flag)
                sched_yield();
        }
    }
    if (exact ? value != (uint64_t)round : value < (uint64_t)round)
        wrong("signal", thread, round, value, (uint64_t)round);
    check(memory + (size_t)slot * WORDS, from, thread, round);
}

static void *strict(void *number)
{
    int t = (int)(long)number;
    pthread_barrier_wait(&start);
    for (long i = 1; i <= rounds && rank < 2; i++) {
        if (rank == 0)
            send(1, t, t, i, t);
        receive(1 - rank, t, t, i, t, 1);
        if (rank == 1)
            send(0, t, t, i, t);
    }
    return NULL;
}

/* Signals: t is data from the left, threads + t says how many rounds the right has taken. */
static void *stream(void *number)
{
    int t = (int)(long)number, right = (rank + 1) % size, left = (rank + size - 1) % size;
    pthread_barrier_wait(&start);
    for (long i = 1; i <= rounds; i++) {
        if (i > AHEAD)
            must(hopbyte_notify_wait(notify, threads + t, (uint64_t)(i - AHEAD), NULL));
        send(right, t, t, i, t * AHEAD + (int)(i % AHEAD));
        receive(left, t, t, i, t * AHEAD + (int)(i % AHEAD), 0);
        must(hopbyte_notify_signal(notify, left, threads + t, 1));
    }
    return NULL;
}

static void *fanin(void *number)
{
    int t = (int)(long)number;
    pthread_barrier_wait(&start);
    for (long i = 1; i <= rounds; i++) {
        uint64_t out = (uint64_t)i;
        must(hopbyte_notify_put(notify, &out, 8, 0, ((MPI_Aint)rank * threads + t) * 8));
        must(hopbyte_notify_signal(notify, 0, 0, (uint64_t)(rank + 1)));
    }
    return NULL;
}

static void fanin_check(void)
{
    uint64_t value, expected = (uint64_t)rounds * (uint64_t)threads * (uint64_t)(size * (size + 1) / 2);
    if (rank != 0)
        return;
    must(hopbyte_notify_wait(notify, 0, expected, &value));
    MPI_Barrier(MPI_COMM_WORLD);
    must(hopbyte_notify_wait(notify, 0, 0, &value));
    if (value != expected)
        wrong("signals of all", 0, rounds, value, expected);
    for (int i = 0; i < size * threads; i++)
        if (memory[i] != (uint64_t)rounds)
            wrong("data of one", i, rounds, memory[i], (uint64_t)rounds);
}

/* Threads 2k and 2k+1 of the one rank. */
static void *alone(void *number)
{
    int t = (int)(long)number, other = t ^ 1;
    pthread_barrier_wait(&start);
    for (long i = 1; i <= rounds; i++) {
        if (t < other)
            send(0, t, other, i, other);
        receive(0, other, t, i, t, 1);
        if (t > other)
            send(0, t, other, i, other);
    }
    return NULL;
}

static int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

static void expect(const char *what, int code, int class, const char *text)
{
    if (class_of(code) != class || !strstr(hopbyte_notify_reason(), text)) {
        printf("errors: %s: found class %d (%s), expected %d (%s)\n", what, class_of(code), hopbyte_notify_reason(), class,
               text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
#define EXPECT(call, class, text) expect(#call, call, class, text)

static void errors(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    hopbyte_notify_t n, none = NULL;
    int flag;
    char byte = 7;
    void *base;
    EXPECT(hopbyte_notify_create(rank ? 8 : -1, 2, MPI_INFO_NULL, comm, &base, &n), MPI_ERR_SIZE, "found -1 bytes");
    EXPECT(hopbyte_notify_create(8, 0, MPI_INFO_NULL, comm, &base, &n), MPI_ERR_ARG, "found 0 signals");
    EXPECT(hopbyte_notify_create(8, rank ? 2 : 3, MPI_INFO_NULL, comm, &base, &n), MPI_ERR_ARG, "found 2 to 3 signals");
    EXPECT(hopbyte_notify_create(8, 2, MPI_INFO_NULL, comm, NULL, &n), MPI_ERR_ARG, "found no place");
    EXPECT(hopbyte_notify_create(8, 2, MPI_INFO_NULL, comm, &base, NULL), MPI_ERR_ARG, "found no place");
    EXPECT(hopbyte_notify_free(&none), MPI_ERR_ARG, "found no handle");
    EXPECT(hopbyte_notify_signal(none, 0, 0, 1), MPI_ERR_ARG, "found no handle");
    must(hopbyte_notify_create(8 * (rank + 1), 2, MPI_INFO_NULL, comm, &base, &n));
    EXPECT(hopbyte_notify_put(n, &byte, 1, size, 0), MPI_ERR_RANK, "found target");
    EXPECT(hopbyte_notify_put(n, &byte, 1, -77, 0), MPI_ERR_RANK, "found target -77");
    EXPECT(hopbyte_notify_put(n, &byte, -1, 0, 0), MPI_ERR_SIZE, "found -1 bytes");
    EXPECT(hopbyte_notify_put(n, NULL, 1, 0, 0), MPI_ERR_BUFFER, "found no buffer for 1 bytes");
    EXPECT(hopbyte_notify_put(n, &byte, 1, 0, 8), MPI_ERR_RMA_RANGE, "within the 8 of rank 0");
    EXPECT(hopbyte_notify_put(n, &byte, 1, 1, 16), MPI_ERR_RMA_RANGE, "within the 16 of rank 1");
    EXPECT(hopbyte_notify_put(n, &byte, 1, 0, -1), MPI_ERR_RMA_RANGE, "1 bytes at -1");
    EXPECT(hopbyte_notify_put(n, &byte, INT64_MAX, 0, 1), MPI_ERR_RMA_RANGE, "within the 8");
    EXPECT(hopbyte_notify_put_signal(n, &byte, 1, 0, 0, 2, 1), MPI_ERR_ARG, "found signal 2, expected 0 to 1");
    EXPECT(hopbyte_notify_signal(n, 0, -1, 1), MPI_ERR_ARG, "found signal -1");
    EXPECT(hopbyte_notify_signal(n, 0, 0, 0), MPI_ERR_ARG, "adds 0");
    EXPECT(hopbyte_notify_wait(n, 2, 0, NULL), MPI_ERR_ARG, "found signal 2");
    EXPECT(hopbyte_notify_test(n, 0, 0, NULL, NULL), MPI_ERR_ARG, "no place for the flag");
    must(hopbyte_notify_put_signal(n, NULL, 0, rank, 8 * (rank + 1), 1, 5));
    must(hopbyte_notify_put_signal(n, &byte, 1, MPI_PROC_NULL, -5, 9, 0));
    uint64_t value;
    must(hopbyte_notify_test(n, 1, 6, &flag, &value));
    if (flag || value != 5 || *(char *)base)
        wrong("nothing but the signal", 0, 0, value, 5);
    must(hopbyte_notify_free(&n));
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void *(*work)(void *);
    } modes[] = {{"strict", strict}, {"stream", stream}, {"fanin", fanin}, {"alone", alone}};
    int provided;
    void *(*work)(void *) = NULL;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mode = argc > 1 ? argv[1] : "";
    threads = argc > 2 ? atoi(argv[2]) : 1;
    rounds = argc > 3 ? atol(argv[3]) : 1;
    if (provided < MPI_THREAD_MULTIPLE || threads < 1 || threads > THREADS_MOST)
        wrong("thread level", threads, 0, (uint64_t)provided, MPI_THREAD_MULTIPLE);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].name) == 0)
            work = modes[i].work;
    if (strcmp(mode, "errors") == 0)
        errors();
    int slots = threads * AHEAD > size * threads ? threads * AHEAD : size * threads;
    must(hopbyte_notify_create((MPI_Aint)slots * WORDS * 8, 2 * threads, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                               &notify));
    if (strcmp(mode, "fatal") == 0)
        hopbyte_notify_signal(notify, size, 0, 1);
    if (strcmp(mode, "late") == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* too late for the handle */
        hopbyte_notify_wait(notify, 1, 3, NULL);
    }
    pthread_t ids[THREADS_MOST];
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (long t = 0; work && t < threads; t++)
        pthread_create(&ids[t], NULL, work, (void *)t);
    for (int t = 0; work && t < threads; t++)
        pthread_join(ids[t], NULL);
    double seconds = MPI_Wtime() - begun;
    if (strcmp(mode, "fanin") == 0) {
        fanin_check();
        if (rank != 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    must(hopbyte_notify_free(&notify));
    if (rank == 0)
        printf("right %.3f us\n", seconds / (double)rounds * 1e6);
    MPI_Finalize();
    return 0;
}
