#include "halo.h"

#include <stdlib.h>
#include <string.h>

size_t hopbyte_halo_cells(const struct hopbyte_halo *halo) {
    return (size_t)(halo->n[0] + 2) * (size_t)(halo->n[1] + 2) * (size_t)(halo->n[2] + 2);
}

size_t hopbyte_halo_cell(const struct hopbyte_halo *halo, int x, int y, int z) {
    return ((size_t)(x + 1) * (size_t)(halo->n[1] + 2) + (size_t)(y + 1)) * (size_t)(halo->n[2] + 2) + (size_t)(z + 1);
}

/* Along dimension d, the faces include the ghosts of earlier dimensions, already filled, but not of later ones. */
static int first_cell(int dimension, int d) {
    return d < dimension ? -1 : 0;
}

static int last_cell(const struct hopbyte_halo *halo, int dimension, int d) {
    return d < dimension ? halo->n[d] : halo->n[d] - 1;
}

size_t hopbyte_halo_face(const struct hopbyte_halo *halo, int dimension) {
    size_t cells = 1;
    for (int d = 0; d < 3; d++)
        if (d != dimension)
            cells *= (size_t)(last_cell(halo, dimension, d) - first_cell(dimension, d) + 1);
    return cells;
}

void hopbyte_halo_open(struct hopbyte_halo *halo, const struct hopbyte_world *world,
                       const struct hopbyte_blocks *blocks, const int n[3], int variables) {
    size_t largest = 0;
    *halo = (struct hopbyte_halo){.comm = world->comm, .n = {n[0], n[1], n[2]}, .variables = variables};
    for (int d = 0; d < 3; d++) {
        size_t face = hopbyte_halo_face(halo, d);
        largest = face > largest ? face : largest;
        for (int up = 0; up < 2; up++) {
            int next = hopbyte_blocks_next(blocks, blocks->block_of[world->rank], d, up ? 1 : -1);
            halo->next[d][up] = next;
            halo->neighbour[d][up] = next < 0 ? MPI_PROC_NULL : blocks->rank_of[next];
        }
    }
    if (largest * (size_t)variables > 200000000)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found faces of %zu values, expected at most 200 million",
                             largest * (size_t)variables);
    for (int up = 0; up < 2; up++) {
        halo->out[up] = hopbyte_memory(largest * (size_t)variables * sizeof(double), "faces");
        halo->in[up] = hopbyte_memory(largest * (size_t)variables * sizeof(double), "faces");
    }
}

void hopbyte_halo_close(struct hopbyte_halo *halo) {
    for (int up = 0; up < 2; up++) {
        free(halo->out[up]);
        free(halo->in[up]);
    }
}

/* Copies the layer `at` of a dimension between the variables and a buffer. */
static void face_copy(const struct hopbyte_halo *halo, double *variables, int count, int dimension, int at,
                      double *buffer, bool out) {
    int low[3], high[3];
    size_t cells = hopbyte_halo_cells(halo);
    for (int d = 0; d < 3; d++) {
        low[d] = d == dimension ? at : first_cell(dimension, d);
        high[d] = d == dimension ? at : last_cell(halo, dimension, d);
    }
    size_t row = (size_t)(high[2] - low[2] + 1);
    for (int v = 0; v < count; v++)
        for (int x = low[0]; x <= high[0]; x++)
            for (int y = low[1]; y <= high[1]; y++, buffer += row) {
                double *cell = variables + (size_t)v * cells + hopbyte_halo_cell(halo, x, y, low[2]);
                if (out)
                    memcpy(buffer, cell, row * sizeof *cell);
                else
                    memcpy(cell, buffer, row * sizeof *cell);
            }
}

void hopbyte_halo_exchange(struct hopbyte_halo *halo, double *variables, int count) {
    for (int d = 0; d < 3; d++) {
        MPI_Request requests[4];
        int values = (int)(hopbyte_halo_face(halo, d) * (size_t)count);
        /* Tags by direction: in a ring of two both messages come from the same rank. */
        for (int up = 0; up < 2; up++)
            MPI_Irecv(halo->in[up], values, MPI_DOUBLE, halo->neighbour[d][up], 2 * d + !up, halo->comm, &requests[up]);
        for (int up = 0; up < 2; up++) {
            if (halo->next[d][up] >= 0)
                face_copy(halo, variables, count, d, up ? halo->n[d] - 1 : 0, halo->out[up], true);
            MPI_Isend(halo->out[up], values, MPI_DOUBLE, halo->neighbour[d][up], 2 * d + up, halo->comm,
                      &requests[2 + up]);
        }
        hopbyte_wait_all(4, requests);
        for (int up = 0; up < 2; up++)
            if (halo->next[d][up] >= 0)
                face_copy(halo, variables, count, d, up ? halo->n[d] : -1, halo->in[up], false);
    }
}

int hopbyte_halo_traffic(const struct hopbyte_halo *halo, int variables, int messages, int *to, double *bytes,
                         double *count) {
    int used = 0;
    for (int d = 0; d < 3; d++)
        for (int up = 0; up < 2; up++)
            if (halo->next[d][up] >= 0) {
                to[used] = halo->next[d][up];
                bytes[used] = (double)hopbyte_halo_face(halo, d) * variables * sizeof(double);
                count[used++] = messages;
            }
    return used;
}
