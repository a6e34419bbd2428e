/* Neighbours on a torus or mesh: paper 002, III. */
#include "grid.h"

#include "rounds.h"

#include <stdlib.h>
#include <string.h>

/* The job's nodes router by router. */
struct sites {
    long routers;
    int most;   /* nodes of the job on one router */
    int *first; /* by router: position in `nodes`; one more at the end */
    int *nodes; /* nodes of the plan */
};

static const struct hopbyte_plan *sort_plan;
static const struct hopbyte_grid *sort_grid;

/* By router, then nid, then name: slot numbers that do not depend on the order of the file. */
static int by_place(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    const struct hopbyte_node *m = &sort_plan->nodes[x], *n = &sort_plan->nodes[y];
    long p = sort_grid->position[x], q = sort_grid->position[y];
    if (p != q)
        return p < q ? -1 : 1;
    if (m->nid != n->nid)
        return m->nid < n->nid ? -1 : 1;
    int order = strcmp(m->name, n->name);
    return order ? order : strcmp(m->host, n->host);
}

static void sites_make(struct sites *sites, const struct hopbyte_grid *grid, struct hopbyte_plan *plan) {
    sites->routers = hopbyte_grid_routers(grid);
    sites->first = hopbyte_memory((size_t)(sites->routers + 1) * sizeof *sites->first, "the routers");
    sites->nodes = hopbyte_memory((size_t)plan->node_count * sizeof *sites->nodes, "the routers");
    int count = 0;
    for (int i = 0; i < plan->node_count; i++)
        if (plan->nodes[i].rank >= 0)
            sites->nodes[count++] = i;
    sort_plan = plan;
    sort_grid = grid;
    qsort(sites->nodes, (size_t)count, sizeof *sites->nodes, by_place);
    int at = 0;
    sites->most = 0;
    for (long router = 0; router < sites->routers; router++) {
        sites->first[router] = at;
        for (; at < count && grid->position[sites->nodes[at]] == router; at++) {
            struct hopbyte_node *node = &plan->nodes[sites->nodes[at]];
            node->router = (int)router;
            node->slot = at - sites->first[router];
            if (node->slot >= sites->most)
                sites->most = node->slot + 1;
        }
    }
    sites->first[sites->routers] = at;
}

static int site_count(const struct sites *sites, long router) {
    return sites->first[router + 1] - sites->first[router];
}

static int site_node(const struct sites *sites, long router, int slot) {
    return sites->nodes[sites->first[router] + slot];
}

/* The router next to `router`, or -1 at an open end or in a ring of one. */
static long neighbour(const struct hopbyte_grid *grid, long router, int dimension, bool up) {
    int c[HOPBYTE_DIMENSIONS_MOST], length = grid->length[dimension];
    hopbyte_grid_coordinate(grid, router, c);
    int moved = c[dimension] + (up ? 1 : -1);
    if (length == 1 || (!grid->closed[dimension] && (moved < 0 || moved >= length)))
        return -1;
    c[dimension] = (moved + length) % length;
    return hopbyte_grid_position(grid, c);
}

/* Counts directed links with exactly one end in the job, names the first, and refuses unless `partial`. */
static void missing_check(const struct hopbyte_grid *grid, const struct hopbyte_plan *plan, const struct sites *sites,
                          bool partial) {
    long missing = 0, all = 0;
    char first[HOPBYTE_NAME_ROOM + 8] = "";
    for (long router = 0; router < sites->routers; router++) {
        if (site_count(sites, router) == 0)
            continue;
        for (int i = 0; i < 2 * grid->dimensions; i++) {
            long far = neighbour(grid, router, i / 2, i % 2 == 0);
            if (far < 0)
                continue;
            bool present = site_count(sites, far) > 0;
            all += present ? 1 : 2; /* the outgoing link and, if the other end does not count it, the incoming one */
            missing += present ? 0 : 2;
            if (present || *first)
                continue;
            char name[HOPBYTE_NAME_ROOM];
            hopbyte_grid_router_name(grid, plan, site_node(sites, router, 0), name, sizeof name);
            snprintf(first, sizeof first, "%s %c%c", name, hopbyte_dimension_letters[i / 2], i % 2 ? '-' : '+');
        }
    }
    if (missing && !partial)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT,
                             "%ld of %ld directed links have an end outside this job (first: %s); --partial tests the "
                             "rest",
                             missing, all, first);
    if (missing)
        hopbyte_world_say("%ld of %ld directed links are not tested: an end is outside this job (first: %s)", missing,
                          all, first);
}

static void transfer_add(const struct hopbyte_grid *grid, struct hopbyte_plan *plan, int from, int to, int dimension,
                         bool up) {
    bool same = grid->position[from] == grid->position[to];
    char router[HOPBYTE_NAME_ROOM], link[HOPBYTE_NAME_ROOM + 16];
    hopbyte_grid_router_name(grid, plan, from, router, sizeof router);
    snprintf(link, sizeof link, "%s%s %c%c", router, same ? " hosts" : "", hopbyte_dimension_letters[dimension],
             up ? '+' : '-');
    /* Partners both take part by definition: Fig. 6 prints S. */
    hopbyte_plan_transfer(plan, from, to, link, hopbyte_grid_kind(grid, plan, from, to, dimension, up),
                          same ? HOPBYTE_USED_SHARED : HOPBYTE_COUNTED);
}

/* One phase of a dimension: nodes of slot `slot`, or of every slot when it is -1. */
static void phase_add(const struct hopbyte_grid *grid, struct hopbyte_plan *plan, const struct sites *sites,
                      int dimension, int phase, int slot) {
    char name[64], who[24] = "all";
    if (slot >= 0)
        snprintf(who, sizeof who, "node %d", slot);
    snprintf(name, sizeof name, "%c %s %s", hopbyte_dimension_letters[dimension], hopbyte_ring_phase_name(phase), who);
    hopbyte_plan_phase(plan, name);
    bool up = hopbyte_ring_up(phase);
    for (long router = 0; router < sites->routers; router++) {
        int c[HOPBYTE_DIMENSIONS_MOST];
        hopbyte_grid_coordinate(grid, router, c);
        c[dimension] = hopbyte_ring_target(grid->length[dimension], grid->closed[dimension], phase, c[dimension]);
        if (c[dimension] < 0)
            continue;
        long far = hopbyte_grid_position(grid, c);
        for (int i = 0; i < site_count(sites, router) && i < site_count(sites, far); i++)
            if (slot < 0 || slot == i)
                transfer_add(grid, plan, site_node(sites, router, i), site_node(sites, far, i), dimension, up);
    }
}

/* Nodes that share a router ("partners"), listed under Y as in Fig. 6. */
static void partners_add(const struct hopbyte_grid *grid, struct hopbyte_plan *plan, const struct sites *sites) {
    int dimension = grid->dimensions > 1 ? 1 : 0;
    for (int phase = 0; phase < hopbyte_tournament_phases(sites->most); phase++) {
        char name[64];
        snprintf(name, sizeof name, "%c partners round %d %c", hopbyte_dimension_letters[dimension], phase / 2,
                 phase % 2 ? '-' : '+');
        hopbyte_plan_phase(plan, name);
        for (long router = 0; router < sites->routers; router++)
            for (int slot = 0; slot < site_count(sites, router); slot++) {
                int to = hopbyte_tournament_target(sites->most, phase, slot);
                if (to >= 0 && to < site_count(sites, router))
                    transfer_add(grid, plan, site_node(sites, router, slot), site_node(sites, router, to), dimension,
                                 to > slot);
            }
    }
}

/* The phases of Fig. 5 along one dimension, in the requested modes. */
static void dimension_add(const struct hopbyte_grid *grid, struct hopbyte_plan *plan, const struct sites *sites,
                          int dimension, enum hopbyte_mode mode) {
    int phases = hopbyte_ring_phases(grid->length[dimension], grid->closed[dimension]);
    for (int phase = 0; phase < phases; phase++) {
        for (int slot = 0; mode != HOPBYTE_SHARED && slot < sites->most; slot++)
            phase_add(grid, plan, sites, dimension, phase, slot);
        if (mode == HOPBYTE_SHARED || (mode == HOPBYTE_BOTH && sites->most > 1))
            phase_add(grid, plan, sites, dimension, phase, -1);
    }
    if (grid->length[dimension] == 2 && grid->closed[dimension])
        hopbyte_world_say("%c is a ring of two: %c+ and %c- of a router end at the same neighbour, and the network "
                          "picks which of the two cables carries the bytes",
                          hopbyte_dimension_letters[dimension], hopbyte_dimension_letters[dimension],
                          hopbyte_dimension_letters[dimension]);
}

void hopbyte_plan_grid(struct hopbyte_plan *plan, const struct hopbyte_world *world, const char *path,
                       enum hopbyte_mode mode, bool partial) {
    struct hopbyte_grid grid = {0};
    struct sites sites;
    if (strcmp(path, "env") == 0)
        hopbyte_grid_environment(&grid, plan, world);
    else
        hopbyte_grid_file(&grid, plan, path);
    hopbyte_plan_ranks(plan, world, path, true);
    sites_make(&sites, &grid, plan);
    missing_check(&grid, plan, &sites, partial);
    for (int dimension = 0; dimension < grid.dimensions; dimension++) {
        if (dimension == (grid.dimensions > 1))
            partners_add(&grid, plan, &sites);
        dimension_add(&grid, plan, &sites, dimension, mode);
    }
    hopbyte_plan_finish(plan);
    free(sites.first);
    free(sites.nodes);
    free(grid.exceptions);
    free(grid.position);
}
