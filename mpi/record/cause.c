/* How a process ended without MPI_Finalize: a word in the file of live.c. The counts are there without it. */
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int ending[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGXCPU};
enum { ENDING = sizeof ending / sizeof *ending };

static struct {
    struct sigaction next[ENDING];
    bool was_default[ENDING]; /* or UCX's */
    pid_t process; /* 0 until signals are watched */
    void (*exit)(int), (*quick_exit)(int);
} cause;

static bool is_default(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL;
}

/* Whether the handler is UCX's, set when an MPI that is linked with UCX is loaded: it prints, and the process ends. */
static bool is_transport(const struct sigaction *action)
{
    Dl_info place;
    void *handler;
    memcpy(&handler, &action->sa_sigaction, sizeof handler); /* the same bytes as sa_handler */
    if (!dladdr(handler, &place) || !place.dli_fname)
        return false;
    const char *name = strrchr(place.dli_fname, '/');
    return strncmp(name ? name + 1 : place.dli_fname, "libucs.so", 9) == 0;
}

/* Notes the signal, restores the action that was there before, and lets the signal happen again. */
static void signal_note(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno, at = 0;
    while (ending[at] != number)
        at++;
    if (cause.process == getpid())
        hopbyte_live_cause(CAUSE_SIGNAL, number);
    sigaction(number, &cause.next[at], NULL);
    bool faulted = info->si_code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL);
    if (!faulted) /* a fault happens again by itself when the instruction is repeated */
        syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info);
    errno = saved;
}

void hopbyte_cause_before(void)
{
    struct sigaction now;
    for (int i = 0; i < ENDING; i++)
        cause.was_default[i] = sigaction(ending[i], NULL, &now) == 0 && (is_default(&now) || is_transport(&now));
}

/* Handlers of the application are left alone, since they may mean to go on. */
void hopbyte_cause_watch(void)
{
    struct sigaction note = {.sa_sigaction = signal_note, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&note.sa_mask);
    cause.process = getpid();
    for (int i = 0; i < ENDING; i++)
        if (cause.was_default[i])
            sigaction(ending[i], &note, &cause.next[i]);
}

__attribute__((constructor)) static void exit_find(void)
{
    cause.exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    cause.quick_exit = (void (*)(int))dlsym(RTLD_NEXT, "quick_exit");
}

static _Noreturn void exit_note(enum hopbyte_cause word, int status, void (*next)(int))
{
    if (cause.process && cause.process == getpid())
        hopbyte_live_cause(word, status);
    if (next)
        next(status);
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

/* Calls of the application; exit() and the C library's own calls do not pass here. A child after vfork shares this
 * memory, hence the process. */
__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
    exit_note(CAUSE_EXIT, status, cause.exit);
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status) { _exit(status); }

/* Runs no destructors, hence not record_end_at_exit. */
__attribute__((visibility("default"), noreturn)) void quick_exit(int status)
{
    exit_note(CAUSE_QUICK_EXIT, status, cause.quick_exit);
}
