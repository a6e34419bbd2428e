/* The Gemini monitor library's calls by their original names (paper 000, section IV); see hopbyte_gm.h. */
#ifndef HOPBYTE_GEMINI_H
#define HOPBYTE_GEMINI_H

#include "hopbyte_gm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef hopbyte_gm_state_t gemini_state_t;

int gemini_init_state(MPI_Comm comm, gemini_state_t *state);
int gemini_read_counters(MPI_Comm comm, gemini_state_t *state);
int gemini_print_counters(MPI_Comm comm, gemini_state_t *state);

#ifdef __cplusplus
}
#endif

#endif
