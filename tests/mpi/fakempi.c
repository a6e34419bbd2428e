/* A library with a name and data like an MPI library's, to test what happens to its mutexes (libmpifake.so). */
#include <pthread.h>

/* Static, as an MPI library's are hidden: a program that names a variable has a copy of it in its own data. */
static pthread_mutex_t fake_static = PTHREAD_MUTEX_INITIALIZER, fake_made, fake_recursive;
static pthread_cond_t fake_condition = PTHREAD_COND_INITIALIZER;

pthread_mutex_t *fake_mutex(int number)
{
    return number == 0 ? &fake_static : number == 1 ? &fake_made : &fake_recursive;
}

pthread_cond_t *fake_cond(void)
{
    return &fake_condition;
}

void fake_start(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_init(&fake_made, NULL);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&fake_recursive, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

int fake_share(void)
{
    static pthread_mutex_t shared;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    return pthread_mutex_init(&shared, &attributes);
}
