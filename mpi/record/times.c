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

void hopbyte_call_often(int call, uint64_t calls)
{
    double tick = hopbyte_tick_seconds();
    if (calls == 1) {
        hopbyte_lock();
        hopbyte_file_call(call);
        hopbyte_unlock();
    }
    __atomic_store(&hopbyte_live->tick_seconds, &tick, __ATOMIC_RELAXED);
}
