/* Coordinates from a file or from the environment. */
#include "coords.h"
#include "grid.h"
#include "lines.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_DIMENSION = 4096 };

long hopbyte_grid_position(const struct hopbyte_grid *grid, const int *coordinate) {
    long position = 0;
    for (int d = 0; d < grid->dimensions; d++)
        position = position * grid->length[d] + coordinate[d];
    return position;
}

void hopbyte_grid_coordinate(const struct hopbyte_grid *grid, long position, int *coordinate) {
    for (int d = grid->dimensions - 1; d >= 0; d--) {
        coordinate[d] = (int)(position % grid->length[d]);
        position /= grid->length[d];
    }
}

long hopbyte_grid_routers(const struct hopbyte_grid *grid) {
    long routers = 1;
    for (int d = 0; d < grid->dimensions; d++)
        routers *= grid->length[d];
    return routers;
}

void hopbyte_grid_place(struct hopbyte_grid *grid, const struct hopbyte_plan *plan, long position) {
    grid->position =
        hopbyte_room_make(grid->position, plan->node_count - 1, &grid->position_room, sizeof *grid->position);
    grid->position[plan->node_count - 1] = position;
}

static void grid_start(struct hopbyte_grid *grid) {
    for (int d = 0; d < HOPBYTE_DIMENSIONS_MOST; d++) {
        grid->closed[d] = true;
        strcpy(grid->kind[d], "cable");
    }
}

/* The words from `first` on, joined by single blanks: a kind such as `X cable`. */
static void words_join(const struct hopbyte_lines *lines, int first, char *text) {
    size_t used = 0;
    if (first >= lines->count)
        hopbyte_lines_wrong(lines, "the end of the line", "a name");
    for (int i = first; i < lines->count; i++) {
        used += (size_t)snprintf(text + used, HOPBYTE_NAME_ROOM - used, "%s%s", i > first ? " " : "", lines->words[i]);
        if (used >= HOPBYTE_NAME_ROOM)
            hopbyte_lines_wrong(lines, lines->words[i], "a shorter name");
    }
}

static int dimension_read(const struct hopbyte_lines *lines, const struct hopbyte_grid *grid, int index, bool sign) {
    const char *word = index < lines->count ? lines->words[index] : "the end of the line";
    const char *at = *word ? strchr(hopbyte_dimension_letters, *word) : NULL;
    int dimension = at ? (int)(at - hopbyte_dimension_letters) : -1;
    bool well = dimension >= 0 && dimension < grid->dimensions;
    if (!well || (sign ? strcmp(word + 1, "+") != 0 && strcmp(word + 1, "-") != 0 : word[1] != '\0'))
        hopbyte_lines_wrong(lines, word, sign ? "a direction such as X+" : "a dimension such as X");
    return dimension;
}

static long coordinate_read(const struct hopbyte_lines *lines, const struct hopbyte_grid *grid, int first) {
    int coordinate[HOPBYTE_DIMENSIONS_MOST];
    for (int d = 0; d < grid->dimensions; d++)
        coordinate[d] = hopbyte_lines_number(lines, first + d, 0, grid->length[d] - 1);
    return hopbyte_grid_position(grid, coordinate);
}

static void exception_read(const struct hopbyte_lines *lines, struct hopbyte_grid *grid, bool link) {
    grid->exceptions =
        hopbyte_room_make(grid->exceptions, grid->exception_count, &grid->exception_room, sizeof *grid->exceptions);
    struct hopbyte_exception *e = &grid->exceptions[grid->exception_count++];
    int behind = 1 + grid->dimensions;
    *e = (struct hopbyte_exception){.router = coordinate_read(lines, grid, 1), .dimension = -1};
    if (link) {
        e->dimension = dimension_read(lines, grid, behind, true);
        e->up = lines->words[behind][1] == '+';
    }
    words_join(lines, behind + link, e->text);
}

/* A line that only topobw uses. */
static void other_read(const struct hopbyte_lines *line, struct hopbyte_grid *grid) {
    const char *word = line->words[0];
    if (strcmp(word, "kinds") == 0)
        grid->gemini = grid->dimensions == 3;
    else if (strcmp(word, "kind") == 0)
        words_join(line, 2, grid->kind[dimension_read(line, grid, 1, false)]);
    else
        exception_read(line, grid, *word == 'l');
}

void hopbyte_grid_file(struct hopbyte_grid *grid, struct hopbyte_plan *plan, const char *path) {
    struct hopbyte_coords coords;
    char error[COORDS_ERROR], *text = hopbyte_file_share(path);
    grid_start(grid);
    if (!hopbyte_coords_parse(text, path, &coords, error))
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s", error);
    grid->dimensions = coords.dimensions;
    memcpy(grid->length, coords.length, sizeof grid->length);
    for (int d = 0; d < coords.dimensions; d++)
        grid->closed[d] = coords.closed[d];
    for (int i = 0; i < coords.other_count; i++) {
        const struct hopbyte_coords_line *other = &coords.others[i];
        struct hopbyte_lines line = {.path = path, .line = other->number, .count = other->count};
        memcpy(line.words, other->words, sizeof line.words);
        other_read(&line, grid);
    }
    for (int i = 0; i < coords.count; i++) {
        const struct hopbyte_coords_node *found = &coords.nodes[i];
        struct hopbyte_node *node = hopbyte_plan_node(plan, found->host);
        hopbyte_grid_place(grid, plan, hopbyte_grid_position(grid, found->at));
        if (*found->name)
            memcpy(node->name, found->name, sizeof node->name);
        if (found->numbered)
            node->nid = found->nid;
    }
    hopbyte_coords_free(&coords);
    free(text);
    hopbyte_grid_exceptions_sort(grid, path);
}

/* One rank's node, from its environment. */
struct place {
    int coordinates, coordinate[HOPBYTE_DIMENSIONS_MOST];
    int lengths, length[HOPBYTE_DIMENSIONS_MOST];
    int wraps, wrap[HOPBYTE_DIMENSIONS_MOST];
    int nid, gemini;
    char host[HOPBYTE_NAME_ROOM], name[HOPBYTE_NAME_ROOM];
};

/* Reads numbers joined by commas; returns their count, 0 when unset, -1 when malformed. */
static int numbers_read(const char *variable, int *numbers) {
    const char *at = getenv(variable);
    if (!at || !*at)
        return 0;
    for (int count = 0; count < HOPBYTE_DIMENSIONS_MOST;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number > LONGEST_DIMENSION)
            return -1;
        numbers[count++] = (int)number;
        if (!*end)
            return count;
        if (*end != ',')
            return -1;
        at = end + 1;
    }
    return -1;
}

static void place_read(const struct hopbyte_world *world, struct place *place) {
    memset(place, 0, sizeof *place);
    place->coordinates = numbers_read("HOPBYTE_COORDS", place->coordinate);
    place->lengths = numbers_read("HOPBYTE_DIMS", place->length);
    place->wraps = numbers_read("HOPBYTE_WRAP", place->wrap);
    const char *kinds = getenv("HOPBYTE_KINDS"), *name = getenv("HOPBYTE_NAME"), *nid = getenv("HOPBYTE_NID");
    place->gemini = kinds && strcmp(kinds, "gemini") == 0;
    place->nid = nid && *nid ? atoi(nid) : -1;
    snprintf(place->host, sizeof place->host, "%s", world->node);
    snprintf(place->name, sizeof place->name, "%s", name && *name ? name : world->node);
}

static void extents_take(struct hopbyte_grid *grid, const struct place *places, int ranks) {
    const struct place *first = places;
    grid->dimensions = first->coordinates;
    grid->gemini = first->gemini && grid->dimensions == 3;
    for (int rank = 0; rank < ranks; rank++) {
        const struct place *p = &places[rank];
        bool sizes = p->lengths == first->lengths && memcmp(p->length, first->length, sizeof p->length) == 0;
        bool wraps = p->wraps == first->wraps && memcmp(p->wrap, first->wrap, sizeof p->wrap) == 0;
        if (p->coordinates <= 0)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT,
                                 "rank %d on %s: HOPBYTE_COORDS is %s, expected coordinates such as 0,0,5", rank,
                                 p->host, p->coordinates ? "malformed" : "not set");
        if (p->coordinates != grid->dimensions || !sizes || !wraps)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT,
                                 "rank %d on %s: the environment gives other dimensions than on rank 0", rank, p->host);
        for (int d = 0; d < grid->dimensions; d++)
            if (p->coordinate[d] >= grid->length[d])
                grid->length[d] = p->coordinate[d] + 1;
    }
    if ((first->lengths && first->lengths != grid->dimensions) || (first->wraps && first->wraps != grid->dimensions))
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "HOPBYTE_DIMS and HOPBYTE_WRAP need %d numbers, as HOPBYTE_COORDS has",
                             grid->dimensions);
    for (int d = 0; d < grid->dimensions; d++) {
        if (first->lengths && first->length[d] < grid->length[d])
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "HOPBYTE_DIMS says %c is %d long, but a rank has coordinate %d",
                                 hopbyte_dimension_letters[d], first->length[d], grid->length[d] - 1);
        if (first->lengths)
            grid->length[d] = first->length[d];
        if (first->wraps)
            grid->closed[d] = first->wrap[d];
    }
}

void hopbyte_grid_environment(struct hopbyte_grid *grid, struct hopbyte_plan *plan, const struct hopbyte_world *world) {
    struct place mine;
    struct place *places = hopbyte_memory((size_t)world->size * sizeof *places, "the ranks' coordinates");
    place_read(world, &mine);
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, places, (int)sizeof mine, MPI_BYTE, world->comm);
    grid_start(grid);
    extents_take(grid, places, world->size);
    for (int rank = 0; rank < world->size; rank++) {
        const struct place *p = &places[rank];
        long position = hopbyte_grid_position(grid, p->coordinate);
        int known = 0;
        while (known < plan->node_count && strcmp(plan->nodes[known].host, p->host) != 0)
            known++;
        if (known < plan->node_count && grid->position[known] != position)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "rank %d: node '%s' has other coordinates than on a lower rank",
                                 rank, p->host);
        if (known < plan->node_count)
            continue;
        struct hopbyte_node *node = hopbyte_plan_node(plan, p->host);
        snprintf(node->name, sizeof node->name, "%s", p->name);
        node->nid = p->nid;
        hopbyte_grid_place(grid, plan, position);
    }
    free(places);
}
