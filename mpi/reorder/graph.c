/* Communication graphs on nodes: traffic between nodes, and its minimisation. */
#include "reorder.h"

#include <stdlib.h>
#include <string.h>

/* Bound on the steps of the exchange, so that a huge graph costs seconds and not hours. */
static const int64_t work_most = 200000000;

bool hopbyte_graph_make(struct hopbyte_graph *g, int vertices, int64_t edges)
{
    g->vertices = vertices;
    g->first = calloc((size_t)vertices + 1, sizeof *g->first);
    g->to = calloc((size_t)edges + 1, sizeof *g->to);
    g->weight = calloc((size_t)edges + 1, sizeof *g->weight);
    if (g->first && g->to && g->weight)
        return true;
    hopbyte_graph_free(g);
    return false;
}

void hopbyte_graph_free(struct hopbyte_graph *g)
{
    free(g->first);
    free(g->to);
    free(g->weight);
    memset(g, 0, sizeof *g);
}

struct hopbyte_cut hopbyte_cut_measure(const struct hopbyte_graph *g, const int *part, int nodes)
{
    struct hopbyte_cut cut = {0, 0};
    int64_t *load = calloc((size_t)nodes + 1, sizeof *load);
    for (int v = 0; v < g->vertices; v++)
        for (int64_t e = g->first[v]; e < g->first[v + 1]; e++)
            if (part[v] != part[g->to[e]]) {
                cut.total += g->weight[e];
                if (load) {
                    load[part[v]] += g->weight[e];
                    load[part[g->to[e]]] += g->weight[e];
                }
            }
    for (int k = 0; load && k < nodes; k++)
        cut.worst = load[k] > cut.worst ? load[k] : cut.worst;
    free(load);
    return cut;
}

/* The busiest node bounds the time of an exchange among all ranks; the sum comes second. */
bool hopbyte_cut_better(struct hopbyte_cut a, struct hopbyte_cut b)
{
    return a.worst != b.worst ? a.worst < b.worst : a.total < b.total;
}

/* --- exchange of pairs (a Kernighan-Lin step without look-ahead) --- */

struct exchange {
    const struct hopbyte_graph *g;
    int *part, nodes;
    int *members, *start; /* vertices of node k: members[start[k]] .. members[start[k + 1] - 1] */
    int *place;           /* of a vertex in members */
    int64_t work;
};

/* Weight between v and node k; both directions of a link are in the graph, so outgoing edges suffice. */
static int64_t pull(struct exchange *x, int v, int k)
{
    int64_t sum = 0;
    for (int64_t e = x->g->first[v]; e < x->g->first[v + 1]; e++)
        sum += x->part[x->g->to[e]] == k ? x->g->weight[e] : 0;
    x->work += x->g->first[v + 1] - x->g->first[v];
    return sum;
}

static int64_t between(const struct hopbyte_graph *g, int u, int v)
{
    int64_t sum = 0;
    for (int64_t e = g->first[u]; e < g->first[u + 1]; e++)
        sum += g->to[e] == v ? g->weight[e] : 0;
    return sum;
}

static int64_t swap_gain(struct exchange *x, int v, int u)
{
    int a = x->part[v], b = x->part[u];
    return pull(x, v, b) - pull(x, v, a) + pull(x, u, a) - pull(x, u, b) - between(x->g, v, u) - between(x->g, u, v);
}

static void swap(struct exchange *x, int v, int u)
{
    int a = x->part[v], at = x->place[v];
    x->part[v] = x->part[u];
    x->part[u] = a;
    x->members[x->place[u]] = v;
    x->members[at] = u;
    x->place[v] = x->place[u];
    x->place[u] = at;
}

/* Swaps v with the member of a neighbouring node that gains most; true if one gains. */
static bool vertex_improve(struct exchange *x, int v)
{
    int64_t best = 0;
    int partner = -1;
    for (int64_t e = x->g->first[v]; e < x->g->first[v + 1]; e++) {
        int b = x->part[x->g->to[e]];
        if (b == x->part[v])
            continue;
        for (int i = x->start[b]; i < x->start[b + 1] && x->work < work_most; i++) {
            int64_t gain = swap_gain(x, v, x->members[i]);
            if (gain > best) {
                best = gain;
                partner = x->members[i];
            }
        }
    }
    if (partner >= 0)
        swap(x, v, partner);
    return partner >= 0;
}

static bool members_list(struct exchange *x)
{
    x->members = calloc((size_t)x->g->vertices + 1, sizeof *x->members);
    x->place = calloc((size_t)x->g->vertices + 1, sizeof *x->place);
    x->start = calloc((size_t)x->nodes + 2, sizeof *x->start);
    if (!x->members || !x->place || !x->start)
        return false;
    for (int v = 0; v < x->g->vertices; v++)
        x->start[x->part[v] + 1]++;
    for (int k = 0; k < x->nodes; k++)
        x->start[k + 1] += x->start[k];
    for (int v = 0; v < x->g->vertices; v++) {
        x->place[v] = x->start[x->part[v]]++;
        x->members[x->place[v]] = v;
    }
    for (int k = x->nodes; k > 0; k--)
        x->start[k] = x->start[k - 1];
    x->start[0] = 0;
    return true;
}

void hopbyte_graph_refine(const struct hopbyte_graph *g, int *part, int nodes)
{
    struct exchange x = {.g = g, .part = part, .nodes = nodes};
    if (members_list(&x))
        for (bool better = true; better && x.work < work_most;) {
            better = false;
            for (int v = 0; v < g->vertices; v++)
                better |= vertex_improve(&x, v);
        }
    free(x.members);
    free(x.place);
    free(x.start);
}

/* --- growth --- */

struct growth {
    const struct hopbyte_graph *g;
    int *part, *frontier, frontier_count; /* frontier: unplaced neighbours of the part being grown */
    int64_t *drawn, *pulled;              /* weight of a vertex to the part being grown, and to all placed vertices */
};

/* Weight to neighbours on the frontier: of equals, the vertex that closes a ring keeps a part compact. */
static int64_t closeness(const struct growth *w, const int64_t *drawn, int v)
{
    int64_t sum = 0;
    for (int64_t e = w->g->first[v]; e < w->g->first[v + 1]; e++)
        if (w->part[w->g->to[e]] < 0)
            sum += drawn[w->g->to[e]];
    return sum;
}

struct choice {
    int vertex;
    int64_t drawn, close;
};

static void choice_offer(const struct growth *w, const int64_t *drawn, struct choice *best, int v)
{
    if (w->part[v] >= 0 || (best->vertex >= 0 && drawn[v] < best->drawn))
        return;
    int64_t close = closeness(w, drawn, v);
    if (best->vertex < 0 || drawn[v] > best->drawn || close > best->close)
        *best = (struct choice){v, drawn[v], close};
}

/* The unplaced vertex with the largest weight to placed ones: a corner left by the other parts. */
static int seed_find(const struct growth *w, int from)
{
    struct choice best = {.vertex = -1};
    for (int i = 0, n = w->g->vertices; i < n; i++)
        choice_offer(w, w->pulled, &best, (from + i) % n);
    return best.vertex;
}

static int next_find(const struct growth *w, int from)
{
    struct choice best = {.vertex = -1};
    for (int i = 0; i < w->frontier_count; i++)
        choice_offer(w, w->drawn, &best, w->frontier[i]);
    return best.vertex >= 0 ? best.vertex : seed_find(w, from);
}

static void vertex_place(struct growth *w, int v, int part)
{
    w->part[v] = part;
    for (int64_t e = w->g->first[v]; e < w->g->first[v + 1]; e++) {
        int to = w->g->to[e];
        if (!w->drawn[to] && w->part[to] < 0)
            w->frontier[w->frontier_count++] = to;
        w->drawn[to] += w->g->weight[e] ? w->g->weight[e] : 1;
        w->pulled[to] += w->g->weight[e];
    }
}

/* Resets the frontier after a part, only where it was touched. */
static void part_close(struct growth *w, const int *members, int count)
{
    for (int i = 0; i < count; i++)
        for (int64_t e = w->g->first[members[i]]; e < w->g->first[members[i] + 1]; e++)
            w->drawn[w->g->to[e]] = 0;
    w->frontier_count = 0;
}

static void parts_grow(struct growth *w, const int *counts, int nodes, int from, int *members)
{
    for (int k = 0; k < nodes; k++) {
        int placed = 0;
        for (int v = counts[k] ? seed_find(w, from) : -1; v >= 0; v = placed < counts[k] ? next_find(w, from) : -1) {
            vertex_place(w, v, k);
            members[placed++] = v;
        }
        part_close(w, members, placed);
    }
}

bool hopbyte_graph_grow(const struct hopbyte_graph *g, const int *counts, int nodes, int from, int *part)
{
    size_t n = (size_t)g->vertices + 1;
    struct growth w = {g, part, calloc(n, sizeof(int)), 0, calloc(n, sizeof(int64_t)), calloc(n, sizeof(int64_t))};
    int *members = calloc(n, sizeof *members);
    bool fine = w.frontier && w.drawn && w.pulled && members && (int64_t)g->vertices * nodes <= work_most;
    for (int v = 0; fine && v < g->vertices; v++)
        part[v] = -1;
    if (fine)
        parts_grow(&w, counts, nodes, from, members);
    free(w.frontier);
    free(w.drawn);
    free(w.pulled);
    free(members);
    return fine;
}
