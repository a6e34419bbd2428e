#include "cost.h"

#include <stdlib.h>
#include <string.h>

struct load {
    double out, in, inside; /* bytes over the node's link, each way, and between its members */
};

static double round_seconds(const struct schedule *s, int round, double element, const struct cost_rates *r,
                            struct load *loads)
{
    const struct schedule_places *p = s->places;
    double folded = 0, worst = 0;
    bool network = false, any = false;
    memset(loads, 0, (size_t)p->nodes * sizeof *loads);
    for (int m = 0; m < p->members; m++) {
        struct schedule_step step;
        schedule_step(s, m, round, &step);
        if (step.fold && step.from >= 0 && (double)step.receive_count * element > folded)
            folded = (double)step.receive_count * element;
        if (step.to < 0 || !step.send_count)
            continue;
        double bytes = (double)step.send_count * element;
        int from = p->node[m], to = p->node[step.to];
        any = true;
        if (from == to) {
            loads[from].inside += bytes;
        } else {
            network = true;
            loads[from].out += bytes;
            loads[to].in += bytes;
        }
    }
    for (int k = 0; k < p->nodes; k++) {
        double link = loads[k].out > loads[k].in ? loads[k].out : loads[k].in;
        double seconds = link / r->network_bandwidth + loads[k].inside / r->node_bandwidth;
        worst = seconds > worst ? seconds : worst;
    }
    double latency = network ? r->network_latency : any ? r->node_latency : 0;
    return latency + worst + folded / r->fold_bandwidth;
}

double cost_seconds(const struct schedule *s, size_t element, const struct cost_rates *rates)
{
    struct load *loads = calloc((size_t)s->places->nodes, sizeof *loads);
    double sum = 0;
    if (!loads)
        return -1;
    for (int round = 0, rounds = schedule_rounds(s), repeats; round < rounds; round += repeats) {
        repeats = schedule_repeats(s, round);
        sum += repeats * round_seconds(s, round, (double)element, rates, loads);
    }
    free(loads);
    return sum;
}
