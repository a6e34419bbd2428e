/* The requested order: a map, or Cray's MPICH_RANK_REORDER_METHOD 0 to 4, on any MPI.
 *
 * A *position* is a slot in block order: all of the first node's processes in launch order, then the second's, …
 * The methods and the file MPICH_RANK_ORDER refer to positions. */
#include "reorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* positions[p] is the launch rank at position p. */
static int *positions_list(const struct hopbyte_nodes *n)
{
    int *positions = calloc((size_t)n->ranks + 1, sizeof *positions);
    int *next = calloc((size_t)n->nodes + 1, sizeof *next);
    if (positions && next) {
        for (int k = 0; k + 1 < n->nodes; k++)
            next[k + 1] = next[k] + n->counts[k];
        for (int r = 0; r < n->ranks; r++)
            positions[next[n->node[r]]++] = r;
    } else {
        free(positions);
        positions = NULL;
    }
    free(next);
    return positions;
}

/* Deals ranks to the nodes round robin, one per round; every second round in reverse when folded. */
static bool rounds_deal(const struct hopbyte_nodes *n, const int *positions, bool folded, int *role)
{
    int *start = calloc((size_t)n->nodes + 1, sizeof *start);
    if (!start)
        return false;
    for (int k = 0; k + 1 < n->nodes; k++)
        start[k + 1] = start[k] + n->counts[k];
    for (int round = 0, rank = 0; rank < n->ranks; round++)
        for (int i = 0; i < n->nodes; i++) {
            int k = folded && round % 2 ? n->nodes - 1 - i : i;
            if (round < n->counts[k])
                role[positions[start[k] + round]] = rank++;
        }
    free(start);
    return true;
}

/* --- MPICH_RANK_REORDER_OPTS --- */

static bool number_list(const char *text, int *list, int *count, int least)
{
    *count = 0;
    for (;;) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || value < least || value > INT32_MAX || *count == REORDER_DIMS_MAX)
            return false;
        list[(*count)++] = (int)value;
        if (*end == 0)
            return true;
        if (*end != ',' && *end != 'x')
            return false;
        text = end + 1;
    }
}

struct options {
    struct hopbyte_grid grid;
    int ndims; /* from --ndims, 0 if not given */
    bool nearest;
};

static bool option_take(struct options *o, const char *name, const char *value)
{
    int list[REORDER_DIMS_MAX], count;
    if (strcmp(name, "nearest") == 0)
        return (o->nearest = true);
    if (strcmp(name, "column-major") == 0)
        return (o->grid.column_major = true);
    if (!value || !number_list(value, list, &count, strcmp(name, "periodic") == 0 ? 0 : 1))
        return false;
    if (strcmp(name, "ndims") == 0 && count == 1) {
        o->ndims = list[0];
        return true;
    }
    if (strcmp(name, "dims") == 0) {
        o->grid.ndims = count;
        memcpy(o->grid.dims, list, sizeof o->grid.dims);
        return true;
    }
    if (strcmp(name, "periodic") != 0)
        return false;
    for (int i = 0; i < count; i++)
        o->grid.periodic[i] = list[i] != 0;
    return true;
}

/* `--ndims=3 --dims=16,16,16 --nearest`; a value may also follow as the next word. */
static bool options_parse(const char *text, struct options *o)
{
    char copy[1024], *rest;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *name = word + strspn(word, "-"), *value = strchr(name, '=');
        if (value)
            *value++ = 0;
        else if (strcmp(name, "ndims") == 0 || strcmp(name, "dims") == 0 || strcmp(name, "periodic") == 0)
            value = strtok_r(NULL, " \t", &rest);
        if (name == word || !option_take(o, name, value)) {
            hopbyte_say("MPICH_RANK_REORDER_OPTS=\"%s\": \"%s%s%s\" is not understood; expected --ndims=3 "
                        "--dims=16,16,16 --nearest [--periodic=0,0,1] [--column-major]",
                        text, word, value ? "=" : "", value ? value : "");
            return false;
        }
    }
    return true;
}

static bool options_check(const struct options *o, int ranks)
{
    int64_t cells = o->grid.ndims ? hopbyte_grid_cells(&o->grid) : -1;
    if (!o->grid.ndims)
        hopbyte_say("MPICH_RANK_REORDER_METHOD=4 needs MPICH_RANK_REORDER_OPTS=\"--dims=…\"");
    else if (o->ndims && o->ndims != o->grid.ndims)
        hopbyte_say("MPICH_RANK_REORDER_OPTS: --ndims=%d, but --dims has %d", o->ndims, o->grid.ndims);
    else if (cells != ranks)
        hopbyte_say("MPICH_RANK_REORDER_OPTS: --dims has %" PRId64 " cells, the job has %d ranks", cells, ranks);
    else
        return true;
    return false;
}

static void grid_describe(const struct hopbyte_grid *grid, char *text, size_t room)
{
    size_t used = 0;
    *text = 0;
    for (int d = 0; d < grid->ndims && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%d%s", d ? "x" : "", grid->dims[d],
                                 grid->periodic[d] ? "p" : "");
}

/* Blocks of the grid on the nodes with the least traffic between nodes. */
static bool nearest_deal(const struct hopbyte_nodes *n, int *role)
{
    struct options o = {0};
    struct hopbyte_graph graph;
    struct hopbyte_gain gain;
    const char *text = getenv("MPICH_RANK_REORDER_OPTS");
    char shape[256];
    if (*n->problem) {
        hopbyte_say("method 4: %s", n->problem);
        return false;
    }
    if (!options_parse(text ? text : "", &o) || !options_check(&o, n->ranks) || !hopbyte_grid_graph(&o.grid, &graph))
        return false;
    grid_describe(&o.grid, shape, sizeof shape);
    bool fine = hopbyte_order_find(&graph, &o.grid, n, role, &gain);
    if (fine && !hopbyte_world.quiet)
        hopbyte_say("understood method 4: a grid of %s, %s, nearest neighbours%s; neighbour messages between nodes "
                    "%" PRId64 " -> %" PRId64 ", at the busiest node %" PRId64 " -> %" PRId64,
                    shape, o.grid.column_major ? "first dimension fastest" : "last dimension fastest",
                    o.nearest ? "" : " (--nearest assumed)", gain.before.total, gain.after.total, gain.before.worst,
                    gain.after.worst);
    if (fine && n->network.dimensions && !hopbyte_world.quiet)
        hopbyte_say("in the network of %s: messages times links %" PRId64 " -> %" PRId64 ", at the busiest link %" PRId64
                    " -> %" PRId64,
                    getenv("HOPBYTE_COORDS_FILE"), gain.toll_before.hops, gain.toll_after.hops, gain.toll_before.worst,
                    gain.toll_after.worst);
    hopbyte_graph_free(&graph);
    return fine;
}

/* --- choice of method --- */

static const char *const method_words[] = {"0: round robin over the nodes", "1: in blocks (SMP)", "2: folded",
                                           "3: the order in a file", "4: neighbours of a grid together"};

static bool method_deal(int method, const struct hopbyte_nodes *n, const int *positions, int *role)
{
    const char *file = getenv("MPICH_RANK_REORDER_FILE");
    if (method == 4)
        return nearest_deal(n, role);
    if (method == 3) {
        file = file && *file ? file : "MPICH_RANK_ORDER";
        if (!hopbyte_rankfile_read(file, n, positions, role))
            return false;
        if (!hopbyte_world.quiet)
            hopbyte_say("understood method 3: the order in %s", file);
        return true;
    }
    if (!hopbyte_world.quiet)
        hopbyte_say("understood method %s", method_words[method]);
    if (method != 1)
        return rounds_deal(n, positions, method == 2, role);
    for (int p = 0; p < n->ranks; p++)
        role[positions[p]] = p;
    return true;
}

/* A Cray MPICH reorders by itself; a second reordering would undo it. */
static bool library_reorders(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    NEXT(Get_library_version)(text, &length);
    return strstr(text, "CRAY MPICH") != NULL;
}

static int method_read(const char *text)
{
    if (strlen(text) == 1 && *text >= '0' && *text <= '4')
        return *text - '0';
    hopbyte_say("MPICH_RANK_REORDER_METHOD=\"%s\": expected 0 to 4", text);
    return -1;
}

int hopbyte_plan_make(const struct hopbyte_nodes *n, int *role)
{
    const char *map = getenv("HOPBYTE_REORDER_MAP"), *text = getenv("MPICH_RANK_REORDER_METHOD");
    bool by_map = map && *map, by_method = text && *text;
    if (!by_map && !by_method)
        return 0;
    if (!by_map && library_reorders()) {
        if (!hopbyte_world.quiet)
            hopbyte_say("MPICH_RANK_REORDER_METHOD=%s is applied by this Cray MPICH itself", text);
        return 0;
    }
    int *positions = positions_list(n), method = by_map ? 3 : method_read(text);
    bool fine = positions && method >= 0;
    if (fine && by_map) {
        fine = hopbyte_rankfile_read(map, n, positions, role);
        if (fine && !hopbyte_world.quiet)
            hopbyte_say("understood HOPBYTE_REORDER_MAP=%s%s", map,
                        by_method ? "; MPICH_RANK_REORDER_METHOD is ignored" : "");
    } else if (fine) {
        fine = method_deal(method, n, positions, role);
    }
    free(positions);
    return fine ? 1 : -1;
}
