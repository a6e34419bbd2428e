/* Notified one-sided communication: data and a signal to another rank, by any number of threads, on MPI-3 RMA.
 *
 * The pattern of paper 004, VII (SNAP and WOMBAT): "A single RMA window and buffer manages both payload and signals in
 * a passive exposure epoch that persists for the full execution time." MPI has no such call (a put and an accumulate
 * are unordered); this is the portable sequence: put, flush, atomic add on a 64-bit counter of the target.
 *
 * Semantics
 * - Every rank has `signals` counters, zero at first, which only grow. A signal adds to one; the waiter gives the value
 *   that it needs. Counters of several senders and threads add up; none is lost, and none comes twice.
 * - A signal becomes visible after the data of all puts that the same thread issued before to the same target. Puts of
 *   other threads, and puts to other targets, are not ordered with it.
 * - hopbyte_notify_signal and hopbyte_notify_put_signal return when data and signal are complete at the target; the
 *   origin's buffer may then be changed. After hopbyte_notify_put alone it may not be.
 * - When hopbyte_notify_wait returns, or hopbyte_notify_test finds the value, loads see the data. The receiver says by
 *   a signal of its own that the memory may be overwritten: nothing else keeps a sender from overtaking.
 * - Waiting threads spin, for long only if the host has a processor for each, then sleep for tens of microseconds
 *   between looks, so that more threads than processors do not starve each other. One of them at a time calls MPI to
 *   make progress.
 *
 * Threads. All calls but create and free may be made by any number of threads at once if MPI was initialised with
 * MPI_THREAD_MULTIPLE. Create and free are collective, called by one thread of each rank.
 *
 * Errors. Every call returns an MPI error code, after calling the error handler that the communicator had at creation:
 * by default an error ends the job. Create returns the same outcome on every rank where arguments are wrong on one.
 *   MPI_ERR_ARG            no handle; a signal outside 0 … signals-1; a signal that adds 0; unequal `signals`
 *   MPI_ERR_RANK           target outside the communicator (MPI_PROC_NULL is allowed and does nothing)
 *   MPI_ERR_SIZE           negative `bytes`
 *   MPI_ERR_BUFFER         no buffer, with bytes above zero
 *   MPI_ERR_RMA_RANGE      the data would not lie in the target's memory
 *   MPI_ERR_UNSUPPORTED_OPERATION  the MPI library offers only the separate memory model
 *   MPI_ERR_OTHER          a wait took longer than HOPBYTE_NOTIFY_TIMEOUT seconds (unset or 0: no limit); progress may
 *                          have been made since, and the wait may be repeated
 *   others                 as returned by the MPI library
 * hopbyte_notify_reason gives the words found and expected.
 *
 * Library: libhopbyte_notify_{ompi,mpich,abi}.so; it calls the MPI_ functions of the program, so that tools see them. */
#ifndef HOPBYTE_NOTIFY_H
#define HOPBYTE_NOTIFY_H

#if defined(HOPBYTE_FLAVOUR_ABI) /* the library's own build needs only the ABI's header */
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hopbyte_notify *hopbyte_notify_t;

/* Collective over `comm`. `memory` receives the address (void *) of this rank's `bytes` bytes, zeroed and aligned to 64;
 * ranks may ask for different sizes, but for the same number of signals. `info` goes to MPI_Win_allocate. */
int hopbyte_notify_create(MPI_Aint bytes, int signals, MPI_Info info, MPI_Comm comm, void *memory,
                          hopbyte_notify_t *notify);
/* Collective. Every signal sent must have been waited for, or be of no interest; sets the handle to NULL. */
int hopbyte_notify_free(hopbyte_notify_t *notify);

/* Starts the transfer of `bytes` bytes to offset `at` of the target's memory. */
int hopbyte_notify_put(hopbyte_notify_t notify, const void *from, MPI_Aint bytes, int target, MPI_Aint at);
/* Completes this thread's puts to the target, then adds `add` to its counter. */
int hopbyte_notify_signal(hopbyte_notify_t notify, int target, int signal, uint64_t add);
/* Both. */
int hopbyte_notify_put_signal(hopbyte_notify_t notify, const void *from, MPI_Aint bytes, int target, MPI_Aint at,
                              int signal, uint64_t add);

/* Whether this rank's counter is at least `least`, and its value (may be NULL). Makes progress if it is not. */
int hopbyte_notify_test(hopbyte_notify_t notify, int signal, uint64_t least, int *flag, uint64_t *value);
/* Waits until it is. */
int hopbyte_notify_wait(hopbyte_notify_t notify, int signal, uint64_t least, uint64_t *value);

/* Text of this thread's last error, "" if there was none. */
const char *hopbyte_notify_reason(void);

#ifdef __cplusplus
}
#endif

#endif
