/* Nodes in a network of known coordinates: which part of the ranks goes to which node.
 *
 * A message crosses the links of dimension-order routing, the shorter way round a ring, upwards if both are equal (paper
 * 000, V.C). Loads are of directed links. The busiest link comes first, then the sum over links. */
#include "reorder.h"

#include "../common/coords.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t work_most = 100000000;

/* --- the nodes' coordinates, at rank 0 --- */

bool hopbyte_network_read(struct hopbyte_nodes *n, char *problem, size_t room)
{
    const char *path = getenv("HOPBYTE_COORDS_FILE");
    struct hopbyte_coords coords;
    char error[COORDS_ERROR] = "";
    *problem = 0;
    if (!path || !*path)
        return true;
    char *text = hopbyte_coords_load(path, error);
    bool fine = text && hopbyte_coords_parse(text, path, &coords, error);
    free(text);
    if (!fine) {
        snprintf(problem, room, "%s", error);
        return false;
    }
    struct hopbyte_network *net = &n->network;
    net->at = calloc((size_t)n->nodes + 1, sizeof *net->at);
    fine = net->at != NULL;
    for (int k = 0; fine && k < n->nodes; k++) {
        int found = hopbyte_coords_find(&coords, -1, n->names[k]);
        if (found < 0) {
            snprintf(problem, room, "%.200s has no line for node %.63s of this job; expected `node HOST X Y Z`", path,
                     n->names[k]);
            fine = false;
        } else {
            memcpy(net->at[k], coords.nodes[found].at, sizeof net->at[k]);
        }
    }
    if (fine) {
        net->dimensions = coords.dimensions;
        memcpy(net->length, coords.length, sizeof net->length);
        memcpy(net->closed, coords.closed, sizeof net->closed);
    }
    hopbyte_coords_free(&coords);
    return fine;
}

/* --- traffic between parts --- */

struct flow {
    int to;
    int64_t weight;
};
struct quotient {
    int parts;
    int64_t *first;
    struct flow *flows;
};
struct pair {
    uint64_t key;
    int64_t weight;
};

static int pair_compare(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static void quotient_free(struct quotient *q)
{
    free(q->first);
    free(q->flows);
}

static bool quotient_make(struct quotient *q, const struct hopbyte_graph *g, const int *part, int nodes)
{
    int64_t count = 0;
    struct pair *pairs = calloc((size_t)g->first[g->vertices] + 1, sizeof *pairs);
    *q = (struct quotient){nodes, calloc((size_t)nodes + 2, sizeof *q->first), NULL};
    for (int v = 0; pairs && v < g->vertices; v++)
        for (int64_t e = g->first[v]; e < g->first[v + 1]; e++)
            if (part[v] != part[g->to[e]])
                pairs[count++] = (struct pair){(uint64_t)part[v] << 32 | (uint32_t)part[g->to[e]], g->weight[e]};
    if (pairs)
        qsort(pairs, (size_t)count, sizeof *pairs, pair_compare);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (kept && pairs[kept - 1].key == pairs[i].key)
            pairs[kept - 1].weight += pairs[i].weight;
        else
            pairs[kept++] = pairs[i];
    q->flows = calloc((size_t)kept + 1, sizeof *q->flows);
    bool fine = pairs && q->first && q->flows;
    for (int64_t i = 0; fine && i < kept; i++) {
        q->flows[i] = (struct flow){(int)(uint32_t)pairs[i].key, pairs[i].weight};
        q->first[(pairs[i].key >> 32) + 1]++;
    }
    for (int k = 0; fine && k < nodes; k++)
        q->first[k + 1] += q->first[k];
    free(pairs);
    if (!fine)
        quotient_free(q);
    return fine;
}

/* --- costs --- */

/* Steps from one coordinate to another: negative downwards. */
static int steps(const struct hopbyte_network *net, int d, int from, int to)
{
    int up = to - from;
    if (!net->closed[d])
        return up;
    int length = net->length[d];
    up = (up % length + length) % length;
    return up <= length - up ? up : up - length;
}

static int distance(const struct hopbyte_network *net, int a, int b)
{
    int sum = 0;
    for (int d = 0; d < net->dimensions; d++)
        sum += abs(steps(net, d, net->at[a][d], net->at[b][d]));
    return sum;
}

static int64_t routers_count(const struct hopbyte_network *net)
{
    int64_t routers = 1;
    for (int d = 0; d < net->dimensions; d++)
        routers *= net->length[d];
    return routers;
}

/* Adds `weight` to the links of a route; loads of router r's links in dimension d are load[(r * dims + d) * 2 + down]. */
static void route_load(const struct hopbyte_network *net, int from, int to, int64_t weight, int64_t *load)
{
    int at[COORDS_DIMENSIONS];
    memcpy(at, net->at[from], sizeof at);
    for (int d = 0; d < net->dimensions; d++) {
        int left = steps(net, d, at[d], net->at[to][d]), step = left < 0 ? -1 : 1;
        for (; left; left -= step) {
            int64_t router = 0;
            for (int i = 0; i < net->dimensions; i++)
                router = router * net->length[i] + at[i];
            load[(router * net->dimensions + d) * 2 + (step < 0)] += weight;
            at[d] = (at[d] + step + net->length[d]) % net->length[d];
        }
    }
}

/* With part k on node on[k]. */
static struct hopbyte_toll toll_of(const struct hopbyte_network *net, const struct quotient *q, const int *on,
                                   int64_t *load)
{
    struct hopbyte_toll toll = {0, 0};
    int64_t links = routers_count(net) * net->dimensions * 2;
    memset(load, 0, (size_t)links * sizeof *load);
    for (int k = 0; k < q->parts; k++)
        for (int64_t e = q->first[k]; e < q->first[k + 1]; e++) {
            toll.hops += q->flows[e].weight * distance(net, on[k], on[q->flows[e].to]);
            route_load(net, on[k], on[q->flows[e].to], q->flows[e].weight, load);
        }
    for (int64_t l = 0; l < links; l++)
        toll.worst = load[l] > toll.worst ? load[l] : toll.worst;
    return toll;
}

bool hopbyte_toll_better(struct hopbyte_toll a, struct hopbyte_toll b)
{
    return a.worst != b.worst ? a.worst < b.worst : a.hops < b.hops;
}

static int64_t *loads_make(const struct hopbyte_network *net)
{
    return calloc((size_t)(routers_count(net) * net->dimensions * 2) + 1, sizeof(int64_t));
}

bool hopbyte_toll_measure(const struct hopbyte_nodes *n, const struct hopbyte_graph *g, const int *part,
                          struct hopbyte_toll *toll)
{
    struct quotient q;
    int *on = calloc((size_t)n->nodes + 1, sizeof *on);
    int64_t *load = loads_make(&n->network);
    bool fine = on && load && quotient_make(&q, g, part, n->nodes);
    for (int k = 0; fine && k < n->nodes; k++)
        on[k] = k;
    if (fine) {
        *toll = toll_of(&n->network, &q, on, load);
        quotient_free(&q);
    }
    free(on);
    free(load);
    return fine;
}

/* --- search --- */

struct placing {
    const struct hopbyte_nodes *nodes;
    const struct quotient *q;
    int *on, *best;
    int64_t *load, work;
    struct hopbyte_toll toll;
};

static void placing_judge(struct placing *p)
{
    struct hopbyte_toll toll = toll_of(&p->nodes->network, p->q, p->on, p->load);
    if (!hopbyte_toll_better(toll, p->toll))
        return;
    p->toll = toll;
    memcpy(p->best, p->on, (size_t)p->q->parts * sizeof *p->best);
}

/* Change of the sum over links when parts a and b swap their nodes. The traffic of a grid or an undirected graph is the same
 * both ways, so rows suffice. */
static int64_t swap_gain(const struct placing *p, int a, int b)
{
    const struct hopbyte_network *net = &p->nodes->network;
    int64_t change = 0;
    for (int side = 0; side < 2; side++) {
        int k = side ? b : a, other = side ? a : b;
        for (int64_t e = p->q->first[k]; e < p->q->first[k + 1]; e++) {
            int to = p->q->flows[e].to;
            if (to != other)
                change += p->q->flows[e].weight *
                          (distance(net, p->on[other], p->on[to]) - distance(net, p->on[k], p->on[to]));
        }
    }
    return change;
}

static void swap(int *on, int a, int b)
{
    int kept = on[a];
    on[a] = on[b];
    on[b] = kept;
}

/* Swaps while the sum over links falls. */
static void hops_refine(struct placing *p)
{
    bool moved = true;
    while (moved && p->work < work_most) {
        moved = false;
        for (int a = 0; a < p->q->parts && p->work < work_most; a++)
            for (int b = a + 1; b < p->q->parts; b++) {
                if (p->nodes->counts[p->on[a]] != p->nodes->counts[p->on[b]])
                    continue;
                p->work += p->q->first[a + 1] - p->q->first[a] + p->q->first[b + 1] - p->q->first[b] + 1;
                if (swap_gain(p, a, b) < 0) {
                    swap(p->on, a, b);
                    moved = true;
                }
            }
    }
    placing_judge(p);
}

/* Swaps while the busiest link, or the sum with an equally busy one, falls. */
static void worst_refine(struct placing *p)
{
    int64_t price = routers_count(&p->nodes->network) + 8 * p->q->first[p->q->parts] + 1;
    bool moved = true;
    memcpy(p->on, p->best, (size_t)p->q->parts * sizeof *p->on);
    while (moved && p->work < 2 * work_most) {
        moved = false;
        for (int a = 0; a < p->q->parts; a++)
            for (int b = a + 1; b < p->q->parts && p->work < 2 * work_most; b++) {
                if (p->nodes->counts[p->on[a]] != p->nodes->counts[p->on[b]])
                    continue;
                struct hopbyte_toll before = p->toll;
                p->work += price;
                swap(p->on, a, b);
                placing_judge(p);
                if (hopbyte_toll_better(p->toll, before))
                    moved = true;
                else
                    swap(p->on, a, b);
            }
    }
}

/* --- a start by geometry: both sides are bisected along their longest side --- */

struct point {
    double at[REORDER_DIMS_MAX];
    int index;
};
static int sort_dimension;

static int point_compare(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    double u = x->at[sort_dimension], v = y->at[sort_dimension];
    return u != v ? (u > v) - (u < v) : x->index - y->index;
}

static void points_order(struct point *points, int count, int dimensions)
{
    double widest = 0;
    int along = -1;
    for (int d = 0; d < dimensions; d++) {
        double low = points[0].at[d], high = low;
        for (int i = 1; i < count; i++) {
            low = points[i].at[d] < low ? points[i].at[d] : low;
            high = points[i].at[d] > high ? points[i].at[d] : high;
        }
        if (high - low > widest) {
            widest = high - low;
            along = d;
        }
    }
    if (count < 2 || along < 0)
        return;
    sort_dimension = along;
    qsort(points, (size_t)count, sizeof *points, point_compare);
    points_order(points, count / 2, dimensions);
    points_order(points + count / 2, count - count / 2, dimensions);
}

static void geometry_start(struct placing *p, const struct hopbyte_grid *grid, const int *part)
{
    const struct hopbyte_network *net = &p->nodes->network;
    int parts = p->q->parts;
    struct point *blocks = calloc((size_t)parts, sizeof *blocks), *places = calloc((size_t)parts, sizeof *places);
    for (int k = 0; blocks && places && k < parts; k++) {
        blocks[k].index = places[k].index = k;
        for (int d = 0; d < net->dimensions; d++)
            places[k].at[d] = net->at[k][d];
    }
    int cells = (int)hopbyte_grid_cells(grid), at[REORDER_DIMS_MAX];
    for (int v = 0; blocks && places && v < cells; v++) {
        hopbyte_grid_cell(grid, v, at);
        for (int d = 0; d < grid->ndims; d++)
            blocks[part[v]].at[d] += (double)at[d] / p->nodes->counts[part[v]];
    }
    if (blocks && places) {
        points_order(blocks, parts, grid->ndims);
        points_order(places, parts, net->dimensions);
        for (int i = 0; i < parts; i++)
            p->on[blocks[i].index] = places[i].index;
        placing_judge(p);
        hops_refine(p);
    }
    free(blocks);
    free(places);
}

bool hopbyte_network_place(const struct hopbyte_nodes *n, const struct hopbyte_graph *g, const struct hopbyte_grid *grid,
                           int *part)
{
    struct quotient q;
    struct placing p = {.nodes = n, .q = &q, .on = calloc((size_t)n->nodes + 1, sizeof(int)),
                        .best = calloc((size_t)n->nodes + 1, sizeof(int)), .load = loads_make(&n->network)};
    bool fine = p.on && p.best && p.load && quotient_make(&q, g, part, n->nodes), equal = true;
    if (fine) {
        for (int k = 0; k < n->nodes; k++) {
            p.on[k] = p.best[k] = k;
            equal = equal && n->counts[k] == n->counts[0];
        }
        p.toll = toll_of(&n->network, &q, p.on, p.load);
        hops_refine(&p);
        if (grid && equal)
            geometry_start(&p, grid, part);
        worst_refine(&p);
        for (int v = 0; v < g->vertices; v++)
            part[v] = p.best[part[v]];
        quotient_free(&q);
    }
    free(p.on);
    free(p.best);
    free(p.load);
    return fine;
}
