/* Assignment of ranks to vertices: the best of several heuristics, never worse than the present order. */
#include "reorder.h"

#include <stdlib.h>
#include <string.h>

enum { GROWTHS = 8 }; /* number of start vertices */

struct search {
    const struct hopbyte_graph *graph;
    const struct hopbyte_nodes *nodes;
    int *best, *trial;
    struct hopbyte_cut cut;
};

static void trial_judge(struct search *s)
{
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
    struct search s = {.graph = graph, .nodes = nodes, .best = calloc(room, sizeof(int)),
                       .trial = calloc(room, sizeof(int))};
    int *counts = calloc((size_t)nodes->nodes + 1, sizeof *counts);
    bool fine = s.best && s.trial && counts;
    if (fine) {
        memcpy(s.best, nodes->node, (size_t)graph->vertices * sizeof *s.best);
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
        roles_deal(&s, nodes->node, role, &gain->moved);
    }
    free(s.best);
    free(s.trial);
    free(counts);
    return fine;
}
