/* Replaces the mutexes of an MPI library by fair locks: those that lie in the library's own data, as the global lock of
 * MPICH up to version 4 does. A mutex is recognised by its address, so that every function of every caller takes the
 * same lock for it. The fair lock lives inside the pthread_mutex_t. */
#define _GNU_SOURCE
#include "fair.h"

#include "../common/pvars.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

_Static_assert(sizeof(struct hopbyte_fair) <= sizeof(pthread_mutex_t), "the lock must fit into a mutex");

enum { RANGES_MOST = 16, CONDITIONS_MOST = 256, THREADS_SHOWN = 64 };

static struct {
    uintptr_t from, to;
} ranges[RANGES_MOST];
static int range_count;
static enum { UNDECIDED, OFF, ON } mode;
static struct hopbyte_fair_patience patience;
static bool report;
static char why[256];

/* One thread's use of the replaced locks. */
struct use {
    uint64_t acquired, waited;
    double longest; /* s */
    struct use *next;
};
static struct use *uses;
static _Thread_local struct use *own;

static pthread_mutex_t helper = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t *conditions[CONDITIONS_MOST];
static int condition_count;

#define REAL(name)                                                                                                     \
    __extension__({                                                                                                    \
        static void *found_;                                                                                           \
        void *here_ = __atomic_load_n(&found_, __ATOMIC_RELAXED);                                                      \
        if (__builtin_expect(!here_, 0)) {                                                                             \
            here_ = real_find(#name);                                                                                  \
            __atomic_store_n(&found_, here_, __ATOMIC_RELAXED);                                                        \
        }                                                                                                              \
        (__typeof__(&name)) here_;                                                                                     \
    })

static void say(const char *format, ...)
{
    char line[512];
    va_list list;
    int head = snprintf(line, sizeof line, "hopbyte lock: ");
    va_start(list, format);
    vsnprintf(line + head, sizeof line - (size_t)head - 1, format, list);
    va_end(list);
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
}

static void *real_find(const char *name)
{
    void *symbol = NULL;
#ifdef __GLIBC__
    /* Its conditions have two versions, of which the older has another layout. */
    if (strncmp(name, "pthread_cond", 12) == 0)
        symbol = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
#endif
    if (!symbol)
        symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        say("the C library lacks %s", name);
        _exit(3);
    }
    return symbol;
}

static bool named_mpi(const char *path)
{
    const char *file = strrchr(path, '/');
    return strncmp(file ? file + 1 : path, "libmpi", 6) == 0;
}

static int range_add(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (!info->dlpi_name || !named_mpi(info->dlpi_name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && range_count < RANGES_MOST; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
            continue;
        ranges[range_count].from = info->dlpi_addr + segment->p_vaddr;
        ranges[range_count].to = ranges[range_count].from + segment->p_memsz;
        range_count++;
    }
    return 0;
}

/* Whether the MPI library gains by it; the reason in `why`. */
static bool automatic(void)
{
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world")) {
        snprintf(why, sizeof why, "off: Open MPI has locks of its own, and no global pthread mutex");
        return false;
    }
    if (dlsym(RTLD_DEFAULT, "MPI_Abi_get_version")) {
        snprintf(why, sizeof why, "off: MPICH 5 and later serve threads fairly by themselves");
        return false;
    }
    snprintf(why, sizeof why, "on: MPICH up to version 4 has a global pthread mutex");
    return true;
}

static int number(const char *name, int fallback)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return fallback;
    long value = strtol(text, &end, 10);
    if (*end || value < 0 || value > 1000000) {
        say("%s=\"%s\" is not a whole number from 0 to 1000000; using %d", name, text, fallback);
        return fallback;
    }
    return (int)value;
}

static void decide(void)
{
    const char *asked = getenv("HOPBYTE_LOCK");
    report = number("HOPBYTE_LOCK_REPORT", 0) > 0;
    patience.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    patience.spins = number("HOPBYTE_LOCK_SPINS", patience.processors > 1 ? HOPBYTE_FAIR_SPINS : 0);
    patience.yields = number("HOPBYTE_LOCK_YIELDS", HOPBYTE_FAIR_YIELDS);
    patience.slice_us = number("HOPBYTE_LOCK_SLICE", HOPBYTE_FAIR_SLICE_US);
    patience.owner_us = number("HOPBYTE_LOCK_OWNER", HOPBYTE_FAIR_OWNER_US);
    int chosen = OFF;
    if (!asked || !*asked)
        chosen = OFF;
    else if (strcmp(asked, "auto") == 0)
        chosen = automatic() ? ON : OFF;
    else if (strcmp(asked, "fair") == 0)
        chosen = ON;
    else if (strcmp(asked, "off") != 0)
        say("HOPBYTE_LOCK=\"%s\": expected auto, fair or off; off", asked);
    if (chosen == ON)
        dl_iterate_phdr(range_add, NULL);
    __atomic_store_n(&mode, chosen, __ATOMIC_RELEASE);
}

/* After the MPI library is loaded, and before it can lock anything: its constructors run before this one, because it
 * is loaded with the program. One that is loaded later (Python's dlopen) keeps its own locks. */
__attribute__((constructor)) static void lock_start(void)
{
    decide();
}

static inline struct hopbyte_fair *fair_of(pthread_mutex_t *mutex)
{
    if (__builtin_expect(mode != ON, 1))
        return NULL;
    for (int i = 0; i < range_count; i++)
        if ((uintptr_t)mutex - ranges[i].from < ranges[i].to - ranges[i].from)
            return (struct hopbyte_fair *)mutex;
    return NULL;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void acquire(struct hopbyte_fair *lock)
{
    if (__builtin_expect(!report, 1)) {
        hopbyte_fair_lock(lock, &patience);
        return;
    }
    if (!own && (own = calloc(1, sizeof *own))) {
        own->next = __atomic_load_n(&uses, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&uses, &own->next, own, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
    }
    double begun = seconds_now();
    bool waited = hopbyte_fair_lock(lock, &patience);
    if (!own)
        return;
    double seconds = waited ? seconds_now() - begun : 0;
    __atomic_store_n(&own->acquired, own->acquired + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&own->waited, own->waited + waited, __ATOMIC_RELAXED);
    if (seconds > own->longest)
        __atomic_store(&own->longest, &seconds, __ATOMIC_RELAXED);
}

/* --- performance variables, where acquisitions are counted --- */

enum { ACQUIRED, WAITED, LONGEST, OFFERED };
static const struct hopbyte_pvar offered[OFFERED] = {
    {"hopbyte_lock_acquired", "Acquisitions of replaced locks, of all threads", HOPBYTE_PVAR_COUNTER, false},
    {"hopbyte_lock_waited", "Acquisitions of replaced locks that had to wait", HOPBYTE_PVAR_COUNTER, false},
    {"hopbyte_lock_longest_wait_seconds", "Longest wait for a replaced lock, in seconds", HOPBYTE_PVAR_HIGHEST, true}};

static int offered_count(void)
{
    return report && mode == ON ? OFFERED : 0;
}

static const struct hopbyte_pvar *offered_at(int index)
{
    return &offered[index];
}

static bool offered_read(int index, struct hopbyte_pvar_value *value)
{
    for (struct use *use = __atomic_load_n(&uses, __ATOMIC_ACQUIRE); use; use = use->next) {
        double longest;
        __atomic_load(&use->longest, &longest, __ATOMIC_RELAXED);
        if (index == LONGEST)
            value->seconds = longest > value->seconds ? longest : value->seconds;
        else
            value->count += __atomic_load_n(index == ACQUIRED ? &use->acquired : &use->waited, __ATOMIC_RELAXED);
    }
    return true;
}

HOPBYTE_PVARS_DEFINE(lock, "Replaced locks of the MPI library (libhopbyte_lock)", offered_count, offered_at,
                     offered_read);

__attribute__((destructor)) static void lock_stop(void)
{
    uint64_t all = 0, waited = 0, least = UINT64_MAX, most = 0;
    double longest = 0;
    int threads = 0;
    for (struct use *use = __atomic_load_n(&uses, __ATOMIC_ACQUIRE); use; use = use->next) {
        all += use->acquired;
        waited += use->waited;
        least = use->acquired < least ? use->acquired : least;
        most = use->acquired > most ? use->acquired : most;
        longest = use->longest > longest ? use->longest : longest;
        threads++;
    }
    if (!report || !dlsym(RTLD_DEFAULT, "MPI_Init"))
        return;
    say("%s", *why ? why : mode == ON ? "on" : "off");
    if (threads)
        say("%llu acquisitions by %d threads, %llu after waiting; longest wait %.3f ms; per thread %llu to %llu",
            (unsigned long long)all, threads, (unsigned long long)waited, 1e3 * longest, (unsigned long long)least,
            (unsigned long long)most);
    else
        say("no mutex of the MPI library was locked");
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct hopbyte_fair *lock = fair_of(mutex);
    if (__builtin_expect(!lock, 1))
        return REAL(pthread_mutex_lock)(mutex);
    acquire(lock);
    return 0;
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct hopbyte_fair *lock = fair_of(mutex);
    return lock ? hopbyte_fair_trylock(lock) : REAL(pthread_mutex_trylock)(mutex);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct hopbyte_fair *lock = fair_of(mutex);
    return __builtin_expect(!lock, 1) ? REAL(pthread_mutex_unlock)(mutex) : hopbyte_fair_unlock(lock, &patience);
}

EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    int rc = REAL(pthread_mutex_init)(mutex, attributes), shared = PTHREAD_PROCESS_PRIVATE;
    struct hopbyte_fair *lock = fair_of(mutex);
    if (rc != 0 || !lock)
        return rc;
    if (attributes && pthread_mutexattr_getpshared(attributes, &shared) == 0 && shared == PTHREAD_PROCESS_SHARED) {
        say("the MPI library shares a mutex of its data with other processes, which cannot be replaced; use "
            "HOPBYTE_LOCK=off");
        _exit(3);
    }
    memset(lock, 0, sizeof *lock);
    return 0;
}

EXPORT int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    struct hopbyte_fair *lock = fair_of(mutex);
    if (!lock)
        return REAL(pthread_mutex_destroy)(mutex);
    return hopbyte_fair_unused(lock) ? 0 : EBUSY;
}

/* Timed locking would leave a queue in which others stand behind it, so it tries instead of queueing. */
static int acquire_until(struct hopbyte_fair *lock, clockid_t clock, const struct timespec *until)
{
    for (;;) {
        struct timespec now;
        if (hopbyte_fair_trylock(lock) == 0)
            return 0;
        clock_gettime(clock, &now);
        if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
            return ETIMEDOUT;
        sched_yield();
    }
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    struct hopbyte_fair *lock = fair_of(mutex);
    return lock ? acquire_until(lock, CLOCK_REALTIME, until) : REAL(pthread_mutex_timedlock)(mutex, until);
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    struct hopbyte_fair *lock = fair_of(mutex);
    return lock ? acquire_until(lock, clock, until) : REAL(pthread_mutex_clocklock)(mutex, clock, until);
}

/* Conditions. A waiter takes the helper mutex, gives its lock up and waits with the helper; who signals takes the helper
 * too, so no signal falls between. Only conditions that were waited on with a replaced lock pay for this. */
static bool condition_known(const pthread_cond_t *condition)
{
    int count = __atomic_load_n(&condition_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++)
        if (__atomic_load_n(&conditions[i], __ATOMIC_RELAXED) == condition)
            return true;
    return false;
}

/* With the helper held. */
static void condition_add(pthread_cond_t *condition)
{
    if (condition_known(condition))
        return;
    if (condition_count == CONDITIONS_MOST) {
        say("the MPI library waits on more than %d conditions with its global lock; use HOPBYTE_LOCK=off",
            CONDITIONS_MOST);
        _exit(3);
    }
    conditions[condition_count] = condition;
    __atomic_store_n(&condition_count, condition_count + 1, __ATOMIC_RELEASE);
}

#define WAIT(name, parameters, arguments)                                                                              \
    EXPORT int name parameters                                                                                         \
    {                                                                                                                  \
        struct hopbyte_fair *lock = fair_of(mutex);                                                                    \
        if (!lock)                                                                                                     \
            return REAL(name) arguments;                                                                               \
        if (!hopbyte_fair_mine(lock))                                                                                  \
            return EPERM;                                                                                              \
        REAL(pthread_mutex_lock)(&helper);                                                                             \
        condition_add(condition);                                                                                      \
        uint32_t depth = hopbyte_fair_release(lock, &patience);                                                                   \
        mutex = &helper;                                                                                               \
        int rc = REAL(name) arguments;                                                                                 \
        REAL(pthread_mutex_unlock)(&helper);                                                                           \
        hopbyte_fair_restore(lock, depth, &patience);                                                                  \
        return rc;                                                                                                     \
    }
WAIT(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
WAIT(pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *until),
     (condition, mutex, until))
WAIT(pthread_cond_clockwait,
     (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until),
     (condition, mutex, clock, until))

#define SIGNAL(name)                                                                                                   \
    EXPORT int name(pthread_cond_t *condition)                                                                         \
    {                                                                                                                  \
        if (mode != ON || !condition_known(condition))                                                                 \
            return REAL(name)(condition);                                                                              \
        REAL(pthread_mutex_lock)(&helper);                                                                             \
        int rc = REAL(name)(condition);                                                                                \
        REAL(pthread_mutex_unlock)(&helper);                                                                           \
        return rc;                                                                                                     \
    }
SIGNAL(pthread_cond_signal)
SIGNAL(pthread_cond_broadcast)
