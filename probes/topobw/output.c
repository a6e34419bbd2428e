#include "output.h"

#include "report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] = "hopbyte-topobw-1";

/* One line of the summary: a dimension, or a kind where links have no direction. */
struct group {
    char name[HOPBYTE_NAME_ROOM];
    long count;
    double least, most, sum; /* bytes per second */
    char least_on[HOPBYTE_NAME_ROOM], most_on[HOPBYTE_NAME_ROOM];
};

struct hopbyte_totals {
    int count;
    struct group *groups;
};

struct hopbyte_totals *hopbyte_totals_open(void) {
    return hopbyte_memory(sizeof(struct hopbyte_totals), "the summary");
}

void hopbyte_totals_close(struct hopbyte_totals *totals) {
    free(totals->groups);
    free(totals);
}

static struct group *group_find(struct hopbyte_totals *totals, const char *name) {
    for (int i = 0; i < totals->count; i++)
        if (strcmp(totals->groups[i].name, name) == 0)
            return &totals->groups[i];
    struct group *larger = realloc(totals->groups, (size_t)(totals->count + 1) * sizeof *larger);
    if (!larger)
        hopbyte_world_abort(HOPBYTE_LACKING, "no memory for the summary");
    totals->groups = larger;
    struct group *group = &totals->groups[totals->count++];
    memset(group, 0, sizeof *group);
    snprintf(group->name, sizeof group->name, "%s", name);
    return group;
}

static void total_add(struct hopbyte_totals *totals, const char *name, double rate, const char *source) {
    struct group *group = group_find(totals, name);
    if (!group->count || rate < group->least) {
        group->least = rate;
        snprintf(group->least_on, sizeof group->least_on, "%s", source);
    }
    if (!group->count || rate > group->most) {
        group->most = rate;
        snprintf(group->most_on, sizeof group->most_on, "%s", source);
    }
    group->count++;
    group->sum += rate;
}

char hopbyte_kind_letter(const char *kind) {
    const char *blank = strrchr(kind, ' ');
    return (char)toupper((unsigned char)(blank ? blank[1] : kind[0]));
}

/* `c0-0c0s5n1 X+CE c0-0c1s5n1 (nid00011 to nid00053): 5.0454 seconds = 5945.98 MB/sec` */
static void line_print(const struct hopbyte_plan *plan, const struct hopbyte_transfer *t, double seconds, double rate) {
    const struct hopbyte_node *from = &plan->nodes[t->from], *to = &plan->nodes[t->to];
    bool up;
    int dimension = hopbyte_link_dimension(t->link, &up);
    char label[HOPBYTE_NAME_ROOM + 8], ends[64];
    if (dimension >= 0)
        snprintf(label, sizeof label, "%c%c", hopbyte_dimension_letters[dimension], up ? '+' : '-');
    else
        snprintf(label, sizeof label, "%s:", t->link);
    if (from->nid >= 0 && to->nid >= 0)
        snprintf(ends, sizeof ends, "nid%05d to nid%05d", from->nid, to->nid);
    else
        snprintf(ends, sizeof ends, "rank %d to rank %d", from->rank, to->rank);
    printf("%s %s%c%c %s (%s): %.4f seconds = %.2f MB/sec\n", from->name, label, hopbyte_kind_letter(t->kind),
           t->shared ? 'S' : 'E', to->name, ends, seconds, rate / 1e6);
    fflush(stdout);
}

static void trial_print(const struct hopbyte_plan *plan, int phase, const struct hopbyte_transfer *t, int trial,
                        double seconds, const struct hopbyte_settings *s) {
    double bytes = (double)s->bytes * s->window;
    struct hopbyte_record record;
    hopbyte_record_open(&record, schema);
    hopbyte_record_whole(&record, "phase", phase, NULL);
    hopbyte_record_text(&record, "phase_name", plan->phases[phase].name, NULL);
    hopbyte_record_text(&record, "link", t->link, NULL);
    hopbyte_record_text(&record, "from", plan->nodes[t->from].name, NULL);
    hopbyte_record_text(&record, "to", plan->nodes[t->to].name, NULL);
    hopbyte_record_text(&record, "kind", t->kind, NULL);
    hopbyte_record_text(&record, "mode", t->shared ? "shared" : "exclusive", NULL);
    hopbyte_record_whole(&record, "bytes", (long long)s->bytes * s->window, NULL);
    hopbyte_record_whole(&record, "messages", s->window, NULL);
    hopbyte_record_number(&record, "seconds", seconds, NULL, 1);
    hopbyte_record_number(&record, "bytes_per_second", bytes / seconds, NULL, 1);
    hopbyte_record_whole(&record, "trial", trial, NULL);
    hopbyte_record_json(&record, stdout);
}

void hopbyte_transfer_print(const struct hopbyte_plan *plan, int phase, int index, const double *seconds,
                            const struct hopbyte_settings *s, struct hopbyte_totals *totals) {
    const struct hopbyte_transfer *t = &plan->transfers[index];
    double sum = 0;
    for (int trial = 0; trial < s->trials; trial++) {
        sum += seconds[trial];
        if (s->json)
            trial_print(plan, phase, t, trial, seconds[trial], s);
    }
    double rate = (double)s->bytes * s->window * s->trials / sum;
    if (!s->json)
        line_print(plan, t, sum, rate);
    bool up;
    int dimension = hopbyte_link_dimension(t->link, &up);
    char letter[2] = {dimension >= 0 ? hopbyte_dimension_letters[dimension] : '\0', '\0'};
    total_add(totals, dimension >= 0 ? letter : t->kind, rate, plan->nodes[t->from].name);
}

static void group_json(const struct group *group, FILE *out) {
    fputs("{\"name\":", out);
    hopbyte_json_string(out, group->name);
    fprintf(out, ",\"transfers\":%ld,\"least_bytes_per_second\":%.9g,\"least_on\":", group->count, group->least);
    hopbyte_json_string(out, group->least_on);
    fprintf(out, ",\"most_bytes_per_second\":%.9g,\"most_on\":", group->most);
    hopbyte_json_string(out, group->most_on);
    fprintf(out, ",\"average_bytes_per_second\":%.9g}", group->sum / (double)group->count);
}

void hopbyte_totals_print(const struct hopbyte_totals *totals, const struct hopbyte_settings *s) {
    if (s->json)
        printf("{\"schema\":\"%s\",\"summary\":[", schema);
    for (int i = 0; i < totals->count; i++) {
        const struct group *group = &totals->groups[i];
        if (s->json) {
            fputs(i ? "," : "", stdout);
            group_json(group, stdout);
        } else {
            printf("Bandwidth %s min: %.2f on %s max: %.2f on %s avg: %.2f\n", group->name, group->least / 1e6,
                   group->least_on, group->most / 1e6, group->most_on, group->sum / (double)group->count / 1e6);
        }
    }
    if (s->json)
        puts("]}");
    fflush(stdout);
}
