/* lock [share]: mutexes of libmpifake.so under the lock library. Prints the first wrong result and ends with 1. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t *fake_mutex(int number);
pthread_cond_t *fake_cond(void);
void fake_start(void);
int fake_share(void);

enum { THREADS = 8, ROUNDS = 3000, TURNS = 5000 };

static pthread_mutex_t outside = PTHREAD_MUTEX_INITIALIZER;
static long counter, tries;
static int turn;

#define EXPECT(what, value)                                                                                            \
    do {                                                                                                               \
        int found_ = (what);                                                                                           \
        if (found_ != (value)) {                                                                                       \
            printf("line %d: %s: found %d, expected %d\n", __LINE__, #what, found_, (value));                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void *count(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 == 0) {
            while (pthread_mutex_trylock(fake_mutex(2)) != 0)
                sched_yield();
            tries++;
        } else {
            EXPECT(pthread_mutex_lock(fake_mutex(2)), 0);
        }
        EXPECT(pthread_mutex_lock(fake_mutex(2)), 0);
        counter++;
        EXPECT(pthread_mutex_unlock(fake_mutex(2)), 0);
        EXPECT(pthread_mutex_unlock(fake_mutex(2)), 0);
    }
    return NULL;
}

/* Each of two threads waits for its turn: a lost signal hangs, and the alarm ends the test. */
static void *alternate(void *number)
{
    int me = (int)(long)number;
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(fake_mutex(2));
        pthread_mutex_lock(fake_mutex(2));
        while (turn != me)
            EXPECT(pthread_cond_wait(fake_cond(), fake_mutex(2)), 0);
        turn = 1 - me;
        pthread_mutex_unlock(fake_mutex(2));
        if (i % 2)
            pthread_cond_broadcast(fake_cond());
        pthread_mutex_unlock(fake_mutex(2));
        if (i % 2 == 0)
            pthread_cond_signal(fake_cond());
    }
    return NULL;
}

static void *other(void *unused)
{
    (void)unused;
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_sec++;
        soon.tv_nsec -= 1000000000;
    }
    EXPECT(pthread_mutex_trylock(fake_mutex(1)), EBUSY);
    EXPECT(pthread_mutex_timedlock(fake_mutex(1), &soon), ETIMEDOUT);
    EXPECT(pthread_mutex_unlock(fake_mutex(2)), EPERM);
    EXPECT(pthread_cond_wait(fake_cond(), fake_mutex(2)), EPERM);
    return NULL;
}

static void threads_run(int threads, void *(*work)(void *))
{
    pthread_t ids[THREADS];
    for (long i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, (void *)i);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

int main(int argc, char **argv)
{
    (void)argv;
    alarm(100);
    if (argc > 1) {
        EXPECT(fake_share(), 0);
        return 0;
    }
    fake_start();
    threads_run(THREADS, count);
    EXPECT(counter == (long)THREADS * ROUNDS, 1);
    threads_run(2, alternate);
    pthread_mutex_lock(fake_mutex(1));
    pthread_mutex_lock(fake_mutex(2));
    threads_run(1, other);
    struct timespec past = {0, 0};
    EXPECT(pthread_mutex_lock(fake_mutex(0)), 0);
    EXPECT(pthread_cond_timedwait(fake_cond(), fake_mutex(0), &past), ETIMEDOUT);
    EXPECT(pthread_mutex_unlock(fake_mutex(0)), 0);
    EXPECT(pthread_mutex_destroy(fake_mutex(1)), EBUSY);
    pthread_mutex_unlock(fake_mutex(1));
    EXPECT(pthread_mutex_destroy(fake_mutex(1)), 0);
    pthread_mutex_unlock(fake_mutex(2));
    /* Mutexes elsewhere are left alone: a normal one is not recursive. */
    pthread_mutex_lock(&outside);
    EXPECT(pthread_mutex_trylock(&outside), EBUSY);
    pthread_mutex_unlock(&outside);
    puts("right");
    return 0;
}
