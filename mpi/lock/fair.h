/* A recursive lock that serves threads in the order of arrival (paper 004, IV.E: "a high performance and fair" lock).
 *
 * A thread draws a ticket and waits until it is served: it spins, then yields, then sleeps in the kernel on a word
 * that few other tickets share. Spinning alone starves the owner as soon as there are more threads than cores. The
 * lock has no memory besides its own 32 bytes, and all zero is unlocked, so that it fits into a pthread_mutex_t. */
#ifndef HOPBYTE_FAIR_H
#define HOPBYTE_FAIR_H

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct hopbyte_fair {
    uint32_t next, serving; /* tickets */
    uint32_t depth;         /* of the owner's recursion */
    uint32_t unused[3];     /* where glibc keeps the kind of a mutex */
    uintptr_t owner;        /* address of a variable of the owning thread, 0: none */
};

/* Words for sleeping, shared by all locks of the process. */
enum { HOPBYTE_FAIR_WORDS = 1024 };
struct hopbyte_fair_word {
    uint32_t waiters, sequence;
} __attribute__((aligned(64)));
static struct hopbyte_fair_word hopbyte_fair_words[HOPBYTE_FAIR_WORDS];

/* Looks before yielding and yields before sleeping. */
struct hopbyte_fair_patience {
    int spins, yields;
};

static _Thread_local char hopbyte_fair_self;

static inline struct hopbyte_fair_word *hopbyte_fair_word_of(const struct hopbyte_fair *lock, uint32_t ticket)
{
    uintptr_t mixed = ((uintptr_t)lock >> 5) * 2654435761u + ticket;
    return &hopbyte_fair_words[mixed % HOPBYTE_FAIR_WORDS];
}

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

static inline void hopbyte_fair_wait(struct hopbyte_fair *lock, uint32_t ticket,
                                     const struct hopbyte_fair_patience *patience)
{
    for (int i = 0; i < patience->spins; i++) {
        if (__atomic_load_n(&lock->serving, __ATOMIC_ACQUIRE) == ticket)
            return;
        hopbyte_fair_pause();
    }
    for (int i = 0; i < patience->yields; i++) {
        if (__atomic_load_n(&lock->serving, __ATOMIC_ACQUIRE) == ticket)
            return;
        sched_yield();
    }
    struct hopbyte_fair_word *word = hopbyte_fair_word_of(lock, ticket);
    for (;;) {
        /* The owner stores `serving`, then reads `waiters`; a waiter does both in the other order. */
        __atomic_fetch_add(&word->waiters, 1, __ATOMIC_SEQ_CST);
        uint32_t sequence = __atomic_load_n(&word->sequence, __ATOMIC_SEQ_CST);
        bool served = __atomic_load_n(&lock->serving, __ATOMIC_SEQ_CST) == ticket;
        if (!served)
            syscall(SYS_futex, &word->sequence, FUTEX_WAIT_PRIVATE, sequence, NULL, NULL, 0);
        __atomic_fetch_sub(&word->waiters, 1, __ATOMIC_SEQ_CST);
        if (served)
            return;
    }
}

/* Returns whether the thread had to wait. */
static inline bool hopbyte_fair_lock(struct hopbyte_fair *lock, const struct hopbyte_fair_patience *patience)
{
    if (hopbyte_fair_mine(lock)) {
        lock->depth++;
        return false;
    }
    uint32_t ticket = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED);
    bool waits = __atomic_load_n(&lock->serving, __ATOMIC_ACQUIRE) != ticket;
    if (waits)
        hopbyte_fair_wait(lock, ticket, patience);
    __atomic_store_n(&lock->owner, (uintptr_t)&hopbyte_fair_self, __ATOMIC_RELAXED);
    lock->depth = 1;
    return waits;
}

static inline int hopbyte_fair_trylock(struct hopbyte_fair *lock)
{
    if (hopbyte_fair_mine(lock)) {
        lock->depth++;
        return 0;
    }
    uint32_t serving = __atomic_load_n(&lock->serving, __ATOMIC_ACQUIRE);
    if (!__atomic_compare_exchange_n(&lock->next, &serving, serving + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return EBUSY;
    __atomic_store_n(&lock->owner, (uintptr_t)&hopbyte_fair_self, __ATOMIC_RELAXED);
    lock->depth = 1;
    return 0;
}

/* EPERM: the calling thread does not have the lock. */
static inline int hopbyte_fair_unlock(struct hopbyte_fair *lock)
{
    if (!hopbyte_fair_mine(lock))
        return EPERM;
    if (--lock->depth > 0)
        return 0;
    __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
    uint32_t serving = lock->serving + 1;
    __atomic_store_n(&lock->serving, serving, __ATOMIC_SEQ_CST);
    struct hopbyte_fair_word *word = hopbyte_fair_word_of(lock, serving);
    if (__atomic_load_n(&word->waiters, __ATOMIC_SEQ_CST) > 0) {
        __atomic_fetch_add(&word->sequence, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word->sequence, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
    return 0;
}

/* Gives the lock up whatever its depth, which it returns for hopbyte_fair_restore. */
static inline uint32_t hopbyte_fair_release(struct hopbyte_fair *lock)
{
    uint32_t depth = lock->depth;
    lock->depth = 1;
    hopbyte_fair_unlock(lock);
    return depth;
}

static inline void hopbyte_fair_restore(struct hopbyte_fair *lock, uint32_t depth,
                                        const struct hopbyte_fair_patience *patience)
{
    hopbyte_fair_lock(lock, patience);
    lock->depth = depth;
}

#endif
