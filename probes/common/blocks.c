#include "blocks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hopbyte_blocks_place(const struct hopbyte_blocks *blocks, int block, int place[3]) {
    place[2] = block % blocks->count[2];
    place[1] = block / blocks->count[2] % blocks->count[1];
    place[0] = block / blocks->count[2] / blocks->count[1];
}

int hopbyte_blocks_next(const struct hopbyte_blocks *blocks, int block, int dimension, int step) {
    int place[3], count = blocks->count[dimension];
    hopbyte_blocks_place(blocks, block, place);
    int moved = place[dimension] + step;
    if (!blocks->periodic && (moved < 0 || moved >= count))
        return -1;
    place[dimension] = (moved + count) % count;
    return (place[0] * blocks->count[1] + place[1]) * blocks->count[2] + place[2];
}

void hopbyte_blocks_take(struct hopbyte_blocks *blocks, const int *block_of) {
    for (int rank = 0; rank < blocks->size; rank++) {
        blocks->block_of[rank] = block_of[rank];
        blocks->rank_of[block_of[rank]] = rank;
    }
}

void hopbyte_blocks_open(struct hopbyte_blocks *blocks, const struct hopbyte_world *world, const int count[3],
                         bool periodic, const char *map_path) {
    *blocks =
        (struct hopbyte_blocks){.count = {count[0], count[1], count[2]}, .periodic = periodic, .size = world->size};
    if (count[0] == 0 && count[1] == 0 && count[2] == 0)
        MPI_Dims_create(world->size, 3, blocks->count);
    if ((long)blocks->count[0] * blocks->count[1] * blocks->count[2] != world->size)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--grid: found %d,%d,%d, expected a product of %d, the ranks", count[0],
                             count[1], count[2], world->size);
    blocks->block_of = hopbyte_memory((size_t)world->size * sizeof *blocks->block_of, "the map");
    blocks->rank_of = hopbyte_memory((size_t)world->size * sizeof *blocks->rank_of, "the map");
    int *map = hopbyte_memory((size_t)world->size * sizeof *map, "the map");
    for (int rank = 0; rank < world->size; rank++)
        map[rank] = rank;
    if (map_path) {
        char problem[512], *text = hopbyte_file_share(map_path);
        if (!hopbyte_map_read(text, world->size, map, problem, sizeof problem))
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s:%s", map_path, problem);
        free(text);
    }
    hopbyte_blocks_take(blocks, map);
    free(map);
}

void hopbyte_blocks_close(struct hopbyte_blocks *blocks) {
    free(blocks->block_of);
    free(blocks->rank_of);
}

static const char *job_name(void) {
    static const char *const variables[] = {"HOPBYTE_JOB", "SLURM_JOB_ID", "PBS_JOBID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return value;
    }
    return NULL;
}

/* A whole number below `most`; anything else is negative. */
static int number_read(const char *word, int most) {
    char *end;
    errno = 0;
    long number = word ? strtol(word, &end, 10) : -1;
    return !word || errno || *end || end == word || number < 0 || number >= most ? -1 : (int)number;
}

/* One line that is not a comment; false with a problem when it is malformed. */
static bool map_line(char *line, int size, int *block_of, int *rank_of, char *problem, size_t room) {
    char *first = strtok(line, " \t\r"), *second = strtok(NULL, " \t\r"), *third = strtok(NULL, " \t\r");
    if (!second || third) {
        snprintf(problem, room, "found %s words, expected a rank and a block",
                 second ? "more than two" : "fewer than two");
        return false;
    }
    if (strcmp(first, "job") == 0) {
        const char *job = job_name();
        if (job && strcmp(job, second) != 0)
            snprintf(problem, room, "found a map for job '%.60s', expected this job, '%.60s'", second, job);
        return !job || strcmp(job, second) == 0;
    }
    if (strcmp(first, "ranks") == 0) {
        if (number_read(second, size + 1) != size)
            snprintf(problem, room, "found a map for %.20s ranks, expected %d", second, size);
        return number_read(second, size + 1) == size;
    }
    int rank = number_read(first, size), block = number_read(second, size);
    if (rank < 0 || block < 0)
        snprintf(problem, room, "found '%.40s %.40s', expected a rank and a block below %d", first, second, size);
    else if (block_of[rank] >= 0 || rank_of[block] >= 0)
        snprintf(problem, room, "found %s %d again, expected it once", block_of[rank] >= 0 ? "rank" : "block",
                 block_of[rank] >= 0 ? rank : block);
    else {
        block_of[rank] = block;
        rank_of[block] = rank;
        return true;
    }
    return false;
}

bool hopbyte_map_read(char *text, int size, int *block_of, char *problem, size_t room) {
    int *read = hopbyte_memory(2 * (size_t)size * sizeof *read, "a map"), *rank_of = read + size, number = 0;
    char what[400];
    bool well = true;
    for (int i = 0; i < 2 * size; i++)
        read[i] = -1;
    for (char *line = text; well && *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = '\0';
        number++;
        char *start = line + strspn(line, " \t\r");
        well = !*start || *start == '#' || map_line(start, size, read, rank_of, what, sizeof what);
        line = next;
    }
    for (int rank = 0; well && rank < size; rank++)
        if (read[rank] < 0) {
            snprintf(what, sizeof what, "found no block for rank %d, expected one for each of %d ranks", rank, size);
            well = false;
        }
    if (well)
        memcpy(block_of, read, (size_t)size * sizeof *read);
    else
        snprintf(problem, room, "%d: %s", number, what);
    free(read);
    return well;
}

/* Writes the entries of all blocks, in the order of the blocks; an errno, or 0. */
static int traffic_put(const char *path, const struct hopbyte_blocks *blocks, const int *counts, const int *places,
                       const double *entries) {
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
        return ENAMETOOLONG;
    FILE *file = fopen(temporary, "w");
    if (!file)
        return errno;
    fputs("src,dst,bytes,messages\n", file);
    for (int block = 0; block < blocks->size; block++) {
        int rank = blocks->rank_of[block];
        for (const double *e = entries + places[rank]; e < entries + places[rank] + counts[rank]; e += 3)
            fprintf(file, "%d,%.0f,%.0f,%.0f\n", block, e[0], e[1], e[2]);
    }
    if (fflush(file) || ferror(file) || fclose(file) || rename(temporary, path)) {
        int error = errno ? errno : EIO;
        unlink(temporary);
        return error;
    }
    return 0;
}

void hopbyte_traffic_write(const char *path, const struct hopbyte_blocks *blocks, const struct hopbyte_world *world,
                           int count, const int *to, const double *bytes, const double *messages) {
    int room = 0, size = world->size, total = 0, error = 0;
    double *mine = hopbyte_memory(3 * (size_t)count * sizeof *mine, "traffic");
    for (int i = 0; i < count; i++) { /* no bytes to itself; one entry per target */
        int at = 0;
        while (at < room && mine[at] != to[i])
            at += 3;
        if (to[i] == blocks->block_of[world->rank])
            continue;
        room = at == room ? room + 3 : room;
        mine[at] = to[i];
        mine[at + 1] += bytes[i];
        mine[at + 2] += messages[i];
    }
    int *counts = hopbyte_memory((size_t)size * sizeof *counts, "traffic");
    int *places = hopbyte_memory((size_t)size * sizeof *places, "traffic");
    MPI_Gather(&room, 1, MPI_INT, counts, 1, MPI_INT, 0, world->comm);
    for (int i = 0; world->rank == 0 && i < size; i++) {
        places[i] = total;
        total += counts[i];
    }
    double *all = hopbyte_memory((size_t)total * sizeof *all, "traffic");
    MPI_Gatherv(mine, room, MPI_DOUBLE, all, counts, places, MPI_DOUBLE, 0, world->comm);
    if (world->rank == 0)
        error = traffic_put(path, blocks, counts, places, all);
    MPI_Bcast(&error, 1, MPI_INT, 0, world->comm);
    free(mine);
    free(counts);
    free(places);
    free(all);
    if (error)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: %s", path, strerror(error));
}
