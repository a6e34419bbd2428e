/* Assignment of ranks to vertices: the best of several heuristics, never worse than the present order. */
#include "reorder.h"

#include <stdlib.h>
#include <string.h>

enum { GROWTHS = 8 }; /* number of start vertices */

struct search {
    const struct hopbyte_graph *graph;
    const struct hopbyte_grid *grid;
    const struct hopbyte_nodes *nodes;
    int *best, *trial;
    struct hopbyte_cut cut;
    struct hopbyte_toll toll; /* of `best`, if the network is known */
};

/* Busiest of all: a link between routers, or a node's own one, whose load is counted in both directions. */
static int64_t busiest(struct hopbyte_cut cut, struct hopbyte_toll toll)
{
    int64_t own = (cut.worst + 1) / 2;
    return own > toll.worst ? own : toll.worst;
}

/* In a known network the nodes' places decide too: each trial is placed before it is judged. */
static void trial_judge_placed(struct search *s)
{
    struct hopbyte_toll toll;
    if (!hopbyte_network_place(s->nodes, s->graph, s->grid, s->trial) ||
        !hopbyte_toll_measure(s->nodes, s->graph, s->trial, &toll))
        return;
    struct hopbyte_cut cut = hopbyte_cut_measure(s->graph, s->trial, s->nodes->nodes);
    int64_t now = busiest(cut, toll), best = busiest(s->cut, s->toll);
    if (now > best || (now == best && toll.hops >= s->toll.hops))
        return;
    s->cut = cut;
    s->toll = toll;
    memcpy(s->best, s->trial, (size_t)s->graph->vertices * sizeof *s->best);
}

static void trial_judge(struct search *s)
{
    if (s->nodes->network.dimensions) {
        trial_judge_placed(s);
        return;
    }
    struct hopbyte_cut cut = hopbyte_cut_measure(s->graph, s->trial, s->nodes->nodes);
    if (!hopbyte_cut_better(cut, s->cut))
        return;
    s->cut = cut;
    memcpy(s->best, s->trial, (size_t)s->graph->vertices * sizeof *s->best);
}

static void trial_judge_and_refine(struct search *s)
{
    trial_judge(s);
    hopbyte_graph_refine(s->graph, s->trial, s->nodes->nodes);
    trial_judge(s);
}

/* A vertex stays with its rank if the rank is on the right node; the others get the remaining ranks in order. */
static void roles_deal(const struct search *s, const int *node, int *role, int *moved)
{
    int vertices = s->graph->vertices;
    int *next = s->trial; /* first unassigned vertex, by node */
    memset(next, 0, (size_t)s->nodes->nodes * sizeof *next);
    *moved = 0;
    for (int r = 0; r < vertices; r++)
        role[r] = s->best[r] == node[r] ? r : -1;
    for (int r = 0; r < vertices; r++) {
        if (role[r] >= 0)
            continue;
        int v = next[node[r]];
        while (s->best[v] != node[r] || node[v] == node[r])
            v++;
        role[r] = v;
        next[node[r]] = v + 1;
        (*moved)++;
    }
}

bool hopbyte_order_find(const struct hopbyte_graph *graph, const struct hopbyte_grid *grid,
                        const struct hopbyte_nodes *nodes, int *role, struct hopbyte_gain *gain)
{
    size_t room = (size_t)(graph->vertices > nodes->nodes ? graph->vertices : nodes->nodes) + 1;
    struct search s = {.graph = graph, .grid = grid, .nodes = nodes, .best = calloc(room, sizeof(int)),
                       .trial = calloc(room, sizeof(int))};
    int *counts = calloc((size_t)nodes->nodes + 1, sizeof *counts);
    static bool told;
    if (*nodes->problem && !told)
        hopbyte_say("coordinates are not used: %s", nodes->problem);
    told |= *nodes->problem != 0;
    bool fine = s.best && s.trial && counts;
    if (fine)
        memcpy(s.best, nodes->node, (size_t)graph->vertices * sizeof *s.best);
    if (fine && nodes->network.dimensions)
        fine = hopbyte_toll_measure(nodes, graph, s.best, &s.toll);
    if (fine) {
        gain->toll_before = s.toll;
        for (int v = 0; v < graph->vertices; v++)
            counts[nodes->node[v]]++;
        gain->before = s.cut = hopbyte_cut_measure(graph, s.best, nodes->nodes);
        memcpy(s.trial, s.best, (size_t)graph->vertices * sizeof *s.best);
        trial_judge_and_refine(&s);
        if (grid && hopbyte_grid_tile(grid, counts, nodes->nodes, s.trial))
            trial_judge_and_refine(&s);
        if (grid && hopbyte_grid_bisect(grid, counts, nodes->nodes, s.trial))
            trial_judge_and_refine(&s);
        for (int i = 0; !grid && i < GROWTHS; i++)
            if (hopbyte_graph_grow(graph, counts, nodes->nodes, (int)((int64_t)i * graph->vertices / GROWTHS), s.trial))
                trial_judge_and_refine(&s);
        gain->after = s.cut;
        gain->toll_after = s.toll;
        roles_deal(&s, nodes->node, role, &gain->moved);
    }
    free(s.best);
    free(s.trial);
    free(counts);
    return fine;
}
