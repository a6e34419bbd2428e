/* Network counters of a whole job: the three calls of paper 000, section IV, for any network.
 *
 * Surround a region with two reads, then print: one process for each counter domain (a Gemini router, a network
 * card, a host's interfaces) reads the counters, rank 0 of `comm` prints the difference of the last two samples in
 * the columns of paper 000, Fig. 4. All calls are collective over `comm`, which must be the communicator that the
 * state was initialised with. They return 0, or -1 after a message on standard error, the same on every rank.
 *
 * Environment (README.md has the full list): HOPBYTE_GM_SOURCE, HOPBYTE_GM_INTERCONNECT, HOPBYTE_GM_OUTPUT. */
#ifndef HOPBYTE_GM_H
#define HOPBYTE_GM_H

#if defined(HOPBYTE_FLAVOUR_ABI) /* the library's own build needs only the ABI's header */
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hopbyte_gm_state {
    struct hopbyte_gm *gm;
} hopbyte_gm_state_t;

/* Finds the domains, their leaders and their links. */
int hopbyte_gm_init_state(MPI_Comm comm, hopbyte_gm_state_t *state);
/* Takes a sample. Only leaders read, and nothing is sent: cheap enough for inner regions. */
int hopbyte_gm_read_counters(MPI_Comm comm, hopbyte_gm_state_t *state);
/* Prints the difference of the last two samples. A value invalidated by a reset, a wrap or a failed read is `-`. */
int hopbyte_gm_print_counters(MPI_Comm comm, hopbyte_gm_state_t *state);
/* The same between two samples of the last HOPBYTE_GM_SAMPLES: 0 is the last one taken, 1 the one before, … */
int hopbyte_gm_print_between(MPI_Comm comm, hopbyte_gm_state_t *state, int older, int newer);
int hopbyte_gm_free_state(MPI_Comm comm, hopbyte_gm_state_t *state);

/* Peak memory of this library in this process, in bytes. */
size_t hopbyte_gm_memory_peak(void);
/* 1 when this process is a leader, and the number of domains it reads. */
int hopbyte_gm_is_leader(const hopbyte_gm_state_t *state);
int hopbyte_gm_domain_count(const hopbyte_gm_state_t *state);

#ifdef __cplusplus
}
#endif

#endif
