/* A block of rows of a sparse matrix with its part of the vector and its plan of communication, contiguous in memory,
 * so that a rank can send it to another in one message.
 *
 * Rows belong to the cells of a 3-D grid, `unknowns` to a cell; an unknown is coupled with itself and with the same
 * unknown of the six neighbouring cells. The plan is derived from the columns, not from the grid: it would work for any
 * matrix distributed by rows. */
#ifndef HOPBYTE_PIECE_H
#define HOPBYTE_PIECE_H

#include "blocks.h"
#include "rooms.h"

struct hopbyte_shape {
    int cells[3];  /* of a block */
    int extent[3]; /* of the grid */
    int unknowns;  /* a cell */
    bool periodic;
};

enum { BLOCK, ROWS, ENTRIES, HALO, NEIGHBOURS, SENDS, COUNTS };

/* Row i has the entries row_first[i] … row_first[i + 1] - 1; columns from ROWS on are in the halo. Neighbour k (a
 * block) sends receive_first[k] … of the halo and gets the rows send_row[send_first[k] …]. */
struct hopbyte_piece {
    int count[COUNTS];
    struct hopbyte_rooms rooms;
    double *memory;    /* its room, which holds everything below, in this order */
    double *value, *x; /* x: own rows, then the halo, which is not sent */
    int *row_first, *column, *neighbour, *receive_first, *send_first, *send_row;
    double *y, *out; /* work space of this rank */
    MPI_Request *requests;
    int *everyone; /* counts of every block, by block */
};

/* Global row of a block's row, and back. */
long hopbyte_row_global(const struct hopbyte_shape *shape, const struct hopbyte_blocks *blocks, int block, int row);
int hopbyte_row_owner(const struct hopbyte_shape *shape, const struct hopbyte_blocks *blocks, long global, int *row);

/* The entry of the matrix at a global row and column: a whole number in -4 … 4, never 0. */
double hopbyte_matrix_value(long row, long column);
/* The initial vector: whole numbers in -1024 … 1023. */
double hopbyte_vector_start(long row);
/* Global columns of a row, at most seven, the diagonal first. */
int hopbyte_matrix_columns(const struct hopbyte_shape *shape, long row, long columns[7]);

/* Makes this rank's piece; the ranks exchange the lists of values they need. With `share`, pieces are handed over
 * without a copy between ranks of one host. Collective. */
void hopbyte_piece_make(struct hopbyte_piece *piece, const struct hopbyte_shape *shape,
                        const struct hopbyte_blocks *blocks, bool share, const struct hopbyte_world *world);
void hopbyte_piece_free(struct hopbyte_piece *piece);

/* x becomes A x, folded (hopbyte_fold), so that it stays exact. Returns the seconds of communication. */
double hopbyte_piece_multiply(struct hopbyte_piece *piece, const struct hopbyte_blocks *blocks,
                              const struct hopbyte_world *world);

/* Move of a rank's piece: bytes sent to another host, and bytes handed over on this one. */
struct hopbyte_moved {
    double sent, handed;
};

/* Gives every piece to the rank that has its block in `next`, and makes that the map. Collective; all ranks must enter
 * it before any rank enters the next one. */
struct hopbyte_moved hopbyte_piece_migrate(struct hopbyte_piece *piece, struct hopbyte_blocks *blocks, const int *next,
                                           const struct hopbyte_world *world);

/* Position-dependent checksum over matrix and vector of all ranks: detects a lost, doubled or misplaced piece.
 */
unsigned long long hopbyte_piece_sum(const struct hopbyte_piece *piece, const struct hopbyte_shape *shape,
                                     const struct hopbyte_blocks *blocks, const struct hopbyte_world *world);

/* The whole vector in global order at rank 0; elsewhere NULL. Collective. */
double *hopbyte_vector_gather(const struct hopbyte_piece *piece, const struct hopbyte_shape *shape,
                              const struct hopbyte_blocks *blocks, const struct hopbyte_world *world);

#endif
