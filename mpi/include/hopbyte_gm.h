/* Network counters of a whole job: the three calls of paper 000, section IV, for any network.
 *
 * Surround a region with two reads, then print: one process for each counter domain (a Gemini router, a network
 * card, a host's interfaces) reads the counters, rank 0 of `comm` prints the difference of the last two samples in
 * the columns of paper 000, Fig. 4. All calls are collective over `comm`, and the communicator must be the one the
 * state was made with. They return 0, or -1 after a message on standard error, the same on every rank.
 *
 * Environment (README.md has all of it): HOPBYTE_GM_SOURCE, HOPBYTE_GM_INTERCONNECT, HOPBYTE_GM_OUTPUT. */
#ifndef HOPBYTE_GM_H
#define HOPBYTE_GM_H

#if defined(HOPBYTE_FLAVOUR_ABI) /* building the library itself needs no more than the ABI's header */
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
/* Takes a sample. Only leaders do anything, and nothing is sent: cheap enough for inner regions. */
int hopbyte_gm_read_counters(MPI_Comm comm, hopbyte_gm_state_t *state);
/* Prints the difference of the last two samples. A number that a reset, a wrap or a failed read spoiled is `-`. */
int hopbyte_gm_print_counters(MPI_Comm comm, hopbyte_gm_state_t *state);
/* The same between two samples of the last HOPBYTE_GM_SAMPLES: 0 is the last one taken, 1 the one before, … */
int hopbyte_gm_print_between(MPI_Comm comm, hopbyte_gm_state_t *state, int older, int newer);
int hopbyte_gm_free_state(MPI_Comm comm, hopbyte_gm_state_t *state);

/* Most bytes this library held at once in this process. */
size_t hopbyte_gm_memory_peak(void);
/* 1 when this process reads counters for others, and how many domains it reads. */
int hopbyte_gm_is_leader(const hopbyte_gm_state_t *state);
int hopbyte_gm_domain_count(const hopbyte_gm_state_t *state);

#ifdef __cplusplus
}
#endif

#endif
