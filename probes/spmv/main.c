/* spmv: repeated sparse matrix-vector products on a grid of blocks (paper 003: 10,000 products, six neighbours,
 * messages of 5x5x100 doubles), which can move its blocks to other ranks at run time.
 *
 * The default, 5x5x5 cells of 100 unknowns per block, sends 5x5x100 doubles to each neighbour. Values are whole numbers
 * and results are folded modulo 2048, so every product is exact and equals the serial one bit for bit. */
#include "ask.h"
#include "piece.h"
#include "proxy.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAST, FULL };

/* Every few products it checks for a new map: the file changed, or a rank got SIGUSR1. */
struct watch {
    const char *path, *stop;
    int every, linger, refused; /* linger: milliseconds that the first rank waits for a map after a report */
    struct stat seen;
};

/* The query to libhopbyte, and its time. The traffic between blocks does not depend on the map. */
struct question {
    const char *fabric, *oracle, *library, *nodes;
    int at;
    double seconds;
    struct hopbyte_ask *ask; /* at rank 0, like the following fields */
    size_t count;
    uint32_t *from, *to;
    double *bytes;
};

struct run {
    struct hopbyte_proxy proxy;
    struct hopbyte_blocks blocks;
    struct hopbyte_shape shape;
    struct hopbyte_piece piece;
    struct watch watch;
    struct question question;
    int iterations, report_every, settle, verify; /* settle: untimed products at the start of a window */
    bool messages; /* blocks are sent within a host too */
    const char *map_name;
    double start, seconds, exchange; /* of the current window; of all */
    double window_exchange, total_exchange;
    int window, window_first, timed; /* timed: products in the reported time */
};

static volatile sig_atomic_t asked_to_remap;

static void remap_ask(int number) {
    (void)number;
    asked_to_remap = 1;
}

static bool file_changed(struct watch *watch) {
    struct stat now;
    if (!watch->path || stat(watch->path, &now) != 0)
        return false;
    bool same = now.st_ino == watch->seen.st_ino && now.st_size == watch->seen.st_size &&
                now.st_mtim.tv_sec == watch->seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == watch->seen.st_mtim.tv_nsec;
    watch->seen = now;
    return !same;
}

static void setup_print(struct run *r) {
    struct hopbyte_record record;
    const struct hopbyte_piece *p = &r->piece;
    long long mine[2] = {p->count[ROWS], p->count[ENTRIES]}, sums[2];
    int most[2] = {p->count[NEIGHBOURS], 0}, mosts[2];
    for (int k = 0; k < p->count[NEIGHBOURS]; k++)
        if (p->send_first[k + 1] - p->send_first[k] > most[1])
            most[1] = p->send_first[k + 1] - p->send_first[k];
    MPI_Allreduce(mine, sums, 2, MPI_LONG_LONG, MPI_SUM, r->proxy.world.comm);
    MPI_Allreduce(most, mosts, 2, MPI_INT, MPI_MAX, r->proxy.world.comm);
    hopbyte_proxy_record(&r->proxy, &record, "setup");
    hopbyte_record_whole(&record, "rows", sums[0], NULL);
    hopbyte_record_whole(&record, "entries", sums[1], NULL);
    hopbyte_record_whole(&record, "most_neighbours", mosts[0], NULL);
    hopbyte_record_whole(&record, "most_message_bytes", (long long)mosts[1] * (long long)sizeof(double), NULL);
    hopbyte_record_text(&record, "map", r->map_name, NULL);
    hopbyte_proxy_print(&r->proxy, &record);
}

static void window_begin(struct run *r) {
    r->window_exchange = 0;
    hopbyte_quiet_barrier(r->proxy.world.comm);
    r->start = MPI_Wtime();
}

/* Reports the products since the window began. `until` is their number so far. */
static void window_close(struct run *r, int until) {
    struct hopbyte_record record;
    int first = r->window_first + r->settle, count = until - first;
    r->window_first = until;
    if (count <= 0)
        return;
    double seconds = hopbyte_proxy_slowest(&r->proxy, MPI_Wtime() - r->start);
    double exchange = hopbyte_proxy_slowest(&r->proxy, r->window_exchange);
    hopbyte_proxy_record(&r->proxy, &record, "window");
    hopbyte_record_whole(&record, "window", r->window++, NULL);
    hopbyte_record_whole(&record, "first_iteration", first, NULL);
    hopbyte_record_whole(&record, "iterations", count, NULL);
    hopbyte_record_number(&record, "seconds", seconds, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", seconds / count, NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", exchange, NULL, 1);
    hopbyte_record_text(&record, "map", r->map_name, NULL);
    hopbyte_proxy_print(&r->proxy, &record);
    r->timed += count;
    r->seconds += seconds;
    r->total_exchange += exchange;
}

static void map_refuse(struct run *r, int iteration, const char *source, const char *separator, const char *problem) {
    struct hopbyte_record record;
    hopbyte_world_say("%s%s%s; going on with the map it has", source, separator, problem);
    r->watch.refused++;
    hopbyte_proxy_record(&r->proxy, &record, "refused");
    hopbyte_record_whole(&record, "iteration", iteration, NULL);
    hopbyte_record_text(&record, "problem", problem, NULL);
    hopbyte_proxy_print(&r->proxy, &record);
}

/* Moves the blocks and opens the record of it. Timed in two parts, as in the paper: getting the map, and
 * redistributing matrix and vector. */
static void migrate(struct run *r, int iteration, const int *next, double start, const char *name,
                    struct hopbyte_record *record) {
    const struct hopbyte_world *world = &r->proxy.world;
    double reading = hopbyte_proxy_slowest(&r->proxy, MPI_Wtime() - start);
    unsigned long long before = hopbyte_piece_sum(&r->piece, &r->shape, &r->blocks, world);
    hopbyte_quiet_barrier(world->comm); /* ranks leave one after the other */
    hopbyte_rooms_meet(&r->piece.rooms, world);
    double middle = MPI_Wtime();
    struct hopbyte_moved moved = hopbyte_piece_migrate(&r->piece, &r->blocks, next, world);
    double mine = MPI_Wtime() - middle;
    double figures[4] = {moved.sent, moved.handed, moved.sent > 0, moved.handed > 0}, sums[4];
    hopbyte_rooms_meet(&r->piece.rooms, world); /* no polling while others still move */
    hopbyte_quiet_barrier(world->comm);
    double moving = hopbyte_proxy_slowest(&r->proxy, mine);
    if (hopbyte_piece_sum(&r->piece, &r->shape, &r->blocks, world) != before)
        hopbyte_world_refuse(HOPBYTE_NO, "matrix or vector changed while they moved: a message was damaged");
    MPI_Allreduce(figures, sums, 4, MPI_DOUBLE, MPI_SUM, world->comm);
    r->map_name = name;
    hopbyte_proxy_record(&r->proxy, record, "migration");
    hopbyte_record_whole(record, "iteration", iteration, NULL);
    hopbyte_record_whole(record, "moved_blocks", (long long)(sums[2] + sums[3]), NULL);
    hopbyte_record_whole(record, "moved_bytes", (long long)(sums[0] + sums[1]), NULL);
    hopbyte_record_whole(record, "handed_blocks", (long long)sums[3], NULL);
    hopbyte_record_whole(record, "handed_bytes", (long long)sums[1], NULL);
    hopbyte_record_number(record, "map_seconds", reading, NULL, 1);
    hopbyte_record_number(record, "move_seconds", moving, NULL, 1);
}

/* Reads the new map and moves the blocks. */
static void remap(struct run *r, int iteration) {
    const struct hopbyte_world *world = &r->proxy.world;
    const char *reason;
    char problem[512];
    window_close(r, iteration);
    int *next = hopbyte_memory((size_t)world->size * sizeof *next, "a map");
    double start = MPI_Wtime();
    char *text = hopbyte_file_try(r->watch.path, &reason);
    if (!text) {
        map_refuse(r, iteration, r->watch.path, ": ", reason);
    } else if (!hopbyte_map_read(text, world->size, next, problem, sizeof problem)) {
        map_refuse(r, iteration, r->watch.path, ":", problem);
    } else {
        struct hopbyte_record record;
        migrate(r, iteration, next, start, r->watch.path, &record);
        hopbyte_proxy_print(&r->proxy, &record);
    }
    free(text);
    free(next);
}

/* Queries libhopbyte at rank 0 while the others wait without polling, and moves the blocks. */
static void ask_and_move(struct run *r, int iteration) {
    const struct hopbyte_world *world = &r->proxy.world;
    struct question *q = &r->question;
    struct hopbyte_asked asked = {0};
    char problem[512] = "";
    window_close(r, iteration);
    int *next = hopbyte_memory(((size_t)world->size + 1) * sizeof *next, "a map"), *done = next + world->size;
    double start = MPI_Wtime();
    if (world->rank == 0)
        *done = hopbyte_ask_map(q->ask, q->count, q->from, q->to, q->bytes, r->blocks.block_of, q->seconds, next,
                               &asked, problem, sizeof problem);
    hopbyte_quiet_bcast(next, world->size + 1, MPI_INT, 0, world->comm);
    if (!*done) {
        MPI_Bcast(problem, sizeof problem, MPI_CHAR, 0, world->comm);
        map_refuse(r, iteration, "libhopbyte", ": ", problem);
    } else {
        struct hopbyte_record record;
        migrate(r, iteration, next, start, "libhopbyte", &record);
        hopbyte_record_number(&record, "query_seconds", asked.refresh + asked.map, NULL, 1);
        hopbyte_record_number(&record, "refresh_seconds", asked.refresh, NULL, 1);
        hopbyte_record_whole(&record, "version", (long long)asked.version, NULL);
        hopbyte_record_number(&record, "before_worst_link_seconds", asked.before, NULL, 1);
        hopbyte_record_number(&record, "worst_link_seconds", asked.after, NULL, 1);
        hopbyte_proxy_print(&r->proxy, &record);
    }
    free(next);
}

/* The name of every rank's node at rank 0: its own, or those of --nodes, each for an equal number of ranks in order. */
static char *nodes_gather(struct run *r, const char **names) {
    const struct hopbyte_world *world = &r->proxy.world;
    size_t room = HOPBYTE_NAME_ROOM;
    char *text = hopbyte_memory(room * (size_t)world->size + (r->question.nodes ? strlen(r->question.nodes) : 0) + 1,
                                "names of nodes");
    MPI_Gather(world->node, HOPBYTE_NAME_ROOM, MPI_CHAR, text, HOPBYTE_NAME_ROOM, MPI_CHAR, 0, world->comm);
    for (int rank = 0; rank < world->size; rank++)
        names[rank] = text + (size_t)rank * room;
    if (r->question.nodes) {
        int count = 0;
        strcpy(text, r->question.nodes);
        for (char *rest = text, *name; (name = strtok_r(rest, ",", &rest)) && count < world->size;)
            names[count++] = name;
        if (!count || world->size % count)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--nodes: found %d names, expected a divisor of %d ranks", count,
                                 world->size);
        for (int rank = world->size - 1; rank >= 0; rank--)
            names[rank] = names[rank / (world->size / count)];
    }
    return text;
}

/* Gathers the traffic of all blocks at rank 0, and opens the library there. */
static void question_open(struct run *r) {
    const struct hopbyte_world *world = &r->proxy.world;
    const struct hopbyte_piece *p = &r->piece;
    struct question *q = &r->question;
    int ranks = world->size, count = p->count[NEIGHBOURS], all = 0, failed = 0;
    int *counts = hopbyte_memory(2 * (size_t)ranks * sizeof *counts, "traffic"), *first = counts + ranks;
    MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, world->comm);
    for (int rank = 0; rank < ranks; rank++) {
        first[rank] = all;
        all += counts[rank];
    }
    q->from = hopbyte_memory((size_t)(all + count) * sizeof *q->from, "traffic");
    q->to = hopbyte_memory((size_t)(all + 1) * sizeof *q->to, "traffic");
    q->bytes = hopbyte_memory((size_t)(all + count) * sizeof *q->bytes, "traffic");
    q->count = (size_t)all;
    double *mine = q->bytes + all;
    uint32_t *block = q->from + all;
    for (int k = 0; k < count; k++) {
        mine[k] = (double)(p->send_first[k + 1] - p->send_first[k]) * sizeof(double);
        block[k] = (uint32_t)p->count[BLOCK];
    }
    MPI_Gatherv(block, count, MPI_UINT32_T, q->from, counts, first, MPI_UINT32_T, 0, world->comm);
    MPI_Gatherv(p->neighbour, count, MPI_INT, q->to, counts, first, MPI_UINT32_T, 0, world->comm);
    MPI_Gatherv(mine, count, MPI_DOUBLE, q->bytes, counts, first, MPI_DOUBLE, 0, world->comm);
    const char **names = hopbyte_memory((size_t)ranks * sizeof *names, "names of nodes");
    char problem[512] = "", *text = nodes_gather(r, names);
    if (world->rank == 0) {
        q->ask = hopbyte_ask_open(q->library, q->fabric, q->oracle, ranks, names, problem, sizeof problem);
        failed = !q->ask;
    }
    MPI_Bcast(&failed, 1, MPI_INT, 0, world->comm);
    MPI_Bcast(problem, sizeof problem, MPI_CHAR, 0, world->comm);
    if (failed)
        hopbyte_world_refuse(HOPBYTE_LACKING, "--ask: %s", problem);
    free(names);
    free(text);
    free(counts);
}

static void question_close(struct question *q) {
    hopbyte_ask_close(q->ask);
    free(q->from);
    free(q->to);
    free(q->bytes);
}

enum { REMAP = 1, STOP = 2 };

/* Acts on a signal or stop request that any rank received. */
static int wish_read(struct run *r, int patience) {
    int mine = asked_to_remap ? REMAP : 0, any;
    struct stat there;
    asked_to_remap = 0;
    if (r->proxy.world.rank == 0)
        for (double until = MPI_Wtime() + patience * 1e-3;; usleep(2000)) {
            mine |= file_changed(&r->watch) ? REMAP : 0;
            mine |= r->watch.stop && stat(r->watch.stop, &there) == 0 ? STOP : 0;
            if (mine || MPI_Wtime() >= until)
                break;
        }
    hopbyte_wait_allreduce(&mine, &any, 1, MPI_INT, MPI_BOR, r->proxy.world.comm);
    return any;
}

/* The serial product by the definition of the matrix, folded. */
static void serial_multiply(const struct hopbyte_shape *shape, long rows, double *x) {
    double *y = hopbyte_memory((size_t)rows * sizeof *y, "the serial product");
    for (long row = 0; row < rows; row++) {
        long columns[7];
        int count = hopbyte_matrix_columns(shape, row, columns);
        for (int i = 0; i < count; i++)
            y[row] += hopbyte_matrix_value(row, columns[i]) * x[columns[i]];
    }
    for (long row = 0; row < rows; row++)
        x[row] = hopbyte_fold(y[row]);
    free(y);
}

/* Compares at rank 0 with serial products: `products` of them on `given`. Frees both vectors. */
static long long wrong_count(struct run *r, double *given, int products, double *got) {
    long rows = (long)r->piece.count[ROWS] * r->blocks.size, wrong = 0;
    if (r->proxy.world.rank == 0) {
        for (int i = 0; i < products; i++) {
            hopbyte_deadline_set(r->proxy.deadline, "a serial product");
            serial_multiply(&r->shape, rows, given);
        }
        for (long row = 0; row < rows; row++)
            wrong += given[row] != got[row];
    }
    free(given);
    free(got);
    return wrong;
}

static long long products_run(struct run *r) {
    const struct hopbyte_world *world = &r->proxy.world;
    double *before = hopbyte_vector_gather(&r->piece, &r->shape, &r->blocks, world);
    for (int i = 0; i < r->iterations; i++) {
        if (r->question.fabric && i == r->question.at)
            ask_and_move(r, i);
        if (r->report_every && i % r->report_every == 0)
            window_close(r, i);
        if (i % r->watch.every == 0) {
            int wish = 0;
            hopbyte_deadline_set(r->proxy.deadline, "products");
            if (r->watch.path || r->watch.stop)
                wish = wish_read(r, i && i == r->window_first ? r->watch.linger : 0);
            if (wish & REMAP)
                remap(r, i);
            if (wish & STOP)
                r->iterations = i;
        }
        if (i == r->iterations)
            break;
        if (i == r->window_first)
            window_begin(r);
        if (r->settle && i == r->window_first + r->settle) {
            r->start = MPI_Wtime();
            r->window_exchange = 0;
        }
        r->window_exchange += hopbyte_piece_multiply(&r->piece, &r->blocks, world);
    }
    window_close(r, r->iterations);
    if (r->verify == LAST) { /* one extra product, untimed */
        free(before);
        before = hopbyte_vector_gather(&r->piece, &r->shape, &r->blocks, world);
        hopbyte_piece_multiply(&r->piece, &r->blocks, world);
    }
    double *after = hopbyte_vector_gather(&r->piece, &r->shape, &r->blocks, world);
    hopbyte_deadline_set(0, "");
    long long wrong = wrong_count(r, before, r->verify == FULL ? r->iterations : 1, after);
    hopbyte_deadline_set(r->proxy.deadline, "the verdict");
    return wrong;
}

static void traffic_write(struct run *r) {
    const struct hopbyte_piece *p = &r->piece;
    int count = p->count[NEIGHBOURS];
    double *bytes = hopbyte_memory(2 * (size_t)count * sizeof *bytes, "traffic"), *messages = bytes + count;
    for (int k = 0; k < count; k++) {
        bytes[k] = (double)(p->send_first[k + 1] - p->send_first[k]) * sizeof(double);
        messages[k] = 1;
    }
    hopbyte_traffic_write(r->proxy.traffic, &r->blocks, &r->proxy.world, count, p->neighbour, bytes, messages);
    free(bytes);
}

static void run_open(struct run *r) {
    const struct hopbyte_world *world = &r->proxy.world;
    struct stat there;
    int exists = world->rank == 0 && r->watch.path && stat(r->watch.path, &there) == 0;
    MPI_Bcast(&exists, 1, MPI_INT, 0, world->comm);
    if (exists)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT,
                             "--remap: found %s already there, expected it to appear later; is it from another job? "
                             "(--map gives a map to start with)",
                             r->watch.path);
    hopbyte_blocks_open(&r->blocks, world, r->proxy.grid, r->proxy.periodic, r->proxy.map);
    double rows = r->shape.unknowns;
    for (int d = 0; d < 3; d++) {
        r->shape.extent[d] = r->blocks.count[d] * r->shape.cells[d];
        rows *= r->shape.cells[d];
    }
    if (rows * 7 > 200e6)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %.0f rows a block, expected at most 28 million", rows);
    r->shape.periodic = r->proxy.periodic;
    r->map_name = r->proxy.map ? r->proxy.map : "identity";
    struct sigaction action = {.sa_handler = remap_ask, .sa_flags = SA_RESTART};
    if (r->watch.path)
        sigaction(SIGUSR1, &action, NULL);
    bool share = (r->watch.path || r->question.fabric) && !r->messages;
    hopbyte_piece_make(&r->piece, &r->shape, &r->blocks, share, world);
}

int main(int argc, char **argv) {
    struct run r = {.shape = {.cells = {5, 5, 5}, .unknowns = 100}, .iterations = 1000, .watch = {.every = 10}};
    r.question = (struct question){.library = "libhopbyte.so", .at = 100, .seconds = 0.004};
    const struct hopbyte_option own[] = {
        {"cells", HOPBYTE_TRIPLE, &r.shape.cells, 1, NULL, "cells of a block along X, Y, Z (5,5,5)", 0},
        {"unknowns", HOPBYTE_COUNT, &r.shape.unknowns, 1, NULL, "rows per cell (100)", 0},
        {"iterations", HOPBYTE_COUNT, &r.iterations, 1, NULL, "products (1000)", 0},
        {"report-every", HOPBYTE_COUNT, &r.report_every, 1, NULL, "a record every N products (at the end)", 0},
        {"remap", HOPBYTE_TEXT, &r.watch.path, 0, NULL,
         "map file to watch: blocks move when it appears, changes, or a rank gets SIGUSR1", 0},
        {"ask", HOPBYTE_TEXT, &r.question.fabric, 0, NULL,
         "machine, as hopbyte names it: query libhopbyte for a map and move", 0},
        {"oracle", HOPBYTE_TEXT, &r.question.oracle, 0, NULL, "running oracle with its link states (none)", 0},
        {"nodes", HOPBYTE_TEXT, &r.question.nodes, 0, NULL,
         "nodes of the ranks, with equal numbers of ranks, A,B,… (HOPBYTE_NODE, else MPI's)", 0},
        {"ask-at", HOPBYTE_COUNT, &r.question.at, 0, NULL, "products before the query (100)", 0},
        {"ask-seconds", HOPBYTE_REAL, &r.question.seconds, 0, NULL, "seconds to search for a map (0.004)", 0},
        {"library", HOPBYTE_TEXT, &r.question.library, 0, NULL, "libhopbyte.so to load", 0},
        {"stop", HOPBYTE_TEXT, &r.watch.stop, 0, NULL, "file to watch: the products end when it appears", 0},
        {"messages", HOPBYTE_FLAG, &r.messages, 0, NULL, "send blocks that move within a host too", 0},
        {"settle", HOPBYTE_COUNT, &r.settle, 0, NULL, "first products of a report that are not timed (0)", 0},
        {"linger", HOPBYTE_COUNT, &r.watch.linger, 0, NULL, "milliseconds to wait for a map after a report (0)", 0},
        {"check-every", HOPBYTE_COUNT, &r.watch.every, 1, NULL, "products between two checks of the files (10)", 0},
        {"verify", HOPBYTE_CHOICE, &r.verify, 0, "last|full",
         "one more product, or all of them, against serial ones (last)", 0},
        {0}};
    hopbyte_proxy_open(&r.proxy, argc, argv, "spmv",
                       "Repeated sparse matrix-vector products; blocks can move meanwhile.", own);
    run_open(&r);
    if (r.proxy.traffic)
        traffic_write(&r);
    hopbyte_world_header(&r.proxy.world, hopbyte_proxy_schema, "spmv", r.proxy.json);
    setup_print(&r);
    if (r.question.fabric)
        question_open(&r);
    long long wrong = products_run(&r);
    struct hopbyte_record record;
    hopbyte_proxy_record(&r.proxy, &record, "total");
    hopbyte_record_whole(&record, "iterations", r.iterations, NULL);
    hopbyte_record_number(&record, "seconds", r.seconds, NULL, 1);
    hopbyte_record_number(&record, "average_seconds", r.timed ? r.seconds / r.timed : 0, NULL, 1);
    hopbyte_record_number(&record, "exchange_seconds", r.total_exchange, NULL, 1);
    hopbyte_record_whole(&record, "refused_maps", r.watch.refused, NULL);
    hopbyte_record_text(&record, "verify", r.verify == FULL ? "full" : "last", NULL);
    question_close(&r.question);
    hopbyte_piece_free(&r.piece);
    hopbyte_blocks_close(&r.blocks);
    return hopbyte_proxy_close(&r.proxy, &record, wrong, r.watch.refused ? HOPBYTE_BAD_INPUT : HOPBYTE_DONE);
}
