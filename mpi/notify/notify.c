/* Notified one-sided communication on MPI-3 RMA; semantics in hopbyte_notify.h.
 *
 * The window of a rank: a line of 64 bytes for each signal, then the program's memory. */
#define _GNU_SOURCE
#include "hopbyte_notify.h"

#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    LINE = 64,            /* bytes a signal: no two share a line of the cache */
    WINDOW_LEAST = 4096,  /* MPICH 4 misplaces data in windows of a few bytes */
    PIECE = 1 << 30,      /* most bytes of one MPI_Put */
    /* Looks before yielding: with a processor for each waiting thread of the host, and with fewer. */
    SPINS_ALONE = 2000, SPINS_SHARED = 100,
    SPINS_PER_CALL = 100, /* of them, looks per call of MPI */
    YIELDS = 2,           /* looks before sleeping: yielding does not help those on other processors */
    NAP_FIRST = 5, NAP_LAST = 20 /* microseconds, to which the kernel adds some 50 */
};

struct hopbyte_notify {
    MPI_Comm comm; /* with the error handler of the program's */
    MPI_Win window;
    char *base;
    int rank, size, signals;
    int processors; /* of the host, for each of its ranks */
    int waiting;    /* threads of this rank */
    MPI_Aint *bytes; /* of every rank's memory, one entry if all are equal */
    bool equal;
    double timeout; /* s, 0: none */
    int calling;    /* a thread is making progress */
};

static _Thread_local char reason[256];

EXPORT const char *hopbyte_notify_reason(void)
{
    return reason;
}

/* Keeps the words for hopbyte_notify_reason and returns the code. */
__attribute__((format(printf, 2, 3))) static int problem(int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    return code;
}

/* Calls the communicator's error handler; says why before a handler that will not. */
static int raise_error(MPI_Comm comm, const char *call, int code)
{
    MPI_Errhandler handler;
    if (code == MPI_SUCCESS)
        return code;
    MPI_Comm_get_errhandler(comm, &handler);
    if (handler != MPI_ERRORS_RETURN) {
        char line[384];
        int length = snprintf(line, sizeof line, "hopbyte notify: %s: %s\n", call, reason);
        ssize_t written = write(STDERR_FILENO, line, (size_t)length);
        (void)written;
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_call_errhandler(comm, code);
    return code;
}

/* An MPI function's failure, in its own words. */
static int failed(const char *function, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS)
        return code;
    MPI_Error_string(code, text, &length);
    return problem(code, "%s: %.200s", function, text);
}

#define TRY(function, ...)                                                                                             \
    do {                                                                                                               \
        int code_ = failed(#function, function(__VA_ARGS__));                                                          \
        if (code_ != MPI_SUCCESS)                                                                                      \
            return code_;                                                                                              \
    } while (0)

static uint64_t *signal_word(const struct hopbyte_notify *n, int signal)
{
    return (uint64_t *)(void *)(n->base + (size_t)signal * LINE);
}

static MPI_Aint bytes_of(const struct hopbyte_notify *n, int rank)
{
    return n->bytes[n->equal ? 0 : rank];
}

/* Sizes of all ranks; refuses arguments that are wrong at any of them, everywhere. */
static int agree(struct hopbyte_notify *n, MPI_Aint bytes)
{
    long long mine[5] = {bytes, -(long long)bytes, n->signals, -(long long)n->signals, 0}, least[5];
    mine[4] = bytes > INT64_MAX - (MPI_Aint)n->signals * LINE - WINDOW_LEAST ? -1 : 0;
    TRY(MPI_Allreduce, mine, least, 5, MPI_LONG_LONG, MPI_MIN, n->comm);
    if (least[0] < 0 || least[4] < 0)
        return problem(MPI_ERR_SIZE, "found %lld bytes on a rank, expected 0 or more that fit into memory", least[0]);
    if (least[2] < 1)
        return problem(MPI_ERR_ARG, "found %lld signals on a rank, expected at least 1", least[2]);
    if (least[2] != -least[3])
        return problem(MPI_ERR_ARG, "found %lld to %lld signals, expected the same number on all ranks", least[2],
                       -least[3]);
    n->equal = least[0] == -least[1];
    n->bytes = malloc((n->equal ? 1 : (size_t)n->size) * sizeof *n->bytes);
    int lacking = !n->bytes, any;
    TRY(MPI_Allreduce, &lacking, &any, 1, MPI_INT, MPI_MAX, n->comm);
    if (any)
        return problem(MPI_ERR_NO_MEM, "no memory on a rank");
    if (n->equal)
        n->bytes[0] = bytes;
    else
        TRY(MPI_Allgather, &bytes, 1, MPI_AINT, n->bytes, 1, MPI_AINT, n->comm);
    return MPI_SUCCESS;
}

static int window_open(struct hopbyte_notify *n, MPI_Aint bytes, MPI_Info info)
{
    MPI_Aint room = (MPI_Aint)n->signals * LINE + bytes;
    int *model, found, unified, all;
    room = room < WINDOW_LEAST ? WINDOW_LEAST : room;
    TRY(MPI_Win_allocate, room, 1, info, n->comm, &n->base, &n->window);
    TRY(MPI_Win_set_errhandler, n->window, MPI_ERRORS_RETURN);
    TRY(MPI_Win_get_attr, n->window, MPI_WIN_MODEL, &model, &found);
    unified = found && *model == MPI_WIN_UNIFIED;
    TRY(MPI_Allreduce, &unified, &all, 1, MPI_INT, MPI_MIN, n->comm);
    if (!all)
        return problem(MPI_ERR_UNSUPPORTED_OPERATION, "the window has the separate memory model, expected unified");
    TRY(MPI_Win_lock_all, MPI_MODE_NOCHECK, n->window);
    memset(n->base, 0, (size_t)room);
    TRY(MPI_Win_sync, n->window);
    TRY(MPI_Barrier, n->comm);
    return MPI_SUCCESS;
}

/* Processors for each rank of this host. */
static int processors_find(struct hopbyte_notify *n)
{
    MPI_Comm host;
    int ranks;
    TRY(MPI_Comm_split_type, n->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks);
    MPI_Comm_free(&host);
    n->processors = (int)sysconf(_SC_NPROCESSORS_ONLN) / ranks;
    return MPI_SUCCESS;
}

static double timeout_read(void)
{
    const char *text = getenv("HOPBYTE_NOTIFY_TIMEOUT");
    char *end;
    double seconds = text && *text ? strtod(text, &end) : 0;
    if (text && *text && (*end || !(seconds >= 0) || seconds > 1e9)) {
        fprintf(stderr, "hopbyte notify: HOPBYTE_NOTIFY_TIMEOUT=\"%s\" is not a number of seconds; no limit\n", text);
        return 0;
    }
    return seconds;
}

static void release(struct hopbyte_notify *n)
{
    if (n->window != MPI_WIN_NULL)
        MPI_Win_free(&n->window);
    MPI_Comm_free(&n->comm);
    free(n->bytes);
    free(n);
}

EXPORT int hopbyte_notify_create(MPI_Aint bytes, int signals, MPI_Info info, MPI_Comm comm, void *memory,
                                 hopbyte_notify_t *notify)
{
    if (!notify || !memory)
        return raise_error(comm, __func__, problem(MPI_ERR_ARG, "found no place for the handle or the address"));
    *notify = NULL;
    struct hopbyte_notify *n = calloc(1, sizeof *n);
    if (!n)
        return raise_error(comm, __func__, problem(MPI_ERR_NO_MEM, "no memory"));
    int code = failed("MPI_Comm_dup", MPI_Comm_dup(comm, &n->comm));
    if (code != MPI_SUCCESS) {
        free(n);
        return raise_error(comm, __func__, code);
    }
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    MPI_Comm_set_errhandler(n->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(n->comm, &n->rank);
    MPI_Comm_size(n->comm, &n->size);
    n->signals = signals;
    n->window = MPI_WIN_NULL;
    n->timeout = timeout_read();
    code = agree(n, bytes);
    if (code == MPI_SUCCESS)
        code = processors_find(n);
    if (code == MPI_SUCCESS)
        code = window_open(n, bytes, info);
    MPI_Comm_set_errhandler(n->comm, handler);
    MPI_Errhandler_free(&handler);
    if (code != MPI_SUCCESS) {
        release(n);
        return raise_error(comm, __func__, code);
    }
    *(void **)memory = n->base + (size_t)signals * LINE;
    *notify = n;
    return MPI_SUCCESS;
}

EXPORT int hopbyte_notify_free(hopbyte_notify_t *notify)
{
    if (!notify || !*notify)
        return raise_error(MPI_COMM_WORLD, __func__, problem(MPI_ERR_ARG, "found no handle"));
    struct hopbyte_notify *n = *notify;
    int code = failed("MPI_Win_unlock_all", MPI_Win_unlock_all(n->window));
    if (code != MPI_SUCCESS)
        return raise_error(n->comm, __func__, code);
    release(n);
    *notify = NULL;
    return MPI_SUCCESS;
}

static int target_check(const struct hopbyte_notify *n, int target)
{
    if (target < 0 || target >= n->size)
        return problem(MPI_ERR_RANK, "found target %d, expected 0 to %d", target, n->size - 1);
    return MPI_SUCCESS;
}

static int signal_check(const struct hopbyte_notify *n, int signal)
{
    if (signal < 0 || signal >= n->signals)
        return problem(MPI_ERR_ARG, "found signal %d, expected 0 to %d", signal, n->signals - 1);
    return MPI_SUCCESS;
}

static int put_check(const struct hopbyte_notify *n, const void *from, MPI_Aint bytes, int target, MPI_Aint at)
{
    int code = target_check(n, target);
    if (code != MPI_SUCCESS)
        return code;
    if (bytes < 0)
        return problem(MPI_ERR_SIZE, "found %lld bytes, expected 0 or more", (long long)bytes);
    if (bytes > 0 && !from)
        return problem(MPI_ERR_BUFFER, "found no buffer for %lld bytes", (long long)bytes);
    if (at < 0 || at > bytes_of(n, target) || bytes > bytes_of(n, target) - at)
        return problem(MPI_ERR_RMA_RANGE, "found %lld bytes at %lld, expected them within the %lld of rank %d",
                       (long long)bytes, (long long)at, (long long)bytes_of(n, target), target);
    return MPI_SUCCESS;
}

static int put(struct hopbyte_notify *n, const char *from, MPI_Aint bytes, int target, MPI_Aint at)
{
    MPI_Aint to = (MPI_Aint)n->signals * LINE + at;
    for (MPI_Aint done = 0; done < bytes; done += PIECE) {
        int piece = bytes - done < PIECE ? (int)(bytes - done) : PIECE;
        TRY(MPI_Put, from + done, piece, MPI_BYTE, target, to + done, piece, MPI_BYTE, n->window);
    }
    return MPI_SUCCESS;
}

/* The first flush completes the puts at the target before the counter can change, the second sends the signal off. */
static int signal_add(struct hopbyte_notify *n, int target, int signal, uint64_t add)
{
    TRY(MPI_Win_flush, target, n->window);
    TRY(MPI_Accumulate, &add, 1, MPI_UINT64_T, target, (MPI_Aint)signal * LINE, 1, MPI_UINT64_T, MPI_SUM, n->window);
    TRY(MPI_Win_flush, target, n->window);
    return MPI_SUCCESS;
}

static int signal_send(struct hopbyte_notify *n, int target, int signal, uint64_t add)
{
    int code = target_check(n, target);
    if (code == MPI_SUCCESS)
        code = signal_check(n, signal);
    if (code == MPI_SUCCESS && add == 0)
        code = problem(MPI_ERR_ARG, "found a signal that adds 0, expected 1 or more");
    return code == MPI_SUCCESS ? signal_add(n, target, signal, add) : code;
}

#define NEED_HANDLE(n)                                                                                                 \
    if (!(n))                                                                                                          \
    return raise_error(MPI_COMM_WORLD, __func__, problem(MPI_ERR_ARG, "found no handle"))

EXPORT int hopbyte_notify_put(hopbyte_notify_t n, const void *from, MPI_Aint bytes, int target, MPI_Aint at)
{
    NEED_HANDLE(n);
    if (target == MPI_PROC_NULL)
        return MPI_SUCCESS;
    int code = put_check(n, from, bytes, target, at);
    return raise_error(n->comm, __func__, code == MPI_SUCCESS ? put(n, from, bytes, target, at) : code);
}

EXPORT int hopbyte_notify_signal(hopbyte_notify_t n, int target, int signal, uint64_t add)
{
    NEED_HANDLE(n);
    if (target == MPI_PROC_NULL)
        return MPI_SUCCESS;
    return raise_error(n->comm, __func__, signal_send(n, target, signal, add));
}

EXPORT int hopbyte_notify_put_signal(hopbyte_notify_t n, const void *from, MPI_Aint bytes, int target, MPI_Aint at,
                                     int signal, uint64_t add)
{
    NEED_HANDLE(n);
    if (target == MPI_PROC_NULL)
        return MPI_SUCCESS;
    int code = put_check(n, from, bytes, target, at);
    if (code == MPI_SUCCESS)
        code = signal_check(n, signal); /* before any byte is sent */
    if (code == MPI_SUCCESS)
        code = put(n, from, bytes, target, at);
    return raise_error(n->comm, __func__, code == MPI_SUCCESS ? signal_send(n, target, signal, add) : code);
}

/* Lets the MPI library move data of others to this rank, by one thread at a time: more would wait for its locks. */
static int progress(struct hopbyte_notify *n)
{
    int flag, code = MPI_SUCCESS;
    if (__atomic_load_n(&n->calling, __ATOMIC_RELAXED) || __atomic_exchange_n(&n->calling, 1, __ATOMIC_ACQUIRE))
        return code;
    code = failed("MPI_Iprobe", MPI_Iprobe(MPI_ANY_SOURCE, 0, n->comm, &flag, MPI_STATUS_IGNORE));
    __atomic_store_n(&n->calling, 0, __ATOMIC_RELEASE);
    return code;
}

/* Whether the counter is there; if so, loads after this see the data put before the signal. */
static int look(struct hopbyte_notify *n, int signal, uint64_t least, int *there, uint64_t *value)
{
    uint64_t now = __atomic_load_n(signal_word(n, signal), __ATOMIC_ACQUIRE);
    *there = now >= least;
    if (value)
        *value = now;
    if (*there)
        TRY(MPI_Win_sync, n->window);
    return MPI_SUCCESS;
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int wait_for(struct hopbyte_notify *n, int signal, uint64_t least, uint64_t *value)
{
    double begun = n->timeout > 0 ? seconds_now() : 0;
    bool alone = __atomic_load_n(&n->waiting, __ATOMIC_RELAXED) <= n->processors;
    long nap = NAP_FIRST, spins = alone ? SPINS_ALONE : SPINS_SHARED;
    for (long looks = 0;; looks++) {
        int there, code = look(n, signal, least, &there, value);
        if (code != MPI_SUCCESS || there)
            return code;
        if (looks < spins && (looks + 1) % SPINS_PER_CALL) {
            pause_briefly();
            continue;
        }
        code = progress(n);
        if (code != MPI_SUCCESS)
            return code;
        if (looks < spins)
            continue;
        if (looks < spins + YIELDS) {
            sched_yield();
            continue;
        }
        struct timespec time = {0, nap * 1000};
        nanosleep(&time, NULL);
        nap = 2 * nap < NAP_LAST ? 2 * nap : NAP_LAST;
        if (n->timeout > 0 && seconds_now() - begun > n->timeout)
            return problem(MPI_ERR_OTHER, "rank %d: signal %d is %llu after %g s, expected %llu", n->rank, signal,
                           (unsigned long long)__atomic_load_n(signal_word(n, signal), __ATOMIC_RELAXED), n->timeout,
                           (unsigned long long)least);
    }
}

EXPORT int hopbyte_notify_test(hopbyte_notify_t n, int signal, uint64_t least, int *flag, uint64_t *value)
{
    NEED_HANDLE(n);
    int code = flag ? signal_check(n, signal) : problem(MPI_ERR_ARG, "found no place for the flag");
    if (code == MPI_SUCCESS)
        code = look(n, signal, least, flag, value);
    if (code == MPI_SUCCESS && !*flag && (code = progress(n)) == MPI_SUCCESS)
        code = look(n, signal, least, flag, value);
    return raise_error(n->comm, __func__, code);
}

EXPORT int hopbyte_notify_wait(hopbyte_notify_t n, int signal, uint64_t least, uint64_t *value)
{
    NEED_HANDLE(n);
    int code = signal_check(n, signal);
    __atomic_fetch_add(&n->waiting, 1, __ATOMIC_RELAXED);
    code = code == MPI_SUCCESS ? wait_for(n, signal, least, value) : code;
    __atomic_fetch_sub(&n->waiting, 1, __ATOMIC_RELAXED);
    return raise_error(n->comm, __func__, code);
}
