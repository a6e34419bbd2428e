/* Names of routers and kinds of links on a grid. */
#include "grid.h"

#include <stdlib.h>
#include <string.h>

/* Place of a Cray XE node in its cabinet: c0-0c1s5n3. */
struct cname {
    int column, row, cage, slot, node;
};

static bool cname_read(const char *text, struct cname *c) {
    int used = 0;
    return sscanf(text, "c%4d-%4dc%2ds%2dn%2d%n", &c->column, &c->row, &c->cage, &c->slot, &c->node, &used) == 5 &&
           !text[used] && c->node >= 0 && c->node < 4;
}

static int by_place(const void *a, const void *b) {
    const struct hopbyte_exception *m = a, *n = b;
    if (m->router != n->router)
        return m->router < n->router ? -1 : 1;
    if (m->dimension != n->dimension)
        return m->dimension - n->dimension;
    return m->up - n->up;
}

void hopbyte_grid_exceptions_sort(struct hopbyte_grid *grid, const char *source) {
    if (grid->exception_count > 1)
        qsort(grid->exceptions, (size_t)grid->exception_count, sizeof *grid->exceptions, by_place);
    for (int i = 1; i < grid->exception_count; i++)
        if (by_place(&grid->exceptions[i - 1], &grid->exceptions[i]) == 0)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: found '%s' and '%s' for the same %s, expected one", source,
                                 grid->exceptions[i - 1].text, grid->exceptions[i].text,
                                 grid->exceptions[i].dimension < 0 ? "router" : "link");
}

static const char *exception_find(const struct hopbyte_grid *grid, long router, int dimension, bool up) {
    const struct hopbyte_exception key = {.router = router, .dimension = dimension, .up = up};
    if (!grid->exception_count)
        return NULL;
    const struct hopbyte_exception *found =
        bsearch(&key, grid->exceptions, (size_t)grid->exception_count, sizeof key, by_place);
    return found ? found->text : NULL;
}

void hopbyte_grid_router_name(const struct hopbyte_grid *grid, const struct hopbyte_plan *plan, int node, char *name,
                              size_t room) {
    const char *given = exception_find(grid, grid->position[node], -1, false);
    struct cname c;
    if (given) {
        snprintf(name, room, "%s", given);
        return;
    }
    if (grid->gemini && cname_read(plan->nodes[node].name, &c)) {
        snprintf(name, room, "c%d-%dc%ds%dg%d", c.column, c.row, c.cage, c.slot, c.node / 2);
        return;
    }
    int coordinate[HOPBYTE_DIMENSIONS_MOST];
    hopbyte_grid_coordinate(grid, grid->position[node], coordinate);
    size_t used = (size_t)snprintf(name, room, "r%d", coordinate[0]);
    for (int d = 1; d < grid->dimensions && used < room; d++)
        used += (size_t)snprintf(name + used, room - used, "-%d", coordinate[d]);
}

/* Kind of the link between two Geminis (paper 002, II.B and Fig. 6): X always cables; Y mezzanine within a module, else
 * cables; Z backplane between neighbouring slots of a chassis, else cables. By the nodes' cnames if they have them,
 * else by coordinates, eight slots per chassis. */
static const char *gemini_kind(const struct hopbyte_grid *grid, const struct hopbyte_plan *plan, int from, int to,
                               int dimension) {
    struct cname a, b;
    bool module, neighbours;
    if (cname_read(plan->nodes[from].name, &a) && cname_read(plan->nodes[to].name, &b)) {
        bool chassis = a.column == b.column && a.row == b.row && a.cage == b.cage;
        module = chassis && a.slot == b.slot;
        neighbours = chassis && abs(a.slot - b.slot) == 1;
    } else {
        int c[HOPBYTE_DIMENSIONS_MOST], d[HOPBYTE_DIMENSIONS_MOST];
        hopbyte_grid_coordinate(grid, grid->position[from], c);
        hopbyte_grid_coordinate(grid, grid->position[to], d);
        module = c[1] / 2 == d[1] / 2;
        neighbours = c[2] / 8 == d[2] / 8 && abs(c[2] - d[2]) == 1;
    }
    if (dimension == 1)
        return module ? "Y mezzanine" : "Y cable";
    if (dimension == 2)
        return neighbours ? "Z backplane" : "Z cable";
    return "X cable";
}

const char *hopbyte_grid_kind(const struct hopbyte_grid *grid, const struct hopbyte_plan *plan, int from, int to,
                              int dimension, bool up) {
    if (grid->position[from] == grid->position[to])
        return grid->gemini ? "same Gemini" : "same router";
    const char *given = exception_find(grid, grid->position[from], dimension, up);
    if (given)
        return given;
    return grid->gemini ? gemini_kind(grid, plan, from, to, dimension) : grid->kind[dimension];
}
