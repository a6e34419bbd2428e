/* simulate < PROBLEM: a machine packet by packet, with buffers and credits, for bench/blame/run.py. It shares no code with
 * hopbyte. Numbers on the standard input, counts on the standard output, as described in `read_problem` and `main`.
 *
 * In a cycle the fastest link sends one packet. A link's receiving end has a buffer of BUFFER packets for each virtual
 * channel; a packet leaves only if the next buffer has room (a credit) and its link has a token. The first packet of a buffer
 * holds back the others. Channels rise where links do not ascend in a fixed order, so no cycle of waiting can close. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 16, BEFORE = 1500, WINDOW = 4000, CHANNELS = 12, JOBS = 8 };

struct packet { int32_t flow; int32_t hop; int64_t arrived; };
struct buffer { struct packet at[BUFFER]; int first, count; };
struct link {
    int from_router, to_router; /* -1: a node */
    double rate, arrives, tokens, damage, forward;
    bool sent, wanted, starved, held, active;
    struct buffer *buffers;
    int64_t packets, input_stall, credit_stall, wait, errors, by_job[JOBS];
};
struct node { int inject, eject; double takes, sends, taking, sending; };
struct flow { int job, from, to, hops, message, period, on, *route, *channel; double rate, due; int backlog; };
struct list { int *at; int count, room; };

static int links, routers, nodes, flows, most;
static struct link *link_;
static struct node *node_;
static struct flow *flow_;
static double *router_share, *node_rate_in, *node_rate_out;

static void *zeros(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) exit(3);
    return p;
}

static void push(struct list *l, int value) {
    if (l->count == l->room) {
        l->room = 2 * l->room + 4;
        l->at = realloc(l->at, (size_t)l->room * sizeof *l->at);
        if (!l->at) exit(3);
    }
    l->at[l->count++] = value;
}

static double number(void) {
    double value;
    if (scanf("%lf", &value) != 1) exit(2);
    return value;
}

/* links routers nodes flows; for each link: router it begins and ends at (-1: node), rate, share of undamaged packets; for each
 * node: its links, share at which it takes and sends; for each router its share; for each flow: job, sender, receiver, packets
 * a cycle, packets of a message, cycles of a phase and those of them in which it sends, number of links and the links. */
static void read_problem(void) {
    links = (int)number(), routers = (int)number(), nodes = (int)number(), flows = (int)number();
    link_ = zeros((size_t)links, sizeof *link_);
    node_ = zeros((size_t)nodes, sizeof *node_);
    flow_ = zeros((size_t)flows, sizeof *flow_);
    router_share = zeros((size_t)routers, sizeof *router_share);
    node_rate_in = zeros((size_t)nodes, sizeof *node_rate_in);
    node_rate_out = zeros((size_t)nodes, sizeof *node_rate_out);
    for (int i = 0; i < links; i++) {
        struct link *l = &link_[i];
        l->from_router = (int)number(), l->to_router = (int)number(), l->rate = number(), l->arrives = number();
    }
    for (int i = 0; i < nodes; i++) {
        struct node *n = &node_[i];
        n->inject = (int)number(), n->eject = (int)number(), n->takes = number(), n->sends = number();
        node_rate_out[i] = number(), node_rate_in[i] = number();
    }
    for (int i = 0; i < routers; i++) router_share[i] = number();
    for (int i = 0; i < flows; i++) {
        struct flow *f = &flow_[i];
        f->job = (int)number(), f->from = (int)number(), f->to = (int)number(), f->rate = number();
        f->message = (int)number(), f->period = (int)number(), f->on = (int)number(), f->hops = (int)number();
        f->route = zeros((size_t)f->hops, sizeof *f->route);
        f->channel = zeros((size_t)f->hops, sizeof *f->channel);
        for (int h = 0; h < f->hops; h++) f->route[h] = (int)number();
        int channel = 0;
        long before = -1;
        for (int h = 0; h < f->hops; h++) {
            const struct link *l = &link_[f->route[h]];
            long key = 0;
            if (l->from_router >= 0 && l->to_router >= 0)
                key = l->to_router > l->from_router ? 1 + l->from_router : 2L * (routers + 1) - l->from_router;
            if (l->from_router >= 0 && l->to_router < 0) key = 4L * (routers + 1);
            if (h > 0 && key <= before) channel++;
            before = key;
            f->channel[h] = channel;
            if (channel + 1 > most) most = channel + 1;
        }
    }
    if (most > CHANNELS) exit(2);
}

static bool deliver(struct link *l, struct packet p, int channel, bool counted) {
    l->tokens -= 1;
    l->sent = true;
    l->damage += 1 - l->arrives;
    if (l->damage >= 1) {
        l->damage -= 1;
        l->errors += counted;
        return false;
    }
    struct buffer *b = &l->buffers[channel];
    b->at[(b->first + b->count++) % BUFFER] = p;
    if (counted) {
        l->packets++;
        l->by_job[flow_[p.flow].job]++;
    }
    return true;
}

/* Where a round of arbitration begins: drawn, since a fixed turn could starve a link whose packets come in step with it. */
static int turn(int64_t now, int salt, int count) {
    uint64_t x = ((uint64_t)now << 20 | (uint64_t)salt) * 0x9e3779b97f4a7c15u;
    return (int)((x >> 33) % (uint64_t)count);
}

static double least(double a, double b) { return a < b ? a : b; }

int main(void) {
    read_problem();
    struct list *inputs = zeros((size_t)routers, sizeof *inputs), *senders = zeros((size_t)links, sizeof *senders);
    struct list used = {0}, last = {0}, first = {0}, busy = {0};
    bool *seen = zeros((size_t)links * (size_t)most, 1), *ends = zeros((size_t)links, 1);
    for (int i = 0; i < flows; i++) {
        const struct flow *f = &flow_[i];
        for (int h = 0; h < f->hops; h++) {
            int l = f->route[h];
            if (!link_[l].active) push(&used, l);
            link_[l].active = true;
            bool *s = &seen[(size_t)l * (size_t)most + (size_t)f->channel[h]];
            if (link_[l].to_router >= 0 && !*s) push(&inputs[link_[l].to_router], l * CHANNELS + f->channel[h]);
            *s = true;
        }
        if (!senders[f->route[0]].count) push(&first, f->route[0]);
        push(&senders[f->route[0]], i);
        int end = f->route[f->hops - 1];
        if (!ends[end]) push(&last, end);
        ends[end] = true;
    }
    for (int i = 0; i < links; i++)
        if (link_[i].active) link_[i].buffers = zeros((size_t)most, sizeof(struct buffer));
    for (int r = 0; r < routers; r++)
        if (inputs[r].count) push(&busy, r);
    int64_t delivered[JOBS] = {0};
    for (int64_t now = 0; now < BEFORE + WINDOW; now++) {
        bool counted = now >= BEFORE;
        for (int i = 0; i < used.count; i++) {
            struct link *l = &link_[used.at[i]];
            /* A link that was stopped does not catch up. */
            l->tokens = least(l->tokens + l->rate, l->starved && !l->sent ? 1 : 1 + l->rate);
            l->sent = l->wanted = l->starved = l->held = false;
        }
        for (int i = 0; i < nodes; i++) {
            struct node *n = &node_[i];
            n->taking = least(n->taking + n->takes * node_rate_in[i], 2);
            n->sending = least(n->sending + n->sends * node_rate_out[i], 2);
        }
        for (int i = 0; i < last.count; i++)
            for (int c = 0; c < most; c++) {
                struct buffer *b = &link_[last.at[i]].buffers[c];
                if (!b->count || b->at[b->first].arrived >= now) continue;
                const struct flow *f = &flow_[b->at[b->first].flow];
                struct node *n = &node_[f->to];
                if (n->takes < 1 && n->taking < 1) continue;
                n->taking -= n->takes < 1;
                b->first = (b->first + 1) % BUFFER;
                b->count--;
                delivered[f->job] += counted;
            }
        for (int i = 0; i < busy.count; i++) {
            int r = busy.at[i];
            const struct list *in = &inputs[r];
            bool slow = router_share[r] < 1;
            for (int k = 0, start = turn(now, r, in->count); k < in->count; k++) {
                int port = in->at[(start + k) % in->count];
                struct link *from = &link_[port / CHANNELS];
                struct buffer *b = &from->buffers[port % CHANNELS];
                if (!b->count || b->at[b->first].arrived >= now) continue;
                struct packet p = b->at[b->first];
                const struct flow *f = &flow_[p.flow];
                struct link *to = &link_[f->route[p.hop + 1]];
                int channel = f->channel[p.hop + 1];
                to->wanted = true;
                bool moved = false;
                if (to->tokens >= 1 && !(slow && from->forward < 1)) {
                    if (to->buffers[channel].count >= BUFFER) {
                        to->starved = true;
                    } else {
                        if (slow) from->forward -= 1;
                        p.hop++;
                        p.arrived = now;
                        moved = deliver(to, p, channel, counted);
                    }
                }
                if (moved) {
                    b->first = (b->first + 1) % BUFFER;
                    b->count--;
                } else if (b->at[b->first].arrived + 1 < now) {
                    from->held = true;
                }
            }
            if (slow)
                for (int k = 0; k < in->count; k++) {
                    struct link *from = &link_[in->at[k] / CHANNELS];
                    int parts = 0;
                    for (int j = 0; j < in->count; j++) parts += in->at[j] / CHANNELS == in->at[k] / CHANNELS;
                    from->forward = least(from->forward + router_share[r] * from->rate / parts, 2);
                }
        }
        for (int i = 0; i < first.count; i++) {
            struct link *l = &link_[first.at[i]];
            const struct list *own = &senders[first.at[i]];
            for (int k = 0; k < own->count; k++) {
                struct flow *f = &flow_[own->at[k]];
                if (now % f->period < f->on) f->due = least(f->due + f->rate, 2 * f->message);
                if (f->due >= f->message && f->backlog < 4 * f->message) {
                    f->due -= f->message;
                    f->backlog += f->message;
                }
            }
            for (int k = 0, start = turn(now, i, own->count); k < own->count; k++) {
                int id = own->at[(start + k) % own->count];
                struct flow *f = &flow_[id];
                if (!f->backlog) continue;
                l->wanted = true;
                struct node *n = &node_[f->from];
                if (l->tokens < 1 || n->sending < 1) continue;
                if (l->buffers[f->channel[0]].count >= BUFFER) {
                    l->starved = true;
                    continue;
                }
                n->sending -= 1;
                if (deliver(l, (struct packet){.flow = id, .arrived = now}, f->channel[0], counted)) f->backlog--;
            }
        }
        if (counted)
            for (int i = 0; i < used.count; i++) {
                struct link *l = &link_[used.at[i]];
                l->input_stall += l->held;
                l->credit_stall += l->starved && !l->sent;
                l->wait += l->wanted && !l->sent && l->tokens >= 1;
            }
    }
    for (int i = 0; i < links; i++) {
        const struct link *l = &link_[i];
        printf("%ld %ld %ld %ld %ld", (long)l->packets, (long)l->input_stall, (long)l->credit_stall, (long)l->wait, (long)l->errors);
        for (int j = 0; j < JOBS; j++) printf(" %ld", (long)l->by_job[j]);
        putchar('\n');
    }
    for (int j = 0; j < JOBS; j++) printf("%ld ", (long)delivered[j]);
    printf("\n%d\n", WINDOW);
    return 0;
}
