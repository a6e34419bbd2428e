/* A recursive lock that is fair in time (paper 004, IV.E: "in a high performance and fair manner").
 *
 * Waiting threads stand in a queue (MCS), and only its head looks at the lock. A running thread may take the lock again
 * and again for a slice: until the head has looked for `slice_us` and demands the lock, or, while the head waits for a
 * processor, until the owner has released it for `owner_us` with others waiting. Then a release hands the lock over. So
 * every thread gets a slice in the order of arrival, and a change of threads, which costs a context switch if there are
 * more threads than cores, is paid once a slice and not at every acquisition: scheduler-cooperative locks (Patel et
 * al., EuroSys 2020) with the hand-over of Go's sync.Mutex. Slices of 0 serve strictly in the order of arrival.
 *
 * All zero is unlocked. The lock fits into a pthread_mutex_t; places in the queue belong to the threads. */
#ifndef HOPBYTE_FAIR_H
#define HOPBYTE_FAIR_H

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A thread's place in the queue of the lock that it waits for. */
struct hopbyte_fair_place {
    struct hopbyte_fair_place *next;
    uint32_t turn; /* HOPBYTE_FAIR_BEHIND, … */
} __attribute__((aligned(64)));

enum { HOPBYTE_FAIR_BEHIND, HOPBYTE_FAIR_ASLEEP, HOPBYTE_FAIR_HEAD };

struct hopbyte_fair {
    uint32_t state;
    uint32_t depth;     /* of the owner's recursion */
    uint32_t waiting;   /* threads in the queue */
    uint32_t unused[3]; /* where glibc keeps the kind of a mutex */
    uintptr_t owner;    /* address of a variable of the owning thread, 0: none */
    struct hopbyte_fair_place *tail;
};

/* Bits of the state. Only the head sets WAKE and WANTED, and only while the lock is LOCKED. */
enum {
    HOPBYTE_FAIR_LOCKED = 1,
    HOPBYTE_FAIR_WAKE = 2,   /* the head sleeps on the state */
    HOPBYTE_FAIR_WANTED = 4, /* the next release hands the lock over */
    HOPBYTE_FAIR_HANDED = 8  /* to the head, which has not taken it yet */
};

/* Looks before yielding and yields before sleeping; spins are for no more waiting threads than there are processors. */
struct hopbyte_fair_patience {
    int spins, yields, slice_us, owner_us, processors;
};
enum { HOPBYTE_FAIR_SPINS = 200, HOPBYTE_FAIR_YIELDS = 8, HOPBYTE_FAIR_SLICE_US = 2, HOPBYTE_FAIR_OWNER_US = 10 };

static _Thread_local struct hopbyte_fair_place hopbyte_fair_self;
static _Thread_local uint32_t *hopbyte_fair_later; /* a word to wake after the release, outside the lock */

/* The lock that this thread releases with others waiting, since when, and how often. */
static _Thread_local struct {
    const struct hopbyte_fair *lock;
    long since;
    unsigned releases;
} hopbyte_fair_slice;

static inline bool hopbyte_fair_mine(const struct hopbyte_fair *lock)
{
    return __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == (uintptr_t)&hopbyte_fair_self;
}

static inline void hopbyte_fair_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Microseconds 0: no limit. */
static inline void hopbyte_fair_sleep(uint32_t *word, uint32_t value, long microseconds)
{
    struct timespec limit = {microseconds / 1000000, microseconds % 1000000 * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, microseconds ? &limit : NULL, NULL, 0);
}

static inline void hopbyte_fair_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline long hopbyte_fair_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static inline bool hopbyte_fair_turn(struct hopbyte_fair *lock, uint32_t *from, uint32_t to)
{
    return __atomic_compare_exchange_n(&lock->state, from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static inline void hopbyte_fair_queue(struct hopbyte_fair *lock, struct hopbyte_fair_place *place,
                                      const struct hopbyte_fair_patience *patience)
{
    place->next = NULL;
    place->turn = HOPBYTE_FAIR_BEHIND;
    struct hopbyte_fair_place *before = __atomic_exchange_n(&lock->tail, place, __ATOMIC_ACQ_REL);
    if (!before)
        return;
    __atomic_store_n(&before->next, place, __ATOMIC_RELEASE);
    bool room = __atomic_load_n(&lock->waiting, __ATOMIC_RELAXED) < (uint32_t)patience->processors;
    for (int i = 0; room && i < patience->spins; i++) {
        if (__atomic_load_n(&place->turn, __ATOMIC_ACQUIRE) == HOPBYTE_FAIR_HEAD)
            return;
        hopbyte_fair_pause();
    }
    uint32_t behind = HOPBYTE_FAIR_BEHIND;
    if (!__atomic_compare_exchange_n(&place->turn, &behind, HOPBYTE_FAIR_ASLEEP, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    while (__atomic_load_n(&place->turn, __ATOMIC_ACQUIRE) != HOPBYTE_FAIR_HEAD)
        hopbyte_fair_sleep(&place->turn, HOPBYTE_FAIR_ASLEEP, 0);
}

/* The next thread becomes the head; it is woken when this one has released the lock. */
static inline void hopbyte_fair_advance(struct hopbyte_fair *lock, struct hopbyte_fair_place *place)
{
    struct hopbyte_fair_place *next = __atomic_load_n(&place->next, __ATOMIC_ACQUIRE), *mine = place;
    if (!next) {
        if (__atomic_compare_exchange_n(&lock->tail, &mine, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
        for (int looks = 0; !(next = __atomic_load_n(&place->next, __ATOMIC_ACQUIRE)); looks++)
            if (looks > 1000)
                sched_yield();
            else
                hopbyte_fair_pause();
    }
    uint32_t *word = &next->turn;
    if (__atomic_exchange_n(word, HOPBYTE_FAIR_HEAD, __ATOMIC_ACQ_REL) != HOPBYTE_FAIR_ASLEEP)
        return;
    if (hopbyte_fair_later)
        hopbyte_fair_wake(hopbyte_fair_later);
    hopbyte_fair_later = word;
}

/* At the head of the queue, until the lock is this thread's. */
static inline void hopbyte_fair_head(struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    long begun = 0;
    bool due = patience->slice_us == 0;
    for (int looks = 0;; looks++) {
        uint32_t state = __atomic_load_n(&lock->state, __ATOMIC_ACQUIRE);
        if (!(state & HOPBYTE_FAIR_LOCKED) || state & HOPBYTE_FAIR_HANDED) {
            if (hopbyte_fair_turn(lock, &state, HOPBYTE_FAIR_LOCKED))
                return;
            continue;
        }
        if (!due && looks % 16 == 0) {
            long now = hopbyte_fair_microseconds();
            begun = begun ? begun : now;
            due = now - begun >= patience->slice_us;
        }
        if (due && !(state & HOPBYTE_FAIR_WANTED)) {
            if (hopbyte_fair_turn(lock, &state, state | HOPBYTE_FAIR_WANTED))
                looks = 0;
        } else if (looks < patience->spins) {
            hopbyte_fair_pause();
        } else if (!due && patience->spins == 0) {
            hopbyte_fair_sleep(&lock->state, state, patience->slice_us);
        } else if (!due) {
            hopbyte_fair_pause();
        } else if (looks < patience->spins + patience->yields) {
            sched_yield();
        } else if (state & HOPBYTE_FAIR_WAKE || hopbyte_fair_turn(lock, &state, state | HOPBYTE_FAIR_WAKE)) {
            hopbyte_fair_sleep(&lock->state, state | HOPBYTE_FAIR_WAKE, 0);
        }
    }
}

static inline void hopbyte_fair_wait(struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    __atomic_fetch_add(&lock->waiting, 1, __ATOMIC_RELAXED);
    hopbyte_fair_slice.lock = NULL;
    hopbyte_fair_queue(lock, &hopbyte_fair_self, patience);
    hopbyte_fair_head(lock, patience);
    hopbyte_fair_advance(lock, &hopbyte_fair_self);
    __atomic_fetch_sub(&lock->waiting, 1, __ATOMIC_RELAXED);
}

/* Returns whether the thread had to wait. */
static inline bool hopbyte_fair_lock(struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    uint32_t free = 0;
    if (hopbyte_fair_mine(lock)) {
        lock->depth++;
        return false;
    }
    bool waits = !hopbyte_fair_turn(lock, &free, HOPBYTE_FAIR_LOCKED);
    if (waits)
        hopbyte_fair_wait(lock, patience);
    __atomic_store_n(&lock->owner, (uintptr_t)&hopbyte_fair_self, __ATOMIC_RELAXED);
    lock->depth = 1;
    return waits;
}

static inline int hopbyte_fair_trylock(struct hopbyte_fair *lock)
{
    uint32_t free = 0;
    if (hopbyte_fair_mine(lock)) {
        lock->depth++;
        return 0;
    }
    if (!hopbyte_fair_turn(lock, &free, HOPBYTE_FAIR_LOCKED))
        return EBUSY;
    __atomic_store_n(&lock->owner, (uintptr_t)&hopbyte_fair_self, __ATOMIC_RELAXED);
    lock->depth = 1;
    return 0;
}

/* Whether the owner's slice is over; it holds the lock, so whoever waits has a head. */
static inline bool hopbyte_fair_over(const struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    if (!__atomic_load_n(&lock->tail, __ATOMIC_RELAXED))
        return false;
    if (hopbyte_fair_slice.lock == lock && ++hopbyte_fair_slice.releases % 16)
        return false;
    long now = patience->owner_us ? hopbyte_fair_microseconds() : 0;
    if (hopbyte_fair_slice.lock != lock) {
        hopbyte_fair_slice.lock = lock;
        hopbyte_fair_slice.since = now;
        hopbyte_fair_slice.releases = 0;
    }
    return now - hopbyte_fair_slice.since >= patience->owner_us;
}

/* EPERM: the calling thread does not have the lock. */
static inline int hopbyte_fair_unlock(struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    const uint32_t handed = HOPBYTE_FAIR_LOCKED | HOPBYTE_FAIR_HANDED;
    uint32_t state = HOPBYTE_FAIR_LOCKED;
    if (!hopbyte_fair_mine(lock))
        return EPERM;
    if (--lock->depth > 0)
        return 0;
    __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
    bool over = hopbyte_fair_over(lock, patience);
    while (!hopbyte_fair_turn(lock, &state, over || state & HOPBYTE_FAIR_WANTED ? handed : 0))
        ;
    if (state & HOPBYTE_FAIR_WAKE)
        hopbyte_fair_wake(&lock->state);
    if (hopbyte_fair_later) {
        hopbyte_fair_wake(hopbyte_fair_later);
        hopbyte_fair_later = NULL;
    }
    return 0;
}

/* Whether nobody has the lock or waits for it. */
static inline bool hopbyte_fair_unused(const struct hopbyte_fair *lock)
{
    return __atomic_load_n(&lock->state, __ATOMIC_RELAXED) == 0 && !__atomic_load_n(&lock->tail, __ATOMIC_RELAXED);
}

/* Gives the lock up whatever its depth, which it returns for hopbyte_fair_restore. */
static inline uint32_t hopbyte_fair_release(struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    uint32_t depth = lock->depth;
    lock->depth = 1;
    hopbyte_fair_unlock(lock, patience);
    return depth;
}

static inline void hopbyte_fair_restore(struct hopbyte_fair *lock, uint32_t depth,
                                        const struct hopbyte_fair_patience *patience)
{
    hopbyte_fair_lock(lock, patience);
    lock->depth = depth;
}

#endif
