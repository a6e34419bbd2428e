/* Schedule files: input from an external planner, and output of `topobw --plan`.
 *
 * Lines `phase<TAB>NAME`, each followed by its transfers `SOURCE<TAB>TARGET<TAB>LINK<TAB>KIND`, optionally with
 * `<TAB>shared` or `<TAB>exclusive` (default: whether the phase uses the link twice). SOURCE and TARGET are node
 * names or rank:N; `node<TAB>NODE<TAB>NAME<TAB>NID` gives the displayed name and nid of a node (NID -1: none).
 * # starts a comment. */
#include "lines.h"
#include "plan.h"

#include <stdlib.h>
#include <string.h>

static int by_host(const void *a, const void *b) {
    return strcmp(((const struct hopbyte_node *)a)->host, ((const struct hopbyte_node *)b)->host);
}

static void word_check(const struct hopbyte_lines *lines, int index, const char *expected) {
    const char *word = index < lines->count ? lines->words[index] : "the end of the line";
    if (index >= lines->count || !*word || strlen(word) >= HOPBYTE_NAME_ROOM)
        hopbyte_lines_wrong(lines, word, expected);
}

static bool is_phase(const struct hopbyte_lines *lines) {
    return strcmp(lines->words[0], "phase") == 0;
}

static bool is_node(const struct hopbyte_lines *lines) {
    return strcmp(lines->words[0], "node") == 0;
}

/* First pass: every node that takes part once, sorted by name. */
static void nodes_read(struct hopbyte_plan *plan, const char *path) {
    struct hopbyte_lines lines;
    hopbyte_lines_open(&lines, path, '\t');
    while (hopbyte_lines_next(&lines)) {
        if (is_phase(&lines) || is_node(&lines))
            continue;
        word_check(&lines, 0, "a node name");
        word_check(&lines, 1, "two node names, a link and a kind, separated by tabs");
        hopbyte_plan_node(plan, lines.words[0]);
        hopbyte_plan_node(plan, lines.words[1]);
    }
    hopbyte_lines_close(&lines);
    if (plan->node_count == 0)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: no transfers; expected lines SOURCE, TARGET, LINK, KIND", path);
    qsort(plan->nodes, (size_t)plan->node_count, sizeof *plan->nodes, by_host);
    int kept = 1;
    for (int i = 1; i < plan->node_count; i++)
        if (by_host(&plan->nodes[kept - 1], &plan->nodes[i]) != 0)
            plan->nodes[kept++] = plan->nodes[i];
    plan->node_count = kept;
}

/* Position of a node, or -1. */
static int node_find(const struct hopbyte_plan *plan, const char *host) {
    struct hopbyte_node key;
    snprintf(key.host, sizeof key.host, "%s", host);
    const struct hopbyte_node *found = bsearch(&key, plan->nodes, (size_t)plan->node_count, sizeof key, by_host);
    return found ? (int)(found - plan->nodes) : -1;
}

static void name_read(const struct hopbyte_lines *lines, struct hopbyte_plan *plan) {
    word_check(lines, 1, "a node");
    word_check(lines, 2, "the node's name");
    int node = node_find(plan, lines->words[1]);
    if (node < 0)
        return; /* it takes no part */
    snprintf(plan->nodes[node].name, sizeof plan->nodes[node].name, "%s", lines->words[2]);
    plan->nodes[node].nid = hopbyte_lines_number(lines, 3, -1, 100000000);
}

/* Refuses a node that is not in the job or takes part twice in a phase. */
static void part_check(const struct hopbyte_lines *lines, const struct hopbyte_plan *plan, int node, int *last_phase) {
    if (plan->nodes[node].rank < 0)
        hopbyte_lines_wrong(lines, plan->nodes[node].host, "a node on which a rank of this job runs");
    if (last_phase[node] == plan->phase_count)
        hopbyte_lines_wrong(lines, plan->nodes[node].host, "a node that takes no part in this phase yet");
    last_phase[node] = plan->phase_count;
}

static void transfer_read(const struct hopbyte_lines *lines, struct hopbyte_plan *plan, int *last_phase) {
    if (plan->phase_count == 0)
        hopbyte_lines_wrong(lines, lines->words[0], "a phase before the first transfer");
    word_check(lines, 2, "the link's name");
    word_check(lines, 3, "the link's kind");
    int from = node_find(plan, lines->words[0]), to = node_find(plan, lines->words[1]);
    part_check(lines, plan, from, last_phase);
    part_check(lines, plan, to, last_phase);
    enum hopbyte_use use = HOPBYTE_COUNTED;
    if (lines->count > 4) {
        use = strcmp(lines->words[4], "shared") == 0 ? HOPBYTE_USED_SHARED : HOPBYTE_USED_ALONE;
        if (lines->count > 5 || (use == HOPBYTE_USED_ALONE && strcmp(lines->words[4], "exclusive") != 0))
            hopbyte_lines_wrong(lines, lines->words[lines->count - 1], "shared, exclusive or the end of the line");
    }
    hopbyte_plan_transfer(plan, from, to, lines->words[2], lines->words[3], use);
}

void hopbyte_plan_schedule(struct hopbyte_plan *plan, const struct hopbyte_world *world, const char *path) {
    nodes_read(plan, path);
    hopbyte_plan_ranks(plan, world, path, false);
    int *last_phase = hopbyte_memory((size_t)plan->node_count * sizeof *last_phase, "a plan");
    struct hopbyte_lines lines;
    hopbyte_lines_open(&lines, path, '\t');
    while (hopbyte_lines_next(&lines)) {
        if (is_node(&lines)) {
            name_read(&lines, plan);
        } else if (is_phase(&lines)) {
            word_check(&lines, 1, "the name of the phase");
            hopbyte_plan_phase(plan, lines.words[1]);
        } else {
            transfer_read(&lines, plan, last_phase);
        }
    }
    hopbyte_lines_close(&lines);
    free(last_phase);
    hopbyte_plan_finish(plan);
}

void hopbyte_plan_write(const struct hopbyte_plan *plan, FILE *out) {
    fprintf(out, "# topobw schedule: %d phases, %d transfers\n", plan->phase_count, plan->transfer_count);
    for (int i = 0; i < plan->node_count; i++) {
        const struct hopbyte_node *node = &plan->nodes[i];
        if (node->rank >= 0 && (node->nid >= 0 || strcmp(node->name, node->host) != 0))
            fprintf(out, "node\t%s\t%s\t%d\n", node->host, node->name, node->nid);
    }
    for (int i = 0; i < plan->phase_count; i++) {
        const struct hopbyte_phase *phase = &plan->phases[i];
        fprintf(out, "phase\t%s\n", phase->name);
        for (int k = phase->first; k < phase->first + phase->count; k++) {
            const struct hopbyte_transfer *t = &plan->transfers[k];
            fprintf(out, "%s\t%s\t%s\t%s\t%s\n", plan->nodes[t->from].host, plan->nodes[t->to].host, t->link, t->kind,
                    t->shared ? "shared" : "exclusive");
        }
    }
}
