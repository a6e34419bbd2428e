/* Ranks that yield the processor while they wait sleep for 200 microseconds instead, so that sixteen ranks of Open MPI
 * (mpi_yield_when_idle) wait on two processors without filling them. Preloaded by run.py into all runs alike. */
#include <sched.h>
#include <time.h>

int sched_yield(void) {
    struct timespec nap = {0, 200000};
    nanosleep(&nap, NULL);
    return 0;
}
