#include "piece.h"

#include "proxy.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_NEED = 1, TAG_VALUES, TAG_PIECE };

static void cell_place(const struct hopbyte_shape *shape, long cell, int place[3]) {
    place[2] = (int)(cell % shape->extent[2]);
    place[1] = (int)(cell / shape->extent[2] % shape->extent[1]);
    place[0] = (int)(cell / shape->extent[2] / shape->extent[1]);
}

static long cell_number(const struct hopbyte_shape *shape, const int place[3]) {
    return ((long)place[0] * shape->extent[1] + place[1]) * shape->extent[2] + place[2];
}

long hopbyte_row_global(const struct hopbyte_shape *shape, const struct hopbyte_blocks *blocks, int block, int row) {
    const int *n = shape->cells;
    int place[3], cell = row / shape->unknowns;
    hopbyte_blocks_place(blocks, block, place);
    const int at[3] = {place[0] * n[0] + cell / n[2] / n[1], place[1] * n[1] + cell / n[2] % n[1],
                       place[2] * n[2] + cell % n[2]};
    return cell_number(shape, at) * shape->unknowns + row % shape->unknowns;
}

int hopbyte_row_owner(const struct hopbyte_shape *shape, const struct hopbyte_blocks *blocks, long global, int *row) {
    const int *n = shape->cells;
    int at[3];
    cell_place(shape, global / shape->unknowns, at);
    int cell = (at[0] % n[0] * n[1] + at[1] % n[1]) * n[2] + at[2] % n[2];
    *row = cell * shape->unknowns + (int)(global % shape->unknowns);
    return (at[0] / n[0] * blocks->count[1] + at[1] / n[1]) * blocks->count[2] + at[2] / n[2];
}

double hopbyte_matrix_value(long row, long column) {
    int value = (int)(hopbyte_scramble(hopbyte_scramble((uint64_t)row) + (uint64_t)column) % 8);
    return value < 4 ? value - 4 : value - 3;
}

double hopbyte_vector_start(long row) {
    return (double)(hopbyte_scramble(~(uint64_t)row) % 2048) - 1024;
}

int hopbyte_matrix_columns(const struct hopbyte_shape *shape, long row, long columns[7]) {
    int place[3], count = 0;
    long unknown = row % shape->unknowns;
    columns[count++] = row;
    for (int d = 0; d < 3; d++)
        for (int step = -1; step <= 1; step += 2) {
            cell_place(shape, row / shape->unknowns, place);
            place[d] += step;
            if (!shape->periodic && (place[d] < 0 || place[d] >= shape->extent[d]))
                continue;
            place[d] = (place[d] + shape->extent[d]) % shape->extent[d];
            columns[count++] = cell_number(shape, place) * shape->unknowns + unknown;
        }
    return count;
}

/* Doubles that travel with a piece, and all doubles of its memory. */
static size_t ints_room(const int *count) {
    size_t ints =
        (size_t)count[ROWS] + 1 + (size_t)count[ENTRIES] + 3 * (size_t)count[NEIGHBOURS] + 2 + (size_t)count[SENDS];
    return (ints * sizeof(int) + sizeof(double) - 1) / sizeof(double);
}

static size_t piece_travels(const int *count) {
    return (size_t)count[ENTRIES] + ints_room(count) + (size_t)count[ROWS];
}

static size_t piece_room(const int *count) {
    return piece_travels(count) + (size_t)count[HALO];
}

/* Lays out the arrays in the given memory: values, whole numbers, vector. */
static void piece_point(struct hopbyte_piece *p) {
    const int *count = p->count;
    p->value = p->memory;
    p->row_first = (int *)(p->value + count[ENTRIES]);
    p->column = p->row_first + count[ROWS] + 1;
    p->neighbour = p->column + count[ENTRIES];
    p->receive_first = p->neighbour + count[NEIGHBOURS];
    p->send_first = p->receive_first + count[NEIGHBOURS] + 1;
    p->send_row = p->send_first + count[NEIGHBOURS] + 1;
    p->x = p->value + count[ENTRIES] + ints_room(count);
}

/* Allocates rooms for the largest block before the first move; otherwise page faults would take most of a move. */
static void piece_rooms_take(struct hopbyte_piece *p, bool share, const struct hopbyte_world *world) {
    size_t room = 0, sends = 0, neighbours = 0;
    for (int block = 0; block < world->size; block++) {
        const int *count = p->everyone + (size_t)block * COUNTS;
        room = piece_room(count) > room ? piece_room(count) : room;
        sends = (size_t)count[SENDS] > sends ? (size_t)count[SENDS] : sends;
        neighbours = (size_t)count[NEIGHBOURS] > neighbours ? (size_t)count[NEIGHBOURS] : neighbours;
    }
    hopbyte_rooms_open(&p->rooms, room * sizeof(double), share, world);
    p->memory = hopbyte_rooms_own(&p->rooms, world);
    p->y = hopbyte_memory((size_t)p->count[ROWS] * sizeof *p->y, "the product");
    p->out = hopbyte_memory(sends * sizeof *p->out, "messages");
    p->requests = hopbyte_memory(2 * neighbours * sizeof *p->requests, "requests");
}

void hopbyte_piece_free(struct hopbyte_piece *p) {
    hopbyte_rooms_close(&p->rooms);
    free(p->y);
    free(p->out);
    free(p->requests);
    free(p->everyone);
    memset(p, 0, sizeof *p);
}

/* A value of another block that this block's rows use. */
struct need {
    int block, row; /* its owner, and its place there */
    int entry;      /* of this piece */
};

static int by_owner(const void *a, const void *b) {
    const struct need *m = a, *n = b;
    if (m->block != n->block)
        return m->block < n->block ? -1 : 1;
    return (m->row > n->row) - (m->row < n->row);
}

/* Columns and values of all rows; needs are collected, and columns of other blocks are left for later. */
static int rows_make(struct hopbyte_piece *p, const struct hopbyte_shape *shape, const struct hopbyte_blocks *blocks,
                     struct need *needs) {
    int used = 0, entry = 0;
    for (int row = 0; row < p->count[ROWS]; row++) {
        long columns[7], global = hopbyte_row_global(shape, blocks, p->count[BLOCK], row);
        int count = hopbyte_matrix_columns(shape, global, columns);
        p->row_first[row] = entry;
        p->x[row] = hopbyte_vector_start(global);
        for (int i = 0; i < count; i++, entry++) {
            int owner = hopbyte_row_owner(shape, blocks, columns[i], &p->column[entry]);
            p->value[entry] = hopbyte_matrix_value(global, columns[i]);
            if (owner != p->count[BLOCK])
                needs[used++] = (struct need){owner, p->column[entry], entry};
        }
    }
    p->row_first[p->count[ROWS]] = entry;
    qsort(needs, (size_t)used, sizeof *needs, by_owner);
    return used;
}

static bool same_value(const struct need *a, const struct need *b) {
    return a->block == b->block && a->row == b->row;
}

/* Number of values requested from each block (`asked`), and their sum. */
static int needs_count(const struct need *needs, int used, int *asked) {
    int halo = 0;
    for (int i = 0; i < used; i++)
        if (i == 0 || !same_value(&needs[i - 1], &needs[i])) {
            asked[needs[i].block]++;
            halo++;
        }
    return halo;
}

/* Exchanges the requests: `given[b]` becomes the number of values that block b needs from this one. */
static void counts_exchange(const int *asked, int *given, const struct hopbyte_blocks *blocks,
                            const struct hopbyte_world *world) {
    int *by_rank = hopbyte_memory(2 * (size_t)blocks->size * sizeof *by_rank, "the plan");
    int *answer = by_rank + blocks->size;
    for (int block = 0; block < blocks->size; block++)
        by_rank[blocks->rank_of[block]] = asked[block];
    MPI_Alltoall(by_rank, 1, MPI_INT, answer, 1, MPI_INT, world->comm);
    for (int block = 0; block < blocks->size; block++)
        given[block] = answer[blocks->rank_of[block]];
    free(by_rank);
}

/* Fills neighbours and ranges, and exchanges the lists of wanted rows. */
static void plan_make(struct hopbyte_piece *p, const int *asked, const int *given, const int *wanted,
                      const struct hopbyte_blocks *blocks, const struct hopbyte_world *world) {
    int k = 0;
    for (int block = 0; block < blocks->size; block++) {
        if (!asked[block] && !given[block])
            continue;
        p->neighbour[k] = block;
        p->receive_first[k + 1] = p->receive_first[k] + asked[block];
        p->send_first[k + 1] = p->send_first[k] + given[block];
        k++;
    }
    for (int i = 0; i < k; i++) {
        int other = blocks->rank_of[p->neighbour[i]];
        MPI_Irecv(p->send_row + p->send_first[i], p->send_first[i + 1] - p->send_first[i], MPI_INT, other, TAG_NEED,
                  world->comm, &p->requests[i]);
        MPI_Isend(wanted + p->receive_first[i], p->receive_first[i + 1] - p->receive_first[i], MPI_INT, other, TAG_NEED,
                  world->comm, &p->requests[k + i]);
    }
    MPI_Waitall(2 * k, p->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < p->count[SENDS]; i++)
        if (p->send_row[i] < 0 || p->send_row[i] >= p->count[ROWS])
            hopbyte_world_abort(HOPBYTE_NO, "a neighbour asked for row %d of %d: a message was damaged", p->send_row[i],
                                p->count[ROWS]);
}

static int sum_of(const int *counts, int count, int *nonzero, const int *others) {
    int sum = 0;
    *nonzero = 0;
    for (int i = 0; i < count; i++) {
        sum += counts[i];
        *nonzero += counts[i] || others[i];
    }
    return sum;
}

/* The counts of every block, which no move changes, so the receiver of a block knows its size beforehand. */
static void everyone_gather(struct hopbyte_piece *p, const struct hopbyte_world *world) {
    size_t all = (size_t)world->size * COUNTS;
    int *counts = hopbyte_memory(all * sizeof *counts, "sizes of blocks");
    p->everyone = hopbyte_memory(all * sizeof *p->everyone, "sizes of blocks");
    MPI_Allgather(p->count, COUNTS, MPI_INT, counts, COUNTS, MPI_INT, world->comm);
    for (int rank = 0; rank < world->size; rank++)
        memcpy(p->everyone + (size_t)counts[rank * COUNTS + BLOCK] * COUNTS, counts + (size_t)rank * COUNTS,
               COUNTS * sizeof *counts);
    free(counts);
}

void hopbyte_piece_make(struct hopbyte_piece *piece, const struct hopbyte_shape *shape,
                        const struct hopbyte_blocks *blocks, bool share, const struct hopbyte_world *world) {
    struct hopbyte_piece draft = {.count = {[BLOCK] = blocks->block_of[world->rank]}}, *p = &draft;
    long columns[7];
    p->count[ROWS] = shape->cells[0] * shape->cells[1] * shape->cells[2] * shape->unknowns;
    for (int row = 0; row < p->count[ROWS]; row++)
        p->count[ENTRIES] +=
            hopbyte_matrix_columns(shape, hopbyte_row_global(shape, blocks, p->count[BLOCK], row), columns);
    p->memory = hopbyte_memory(piece_room(p->count) * sizeof(double), "a draft of the matrix");
    piece_point(p);
    struct need *needs = hopbyte_memory((size_t)p->count[ENTRIES] * sizeof *needs, "the plan");
    int *asked = hopbyte_memory(2 * (size_t)blocks->size * sizeof *asked, "the plan"), *given = asked + blocks->size;
    int used = rows_make(p, shape, blocks, needs);
    int halo = needs_count(needs, used, asked);
    counts_exchange(asked, given, blocks, world);
    /* Now the counts are known; the piece gets its final memory. */
    *piece = (struct hopbyte_piece){0};
    memcpy(piece->count, p->count, sizeof p->count);
    piece->count[HALO] = halo;
    piece->count[SENDS] = sum_of(given, blocks->size, &piece->count[NEIGHBOURS], asked);
    everyone_gather(piece, world);
    piece_rooms_take(piece, share, world);
    piece_point(piece);
    memcpy(piece->value, p->value, (size_t)p->count[ENTRIES] * sizeof *p->value);
    memcpy(piece->row_first, p->row_first, ((size_t)p->count[ROWS] + 1) * sizeof *p->row_first);
    memcpy(piece->column, p->column, (size_t)p->count[ENTRIES] * sizeof *p->column);
    memcpy(piece->x, p->x, (size_t)p->count[ROWS] * sizeof *p->x);
    int *wanted = hopbyte_memory((size_t)halo * sizeof *wanted, "the plan");
    for (int i = 0, place = -1; i < used; i++) {
        if (i == 0 || !same_value(&needs[i - 1], &needs[i]))
            wanted[++place] = needs[i].row;
        piece->column[needs[i].entry] = piece->count[ROWS] + place;
    }
    plan_make(piece, asked, given, wanted, blocks, world);
    free(p->memory);
    free(needs);
    free(asked);
    free(wanted);
}

static void halo_exchange(struct hopbyte_piece *p, const struct hopbyte_blocks *blocks,
                          const struct hopbyte_world *world) {
    int neighbours = p->count[NEIGHBOURS];
    for (int k = 0; k < neighbours; k++)
        MPI_Irecv(p->x + p->count[ROWS] + p->receive_first[k], p->receive_first[k + 1] - p->receive_first[k],
                  MPI_DOUBLE, blocks->rank_of[p->neighbour[k]], TAG_VALUES, world->comm, &p->requests[k]);
    for (int k = 0; k < neighbours; k++) {
        for (int i = p->send_first[k]; i < p->send_first[k + 1]; i++)
            p->out[i] = p->x[p->send_row[i]];
        MPI_Isend(p->out + p->send_first[k], p->send_first[k + 1] - p->send_first[k], MPI_DOUBLE,
                  blocks->rank_of[p->neighbour[k]], TAG_VALUES, world->comm, &p->requests[neighbours + k]);
    }
    hopbyte_wait_all(2 * neighbours, p->requests);
}

double hopbyte_piece_multiply(struct hopbyte_piece *p, const struct hopbyte_blocks *blocks,
                              const struct hopbyte_world *world) {
    double start = MPI_Wtime();
    halo_exchange(p, blocks, world);
    double seconds = MPI_Wtime() - start;
    for (int row = 0; row < p->count[ROWS]; row++) {
        double sum = 0;
        for (int i = p->row_first[row]; i < p->row_first[row + 1]; i++)
            sum += p->value[i] * p->x[p->column[i]];
        p->y[row] = sum;
    }
    for (int row = 0; row < p->count[ROWS]; row++)
        p->x[row] = hopbyte_fold(p->y[row]);
    return seconds;
}

struct hopbyte_moved hopbyte_piece_migrate(struct hopbyte_piece *piece, struct hopbyte_blocks *blocks, const int *next,
                                           const struct hopbyte_world *world) {
    const int *coming = piece->everyone + (size_t)next[world->rank] * COUNTS;
    size_t out = piece_travels(piece->count), in = piece_travels(coming);
    MPI_Request both[2];
    int count = 0, *from = hopbyte_memory((size_t)world->size * sizeof *from, "a move");
    for (int rank = 0; rank < world->size; rank++)
        from[rank] = blocks->rank_of[next[rank]];
    struct hopbyte_way way = hopbyte_rooms_move(&piece->rooms, from, world);
    double *there = hopbyte_rooms_own(&piece->rooms, world), bytes = (double)(out * sizeof(double));
    hopbyte_blocks_take(blocks, next);
    free(from);
    if (way.to == world->rank)
        return (struct hopbyte_moved){0};
    if (!way.taken)
        MPI_Irecv(there, (int)in, MPI_DOUBLE, way.from, TAG_PIECE, world->comm, &both[count++]);
    if (way.given)
        hopbyte_rooms_leave(&piece->rooms, &way);
    else
        MPI_Isend(piece->memory, (int)out, MPI_DOUBLE, way.to, TAG_PIECE, world->comm, &both[count++]);
    if (way.taken)
        hopbyte_rooms_enter(&piece->rooms, &way);
    hopbyte_wait_quietly(count, both);
    piece->memory = there;
    memcpy(piece->count, coming, sizeof piece->count);
    piece_point(piece);
    return (struct hopbyte_moved){.sent = way.given ? 0 : bytes, .handed = way.given ? bytes : 0};
}

unsigned long long hopbyte_piece_sum(const struct hopbyte_piece *p, const struct hopbyte_shape *shape,
                                     const struct hopbyte_blocks *blocks, const struct hopbyte_world *world) {
    unsigned long long sum = 0, all;
    for (int row = 0; row < p->count[ROWS]; row++) {
        uint64_t global = (uint64_t)hopbyte_row_global(shape, blocks, p->count[BLOCK], row), bits;
        memcpy(&bits, &p->x[row], sizeof bits);
        sum += hopbyte_scramble(hopbyte_scramble(global) ^ bits);
        for (int i = p->row_first[row]; i < p->row_first[row + 1]; i++) {
            memcpy(&bits, &p->value[i], sizeof bits);
            sum += hopbyte_scramble(hopbyte_scramble(global + ((uint64_t)(i - p->row_first[row]) << 56)) ^ bits ^
                                    (uint64_t)p->column[i]);
        }
    }
    hopbyte_wait_allreduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, world->comm);
    return all;
}

double *hopbyte_vector_gather(const struct hopbyte_piece *p, const struct hopbyte_shape *shape,
                              const struct hopbyte_blocks *blocks, const struct hopbyte_world *world) {
    int rows = p->count[ROWS];
    size_t all = (size_t)rows * (size_t)blocks->size;
    double *parts = hopbyte_memory(world->rank == 0 ? all * sizeof *parts : 0, "the vector");
    MPI_Gather(p->x, rows, MPI_DOUBLE, parts, rows, MPI_DOUBLE, 0, world->comm);
    double *vector = NULL;
    if (world->rank == 0) {
        vector = hopbyte_memory(all * sizeof *vector, "the vector");
        for (int rank = 0; rank < blocks->size; rank++)
            for (int row = 0; row < rows; row++)
                vector[hopbyte_row_global(shape, blocks, blocks->block_of[rank], row)] =
                    parts[(size_t)rank * (size_t)rows + (size_t)row];
    }
    free(parts);
    return vector;
}
