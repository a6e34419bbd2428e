/* The PMI and RCA calls of Cray machines over a file of coordinates (HOPBYTE_COORDS_FILE), for programs that adapt to the
 * network by them. Linked or preloaded. */
#ifndef HOPBYTE_TOPOLOGY_H
#define HOPBYTE_TOPOLOGY_H

#include "../common/coords.h"
#include "../common/deep.h"

/* The machine, read at the first use; NULL after a message, of which there is one in a process. */
const struct hopbyte_coords *hopbyte_machine(void);

/* Whether MPI is initialised and not finalised. */
bool hopbyte_mpi_running(void);
int hopbyte_topology_rank(void);
int hopbyte_topology_size(void);
/* Index of a rank's node in the machine, or -1: not in the file. Needs MPI for ranks other than one's own, and those with
 * a line `rank:N`; *known tells whether the answer is final. */
int hopbyte_topology_node(int rank, bool *known);

/* Three coordinates; false for a machine with more dimensions, after a message. */
bool hopbyte_topology_three(const int *from, uint16_t to[3]);

#endif
