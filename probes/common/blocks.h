/* A grid of blocks, one per rank, and the map of ranks to blocks that a task mapper changes.
 *
 * Blocks are numbered with the last dimension fastest, as MPI_Cart_create numbers ranks and `stencil:AxBxC` numbers
 * tasks. Without a map, rank r has block r. */
#ifndef HOPBYTE_BLOCKS_H
#define HOPBYTE_BLOCKS_H

#include "world.h"

#include <stdbool.h>

struct hopbyte_blocks {
    int count[3]; /* blocks along each dimension */
    bool periodic;
    int size;      /* blocks, and ranks */
    int *block_of; /* by rank */
    int *rank_of;  /* by block */
};

/* Sets up the grid and reads the map file, if any. Counts that are all zero are chosen near a cube. Refuses counts that
 * do not make one block a rank. */
void hopbyte_blocks_open(struct hopbyte_blocks *blocks, const struct hopbyte_world *world, const int count[3],
                         bool periodic, const char *map_path);
void hopbyte_blocks_close(struct hopbyte_blocks *blocks);

/* Coordinates of a block. */
void hopbyte_blocks_place(const struct hopbyte_blocks *blocks, int block, int place[3]);

/* The block next to one along a dimension (`step` +1 or -1), or -1 at an open end. */
int hopbyte_blocks_next(const struct hopbyte_blocks *blocks, int block, int dimension, int step);

/* Reads a map from the text of a file into `block_of`: lines `RANK BLOCK`, each rank and each block once; `ranks N`
 * must be the job's size if given, and `job NAME` must equal HOPBYTE_JOB, SLURM_JOB_ID or PBS_JOBID if both are
 * given. # starts a comment. Modifies the text. False: `problem` has the line and the words found. */
bool hopbyte_map_read(char *text, int size, int *block_of, char *problem, size_t room);

/* Makes `block_of` the map. */
void hopbyte_blocks_take(struct hopbyte_blocks *blocks, const int *block_of);

/* Writes the messages between blocks in one exchange as CSV `src,dst,bytes,messages`, tasks being blocks: every
 * rank gives the `count` entries of its own block. Written under a temporary name, then renamed. */
void hopbyte_traffic_write(const char *path, const struct hopbyte_blocks *blocks, const struct hopbyte_world *world,
                           int count, const int *to, const double *bytes, const double *messages);

#endif
