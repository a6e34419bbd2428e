#include "plan.h"

#include "rounds.h"

#include <stdlib.h>
#include <string.h>

const char hopbyte_dimension_letters[] = "XYZUVW";

/* The plan's own copy of a string; the last few strings are cached and shared. */
static const char *text_keep(struct hopbyte_plan *plan, const char *text) {
    for (int i = plan->string_count - 1; i >= 0 && i >= plan->string_count - 8; i--)
        if (strcmp(plan->strings[i], text) == 0)
            return plan->strings[i];
    plan->strings = hopbyte_room_make(plan->strings, plan->string_count, &plan->string_room, sizeof *plan->strings);
    char *copy = strdup(text);
    if (!copy)
        hopbyte_world_abort(HOPBYTE_LACKING, "no memory for a plan's names");
    return plan->strings[plan->string_count++] = copy;
}

struct hopbyte_node *hopbyte_plan_node(struct hopbyte_plan *plan, const char *host) {
    plan->nodes = hopbyte_room_make(plan->nodes, plan->node_count, &plan->node_room, sizeof *plan->nodes);
    struct hopbyte_node *node = &plan->nodes[plan->node_count++];
    *node = (struct hopbyte_node){.nid = -1, .rank = -1};
    snprintf(node->host, sizeof node->host, "%s", host);
    snprintf(node->name, sizeof node->name, "%s", host);
    return node;
}

void hopbyte_plan_phase(struct hopbyte_plan *plan, const char *name) {
    plan->phases = hopbyte_room_make(plan->phases, plan->phase_count, &plan->phase_room, sizeof *plan->phases);
    plan->phases[plan->phase_count++] =
        (struct hopbyte_phase){.name = text_keep(plan, name), .first = plan->transfer_count};
}

void hopbyte_plan_transfer(struct hopbyte_plan *plan, int from, int to, const char *link, const char *kind,
                           enum hopbyte_use use) {
    plan->transfers =
        hopbyte_room_make(plan->transfers, plan->transfer_count, &plan->transfer_room, sizeof *plan->transfers);
    plan->transfers[plan->transfer_count++] = (struct hopbyte_transfer){
        .from = from,
        .to = to,
        .link = text_keep(plan, link),
        .kind = text_keep(plan, kind),
        .use = use,
        .shared = use == HOPBYTE_USED_SHARED,
    };
    plan->phases[plan->phase_count - 1].count++;
}

static int by_link(const void *a, const void *b) {
    return strcmp((*(struct hopbyte_transfer *const *)a)->link, (*(struct hopbyte_transfer *const *)b)->link);
}

static void shared_mark(struct hopbyte_plan *plan, const struct hopbyte_phase *phase) {
    struct hopbyte_transfer **sorted = hopbyte_memory((size_t)phase->count * sizeof *sorted, "a plan");
    for (int i = 0; i < phase->count; i++)
        sorted[i] = &plan->transfers[phase->first + i];
    qsort(sorted, (size_t)phase->count, sizeof *sorted, by_link);
    for (int i = 1; i < phase->count; i++)
        if (strcmp(sorted[i]->link, sorted[i - 1]->link) == 0)
            for (int k = i - 1; k <= i; k++)
                sorted[k]->shared |= sorted[k]->use == HOPBYTE_COUNTED;
    free(sorted);
}

void hopbyte_plan_finish(struct hopbyte_plan *plan) {
    int kept = 0;
    for (int i = 0; i < plan->phase_count; i++) {
        if (plan->phases[i].count == 0)
            continue;
        plan->phases[kept] = plan->phases[i];
        shared_mark(plan, &plan->phases[kept++]);
    }
    plan->phase_count = kept;
}

char *hopbyte_node_names(const struct hopbyte_world *world) {
    char *names = hopbyte_memory((size_t)world->size * HOPBYTE_NAME_ROOM, "the ranks' node names");
    MPI_Allgather(world->node, HOPBYTE_NAME_ROOM, MPI_CHAR, names, HOPBYTE_NAME_ROOM, MPI_CHAR, world->comm);
    return names;
}

static int by_host(const void *a, const void *b) {
    return strcmp((*(struct hopbyte_node *const *)a)->host, (*(struct hopbyte_node *const *)b)->host);
}

static struct hopbyte_node *node_find(struct hopbyte_node **sorted, int count, const char *host) {
    struct hopbyte_node key, *at = &key;
    snprintf(key.host, sizeof key.host, "%s", host);
    struct hopbyte_node **found = bsearch(&at, sorted, (size_t)count, sizeof *sorted, by_host);
    return found ? *found : NULL;
}

void hopbyte_plan_ranks(struct hopbyte_plan *plan, const struct hopbyte_world *world, const char *source,
                        bool all_known) {
    struct hopbyte_node **sorted = hopbyte_memory((size_t)plan->node_count * sizeof *sorted, "a plan");
    for (int i = 0; i < plan->node_count; i++)
        sorted[i] = &plan->nodes[i];
    qsort(sorted, (size_t)plan->node_count, sizeof *sorted, by_host);
    for (int i = 1; i < plan->node_count; i++)
        if (by_host(&sorted[i - 1], &sorted[i]) == 0)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: node '%s' is listed twice", source, sorted[i]->host);
    char *names = hopbyte_node_names(world);
    for (int rank = world->size - 1; rank >= 0; rank--) {
        char label[32];
        snprintf(label, sizeof label, "rank:%d", rank);
        const char *host = names + (size_t)rank * HOPBYTE_NAME_ROOM;
        struct hopbyte_node *node = node_find(sorted, plan->node_count, label);
        if (!node)
            node = node_find(sorted, plan->node_count, host);
        if (node)
            node->rank = rank;
        else if (all_known)
            hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: rank %d runs on '%s', which is not listed (nor is '%s')",
                                 source, rank, host, label);
    }
    free(names);
    free(sorted);
}

void hopbyte_plan_tournament(struct hopbyte_plan *plan, const struct hopbyte_world *world, bool ranks) {
    char *names = hopbyte_node_names(world);
    for (int rank = 0; rank < world->size; rank++) {
        char *host = names + (size_t)rank * HOPBYTE_NAME_ROOM;
        if (ranks)
            snprintf(host, HOPBYTE_NAME_ROOM, "rank:%d", rank);
        bool known = false;
        for (int i = plan->node_count - 1; i >= 0 && !known; i--)
            known = strcmp(plan->nodes[i].host, host) == 0;
        if (!known)
            hopbyte_plan_node(plan, host)->rank = rank;
    }
    free(names);
    int players = plan->node_count;
    for (int phase = 0; phase < hopbyte_tournament_phases(players); phase++) {
        char text[2 * HOPBYTE_NAME_ROOM + 8];
        snprintf(text, sizeof text, "round %d %s", phase / 2, phase % 2 ? "back" : "forth");
        hopbyte_plan_phase(plan, text);
        for (int at = 0; at < players; at++) {
            int to = hopbyte_tournament_target(players, phase, at);
            if (to < 0)
                continue;
            snprintf(text, sizeof text, "%s->%s", plan->nodes[at].name, plan->nodes[to].name);
            hopbyte_plan_transfer(plan, at, to, text, "path", HOPBYTE_COUNTED);
        }
    }
    hopbyte_plan_finish(plan);
}

int hopbyte_link_dimension(const char *link, bool *up) {
    size_t length = strlen(link);
    if (length < 3 || link[length - 3] != ' ' || !strchr("+-", link[length - 1]))
        return -1;
    const char *letter = strchr(hopbyte_dimension_letters, link[length - 2]);
    *up = link[length - 1] == '+';
    return letter ? (int)(letter - hopbyte_dimension_letters) : -1;
}
