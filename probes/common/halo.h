/* Ghost cells of a 3-D array of doubles, exchanged face by face along one dimension after the other, so that edges and
 * corners arrive too (26 neighbours with six messages). */
#ifndef HOPBYTE_HALO_H
#define HOPBYTE_HALO_H

#include "blocks.h"

struct hopbyte_halo {
    MPI_Comm comm;
    int n[3];            /* cells of a block, without ghosts */
    int neighbour[3][2]; /* rank below and above, or MPI_PROC_NULL */
    int next[3][2];      /* block below and above, or -1 */
    double *out[2], *in[2];
    int variables; /* size of the buffers */
};

/* Neighbours of this rank's block; buffers for `variables` at once. */
void hopbyte_halo_open(struct hopbyte_halo *halo, const struct hopbyte_world *world,
                       const struct hopbyte_blocks *blocks, const int n[3], int variables);
void hopbyte_halo_close(struct hopbyte_halo *halo);

/* Doubles of one variable with its ghosts, and the index of cell (x, y, z) in it; -1 and n are ghosts. */
size_t hopbyte_halo_cells(const struct hopbyte_halo *halo);
size_t hopbyte_halo_cell(const struct hopbyte_halo *halo, int x, int y, int z);

/* Doubles of a face along a dimension, ghosts of the dimensions before it included. */
size_t hopbyte_halo_face(const struct hopbyte_halo *halo, int dimension);

/* Fills the ghosts of `count` contiguous variables, all of them in one message per neighbour. */
void hopbyte_halo_exchange(struct hopbyte_halo *halo, double *variables, int count);

/* Messages of a block in one exchange of all variables with `messages` messages per face: six entries at most. Returns
 * the number of entries. For hopbyte_traffic_write. */
int hopbyte_halo_traffic(const struct hopbyte_halo *halo, int variables, int messages, int *to, double *bytes,
                         double *count);

#endif
