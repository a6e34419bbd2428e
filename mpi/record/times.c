/* Time in MPI: by call and by phase. Counted in the memory of live.c, so it outlives the process. */
#include "record.h"

#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool hopbyte_clock_is_counter, hopbyte_threaded;
struct hopbyte_call_time *hopbyte_call_times;
uint64_t *hopbyte_phase_ticks;

double hopbyte_seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The time-stamp counter is used where it runs at a constant rate in every state of the processor. */
static bool counter_is_constant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#else
    return false;
#endif
}

bool hopbyte_times_init(void)
{
    uint64_t offset;
    hopbyte_clock_is_counter = counter_is_constant();
    hopbyte_call_times = hopbyte_live_take(CALLS_MAX * sizeof *hopbyte_call_times, &offset);
    if (hopbyte_call_times)
        hopbyte_live->calls = offset;
    else
        hopbyte_call_times = calloc(CALLS_MAX, sizeof *hopbyte_call_times);
    hopbyte_phase_ticks = hopbyte_live_take(PHASES_MAX * sizeof *hopbyte_phase_ticks, &offset);
    if (hopbyte_phase_ticks)
        hopbyte_live->phase_ticks = offset;
    else
        hopbyte_phase_ticks = calloc(PHASES_MAX, sizeof *hopbyte_phase_ticks);
    hopbyte_live->first_ticks = hopbyte_clock();
    hopbyte_live->first_seconds = hopbyte_seconds_now();
    return hopbyte_call_times && hopbyte_phase_ticks;
}

double hopbyte_tick_seconds(void)
{
    uint64_t ticks = hopbyte_clock() - hopbyte_live->first_ticks;
    double seconds = hopbyte_seconds_now() - hopbyte_live->first_seconds;
    return hopbyte_clock_is_counter && ticks ? seconds / (double)ticks : 1e-9;
}

/* Below this time of a processor between two looks, a thread only looks. */
static const double LOOK_SECONDS = 2e-6;
_Thread_local uint64_t hopbyte_looked;
static _Thread_local struct {
    double tick;      /* seconds; 0 before the first look in vain */
    double processor; /* time of the thread's processor at its last look in vain */
    bool long_gaps;   /* there was one: the processor's time is read */
} look;

static double processor_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A thread that computes between two looks has the processor for that time; one that sleeps, yields or is waiting for its
 * turn has not. The clock of the processor takes ten times as long as the other: short gaps do without. */
uint64_t hopbyte_look_begin(uint64_t begun)
{
    uint64_t last = hopbyte_looked;
    if (!last || begun <= last)
        return begun;
    double seconds = (double)(begun - last) * look.tick;
    if (seconds < LOOK_SECONDS)
        return last;
    double computed = look.long_gaps ? processor_now() - look.processor : seconds;
    look.long_gaps = true;
    if (computed < LOOK_SECONDS)
        return last;
    return computed < seconds ? last + (uint64_t)(computed / look.tick) : begun;
}

void hopbyte_look_vain(uint64_t ended)
{
    if (look.tick == 0)
        look.tick = hopbyte_tick_seconds();
    hopbyte_looked = ended;
    if (look.long_gaps)
        look.processor = processor_now();
}

void hopbyte_thread_note(void)
{
    static _Thread_local bool known;
    if (__builtin_expect(known, 1))
        return;
    known = true;
    __atomic_fetch_add(&hopbyte_live->threads, 1, __ATOMIC_RELAXED);
}

uint64_t hopbyte_thread_ticks(uint64_t begun, uint64_t ended)
{
    hopbyte_thread_note();
    return hopbyte_moments_take(&hopbyte_live->last_ticks, begun, ended).inside;
}

void hopbyte_call_often(void)
{
    double tick = hopbyte_tick_seconds();
    __atomic_store(&hopbyte_live->tick_seconds, &tick, __ATOMIC_RELAXED);
}

/* Before the end of a first call, which may not come; with threads more than one may be in it. */
void hopbyte_call_name(int call)
{
    static bool named[CALLS_MAX];
    hopbyte_call_often();
    hopbyte_lock();
    if (!named[call])
        hopbyte_file_call(call);
    named[call] = true;
    hopbyte_unlock();
}
