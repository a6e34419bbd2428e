/* hopbyte-mads [--device NAME] [--switches] [--interval SECONDS] [--ticks N] [--window N] [--discover SECONDS] [--asked] [--old-header]: counters of
 * all ports of an InfiniBand fabric, once an interval, by management datagrams of its own through the user MAD device
 * (linux/Documentation/infiniband/user_mad.rst). It writes what `ibqueryerrors --data --counters` and its list of errors
 * write, a reading after the other, each ended by its summary.
 *
 * The fabric is found by directed routes (InfiniBand specification, volume 1, chapter 14), counters are read from the
 * performance management class (chapter 16): PortCountersExtended, and PortCounters for waits and errors unless the
 * extended ones have them. Ports are asked in turn over all devices, so that no device gets many requests at once. State,
 * width and speed of every port (PortInfo) are read again in turn, over ten readings, and the fabric is found again when a
 * port goes down or comes up.
 * With --asked there is a reading for each line of the standard input, and none by itself.
 *
 * Nothing is ever written to a device: counters are not reset. --old-header is for devices that take no index of a partition
 * key, as ibsim's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x1b
#define REGISTER_AGENT _IOWR(MAGIC, 1, struct ib_user_mad_reg_req)
#define ENABLE_PKEY _IO(MAGIC, 3)

enum { DONE = 0, BAD_INPUT = 2, LACKING = 3 };
enum { MAD = 256, DATA = 64, HOPS = 64, MOST_NODES = 1 << 17, PORTS = 255, TRIES = 3 };
enum { ROUTED = 0x81, PERFORMANCE = 0x04, GET = 1 };
enum { NODE_DESCRIPTION = 0x10, NODE_INFO = 0x11, PORT_INFO = 0x15, CLASS_INFO = 0x01, COUNTERS = 0x12, EXTENDED = 0x1d };
enum { CA = 1, SWITCH = 2 };
/* Until an unanswered request is sent again. */
static const double PATIENCE = 0.2;
/* Readings over which the states of all ports are read, and seconds between two searches for devices when ports change. */
enum { TURNS = 10 };
static const double SOON = 5;

/* Values of a port in the order in which they are printed. */
enum value { XMIT_DATA, RCV_DATA, XMIT_PKTS, RCV_PKTS, WAIT, SYMBOL, RCV_ERRORS, DISCARDS, REMOTE, RELAY, XMIT_CONSTRAINT, RCV_CONSTRAINT, DOWNED, VALUES };
static const char *const NAMES[VALUES] = {
    "PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortXmitWait", "SymbolErrorCounter", "PortRcvErrors",
    "PortXmitDiscards", "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitConstraintErrors",
    "PortRcvConstraintErrors", "LinkDownedCounter",
};
/* Offset and bytes in PortCounters, and offset in PortCountersExtended (8 bytes each). */
static const struct { uint8_t at, bytes, extended; } PLACES[VALUES] = {
    {24, 4, 8},  {28, 4, 16}, {32, 4, 24},   {36, 4, 32},  {40, 4, 168}, {4, 2, 72},
    {8, 2, 96},  {14, 2, 120}, {10, 2, 104}, {12, 2, 112}, {16, 1, 128}, {17, 1, 136},
    {7, 1, 88},
};

struct port {
    bool active, read[2]; /* extended and other counters */
    bool known;           /* was active at some time */
    uint8_t state, width, speed, extended_speed;
    uint64_t values[VALUES];
};

struct node {
    uint64_t guid;
    uint16_t lid;
    uint8_t type, ports, hops;
    bool extended, additional;
    uint8_t path[HOPS];
    char name[65];
    struct port *port; /* ports + 1 of them */
};

/* A request on its way, or a free place. */
struct request {
    bool busy;
    uint8_t kind, tries, hops, path[HOPS];
    uint16_t attribute;
    uint32_t modifier, serial;
    int node;
    double due;
};

/* Requests still to be sent: a queue for discovery. */
struct step {
    uint8_t hops, path[HOPS];
    uint16_t attribute;
    uint32_t modifier;
    int node;
};

struct state {
    int device;
    size_t header; /* bytes before a datagram: 64, or 56 without the index of a partition key */
    uint32_t agent[2]; /* of subnet management and of performance management */
    int window, busy;
    struct request *requests;
    struct node *nodes;
    int count, room;
    struct step *steps;
    size_t first, steps_count, steps_room;
    uint32_t serial;
    uint64_t sent, unanswered;
    bool switches, asked, discovering, changed;
    unsigned polls;
    int *slots; /* nodes by GUID, open addressing */
    size_t slots_room;
};

_Noreturn __attribute__((format(printf, 2, 3))) static void refuse(int code, const char *format, ...) {
    va_list words;
    va_start(words, format);
    fputs("hopbyte-mads: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    exit(code);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(void *old, size_t bytes) {
    void *new = realloc(old, bytes);
    if (!new) refuse(LACKING, "no memory for %zu bytes", bytes);
    return new;
}

static void put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = bytes; i-- > 0; value >>= 8) at[i] = (uint8_t)value;
}

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

static uint32_t agent_of(struct state *s, uint8_t class, int queue) {
    struct ib_user_mad_reg_req wanted = {.qpn = (uint8_t)queue, .mgmt_class = class, .mgmt_class_version = 1};
    if (ioctl(s->device, REGISTER_AGENT, &wanted) < 0)
        refuse(LACKING, "management class %d: found %s, expected an agent of the user MAD device", class, strerror(errno));
    return wanted.id;
}

static void transmit(struct state *s, int place) {
    struct request *r = &s->requests[place];
    union {
        struct ib_user_mad head;
        uint8_t bytes[sizeof(struct ib_user_mad) + MAD];
    } packet;
    memset(&packet, 0, sizeof packet);
    struct ib_user_mad_hdr *h = &packet.head.hdr;
    uint8_t *mad = packet.bytes + s->header;
    bool routed = r->kind == ROUTED;
    h->id = s->agent[!routed];
    h->timeout_ms = (uint32_t)(1e3 * PATIENCE);
    put((uint8_t *)&h->qpn, !routed, 4);
    put((uint8_t *)&h->lid, routed ? 0xffff : s->nodes[r->node].lid, 2);
    if (!routed) put((uint8_t *)&h->qkey, 0x80010000, 4);
    h->length = (uint32_t)(s->header + MAD);
    mad[0] = mad[2] = 1;
    mad[1] = r->kind;
    mad[3] = GET;
    /* The upper half belongs to the device. */
    put(mad + 12, (uint32_t)place << 20 | (r->serial & 0xfffff), 4);
    put(mad + 16, r->attribute, 2);
    if (routed) {
        put(mad + 20, r->modifier, 4);
        mad[7] = r->hops;
        put(mad + 32, 0xffffffff, 4);
        memcpy(mad + 128, r->path, HOPS);
    } else if (r->attribute != CLASS_INFO) {
        mad[DATA + 1] = (uint8_t)r->modifier;
        put(mad + DATA + 2, 0xffff, 2);
    }
    r->due = now() + PATIENCE;
    s->sent++;
    ssize_t written = write(s->device, packet.bytes, s->header + MAD);
    /* A full queue is as good as a lost packet. */
    if (written < 0 && errno != EAGAIN && errno != ENOMEM && errno != EINVAL)
        refuse(LACKING, "found %s, expected a device that sends", strerror(errno));
}

static void ask(struct state *s, uint8_t kind, const struct step *step) {
    int place = 0;
    while (s->requests[place].busy) place++;
    struct request *r = &s->requests[place];
    r->busy = true;
    r->kind = kind;
    r->tries = 1;
    r->attribute = step->attribute;
    r->modifier = step->modifier;
    r->node = step->node;
    r->hops = step->hops;
    if (kind == ROUTED) memcpy(r->path, step->path, HOPS);
    r->serial = ++s->serial;
    s->busy++;
    transmit(s, place);
}

static void later(struct state *s, struct step step) {
    if (s->first + s->steps_count >= s->steps_room) {
        memmove(s->steps, s->steps + s->first, s->steps_count * sizeof *s->steps);
        s->first = 0;
        if (2 * s->steps_count >= s->steps_room) {
            s->steps_room = 2 * s->steps_room + 64;
            s->steps = room(s->steps, s->steps_room * sizeof *s->steps);
        }
    }
    s->steps[s->first + s->steps_count++] = step;
}

static int *slot_of(struct state *s, uint64_t guid) {
    size_t at = (guid * 0x9e3779b97f4a7c15u >> 20) % s->slots_room;
    while (s->slots[at] >= 0 && s->nodes[s->slots[at]].guid != guid) at = (at + 1) % s->slots_room;
    return &s->slots[at];
}

/* Follows a port of a node to the far end. */
static void follow(struct state *s, const struct node *n, uint8_t port) {
    if (n->hops + 1 >= HOPS) return;
    struct step step = {.hops = (uint8_t)(n->hops + 1), .attribute = NODE_INFO, .node = -1};
    memcpy(step.path, n->path, HOPS);
    step.path[step.hops] = port;
    later(s, step);
}

static void more(struct state *s, int node, uint16_t attribute, uint32_t modifier) {
    struct step step = {.hops = s->nodes[node].hops, .attribute = attribute, .modifier = modifier, .node = node};
    memcpy(step.path, s->nodes[node].path, HOPS);
    later(s, step);
}

static void node_found(struct state *s, const struct request *r, const uint8_t *data) {
    uint64_t guid = get(data + 12, 8);
    int *slot = slot_of(s, guid);
    if (*slot >= 0 && !(s->nodes[*slot].type == CA)) return;
    uint8_t local = data[36];
    if (*slot >= 0) {
        more(s, *slot, PORT_INFO, local);
        return;
    }
    if (s->count == MOST_NODES) refuse(LACKING, "found more than %d devices", MOST_NODES);
    if (s->count == s->room) {
        s->room = 2 * s->room + 64;
        s->nodes = room(s->nodes, (size_t)s->room * sizeof *s->nodes);
    }
    struct node *n = &s->nodes[s->count];
    memset(n, 0, sizeof *n);
    n->guid = guid;
    n->type = data[2];
    n->ports = data[3] > PORTS - 1 ? PORTS - 1 : data[3];
    n->hops = r->hops;
    memcpy(n->path, r->path, HOPS);
    snprintf(n->name, sizeof n->name, "0x%016llx", (unsigned long long)guid);
    n->port = room(NULL, ((size_t)n->ports + 1) * sizeof *n->port);
    memset(n->port, 0, ((size_t)n->ports + 1) * sizeof *n->port);
    int index = s->count++;
    *slot = index;
    bool wanted = n->type == SWITCH || !s->switches;
    if (wanted) more(s, index, NODE_DESCRIPTION, 0);
    if (n->type == SWITCH) {
        for (int p = 0; p <= n->ports; p++) more(s, index, PORT_INFO, (uint32_t)p);
    } else if (wanted) {
        more(s, index, PORT_INFO, local);
    }
    /* The program's own adapter: the fabric begins behind its port. */
    if (r->hops == 0 && n->type != SWITCH) follow(s, n, local);
}

static void port_found(struct state *s, struct node *n, uint32_t port, const uint8_t *data) {
    if (port > n->ports) return;
    bool active = (data[32] & 15) == 4;
    bool linked = (data[33] >> 4) == 5;
    if (n->type == SWITCH && port == 0) n->lid = (uint16_t)get(data + 16, 2);
    if (n->type != SWITCH) n->lid = (uint16_t)get(data + 16, 2);
    struct port *own = &n->port[port];
    active = active && port > 0;
    s->changed |= own->active != active;
    own->active = active;
    own->known |= active;
    own->state = data[32] & 15;
    own->width = data[31];
    own->speed = data[35] >> 4;
    own->extended_speed = data[62] >> 4;
    if (s->discovering && n->type == SWITCH && port > 0 && linked) follow(s, n, (uint8_t)port);
}

static void counted(struct node *n, uint16_t attribute, uint32_t number, const uint8_t *data) {
    if (number > n->ports) return;
    struct port *p = &n->port[number];
    bool extended = attribute == EXTENDED;
    p->read[!extended] = true;
    if (extended && n->additional) p->read[1] = true;
    for (int v = 0; v < VALUES; v++) {
        bool own = v <= RCV_PKTS ? extended == n->extended : (extended ? n->additional : !n->additional);
        if (own) p->values[v] = extended ? get(data + PLACES[v].extended, 8) : get(data + PLACES[v].at, PLACES[v].bytes);
    }
}

/* An answer, or the kernel's word that there is none. */
static void answered(struct state *s, struct request *r, const uint8_t *mad, bool whole) {
    r->busy = false;
    s->busy--;
    const uint8_t *data = mad + DATA;
    if (!whole) {
        s->unanswered++;
        /* The way to a device may lead over a port that went down. */
        s->changed |= r->kind == ROUTED && !s->discovering;
        return;
    }
    struct node *n = r->node >= 0 ? &s->nodes[r->node] : NULL;
    switch (r->attribute) {
    case NODE_INFO: node_found(s, r, data); break;
    case NODE_DESCRIPTION:
        memcpy(n->name, data, 64);
        n->name[64] = '\0';
        for (char *c = n->name; *c; c++)
            if ((unsigned char)*c < ' ' || *c == '"') *c = '_';
        break;
    case PORT_INFO: port_found(s, n, r->modifier, data); break;
    case CLASS_INFO:
        /* IsExtendedWidthSupported and its variant without 64-bit multicast; IsAdditionalPortCountersExtendedSupported. */
        n->extended = (get(data + 2, 2) & (0x200 | 0x400)) != 0;
        n->additional = n->extended && (get(data + 4, 4) >> 5 & 2) != 0;
        break;
    default: counted(n, r->attribute, r->modifier, data); break;
    }
}

/* Receives what has arrived; waits for the first as long as the oldest request may. */
static void receive(struct state *s) {
    uint8_t packet[sizeof(struct ib_user_mad) + MAD + 64];
    struct pollfd wait = {.fd = s->device, .events = POLLIN};
    int ready = poll(&wait, 1, 20);
    if (ready < 0 && errno != EINTR) refuse(LACKING, "found %s, expected answers of the device", strerror(errno));
    while (ready > 0 && s->busy > 0) {
        ssize_t got = read(s->device, packet, sizeof packet);
        if (got < (ssize_t)(s->header + DATA)) break;
        const uint8_t *mad = packet + s->header;
        struct ib_user_mad_hdr head;
        memcpy(&head, packet, sizeof head);
        uint32_t id = (uint32_t)get(mad + 12, 4);
        struct request *r = (int)(id >> 20) < s->window ? &s->requests[id >> 20] : NULL;
        if (r && r->busy && (r->serial & 0xfffff) == (id & 0xfffff)) {
            bool lost = head.status != 0;
            if (lost && r->tries < TRIES) {
                r->tries++;
                transmit(s, (int)(id >> 20));
            } else {
                answered(s, r, mad, !lost && (get(mad + 4, 2) & 0x7fff) == 0);
            }
        }
        if (s->busy * 2 < s->window) break; /* send the next ones first */
        ready = poll(&wait, 1, 0);
    }
    double time = now();
    for (int i = 0; i < s->window && ready <= 0; i++) {
        struct request *r = &s->requests[i];
        if (!r->busy || r->due + PATIENCE > time) continue;
        if (r->tries < TRIES) {
            r->tries++;
            transmit(s, i);
        } else {
            answered(s, r, packet, false);
        }
    }
}

/* Finds all devices and their ports. */
static void discover(struct state *s) {
    struct node *before = s->nodes;
    int many = s->count;
    s->nodes = NULL;
    s->count = s->room = 0;
    s->discovering = true;
    s->slots_room = 2 * MOST_NODES;
    s->slots = room(s->slots, s->slots_room * sizeof *s->slots);
    memset(s->slots, 0xff, s->slots_room * sizeof *s->slots);
    later(s, (struct step){.attribute = NODE_INFO, .node = -1});
    while (s->steps_count > 0 || s->busy > 0) {
        while (s->steps_count > 0 && s->busy < s->window) {
            struct step step = s->steps[s->first++];
            s->steps_count--;
            ask(s, ROUTED, &step);
        }
        receive(s);
    }
    s->discovering = s->changed = false;
    /* A port that went down stays in the readings. */
    for (int i = 0; i < many; i++) {
        int at = *slot_of(s, before[i].guid);
        for (int p = 0; at >= 0 && p <= before[i].ports && p <= s->nodes[at].ports; p++)
            s->nodes[at].port[p].known |= before[i].port[p].known;
        free(before[i].port);
    }
    free(before);
    for (int i = 0; i < s->count; i++) {
        while (s->busy >= s->window) receive(s);
        struct step step = {.attribute = CLASS_INFO, .node = i};
        if (s->nodes[i].lid && (s->nodes[i].type == SWITCH || !s->switches)) ask(s, PERFORMANCE, &step);
    }
    while (s->busy > 0) receive(s);
}

/* Asks a tenth of the ports for their states, another one each time. */
static void ask_states(struct state *s) {
    for (int i = 0; i < s->count; i++) {
        const struct node *n = &s->nodes[i];
        for (int p = 1; p <= n->ports; p++) {
            if (!n->port[p].known || ((unsigned)(i + p) + s->polls) % TURNS) continue;
            struct step step = {.hops = n->hops, .attribute = PORT_INFO, .modifier = (uint32_t)p, .node = i};
            memcpy(step.path, n->path, HOPS);
            while (s->busy >= s->window) receive(s);
            ask(s, ROUTED, &step);
        }
    }
    s->polls++;
}

static void poll_all(struct state *s) {
    int most = 0;
    for (int i = 0; i < s->count; i++) {
        struct node *n = &s->nodes[i];
        if (n->ports > most) most = n->ports;
        for (int p = 1; p <= n->ports; p++) n->port[p].read[0] = n->port[p].read[1] = false;
    }
    for (int p = 1; p <= most; p++)
        for (int second = 0; second < 2; second++)
            for (int i = 0; i < s->count; i++) {
                const struct node *n = &s->nodes[i];
                if (p > n->ports || !n->lid || !n->port[p].known) continue;
                if (!n->extended && !second) continue;
                if (n->additional && second) continue;
                struct step step = {.attribute = second ? COUNTERS : EXTENDED, .modifier = (uint32_t)p, .node = i};
                while (s->busy >= s->window) receive(s);
                ask(s, PERFORMANCE, &step);
            }
    while (s->busy > 0) receive(s);
}

/* A number without the cost of printf, which would be most of the work. */
static char *number(char *at, uint64_t value) {
    char digits[20];
    int count = 0;
    do digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count) *at++ = digits[--count];
    return at;
}

static char *text(char *at, const char *words) {
    size_t length = strlen(words);
    memcpy(at, words, length);
    return at + length;
}

static void print(const struct state *s) {
    static char line[2048];
    int nodes = 0, ports = 0;
    for (int i = 0; i < s->count; i++) {
        const struct node *n = &s->nodes[i];
        bool headed = false;
        for (int p = 1; p <= n->ports; p++) {
            const struct port *port = &n->port[p];
            if (!port->read[0] && !port->read[1]) continue;
            if (!headed) printf("Data Counters for 0x%llx \"%s\"\n", (unsigned long long)n->guid, n->name);
            headed = true;
            char *at = line + sprintf(line, "   GUID 0x%llx port %d:", (unsigned long long)n->guid, p);
            for (int v = 0; v < VALUES; v++) {
                bool known = v <= RCV_PKTS ? port->read[!n->extended] : port->read[1];
                if (!known) continue;
                at = text(text(text(at, " ["), NAMES[v]), " == ");
                at = text(number(at, port->values[v]), "]");
            }
            const struct { const char *name; uint8_t value; } states[] = {
                {" [PortState == ", port->state}, {" [LinkWidthActive == ", port->width},
                {" [LinkSpeedActive == ", port->speed}, {" [LinkSpeedExtActive == ", port->extended_speed},
            };
            for (size_t v = 0; v < sizeof states / sizeof *states; v++)
                at = text(number(text(at, states[v].name), states[v].value), "]");
            /* Its presence tells readers that the data have 64 bits. */
            if (n->extended && port->read[0]) at = text(at, " [PortUnicastXmitPkts == 0]");
            *at++ = '\n';
            fwrite_unlocked(line, 1, (size_t)(at - line), stdout);
            ports++;
        }
        nodes += headed;
    }
    printf("\n## Summary: %d nodes checked, 0 bad nodes found\n##          %d ports checked, %llu requests unanswered\n", nodes,
           ports, (unsigned long long)s->unanswered);
    if (fflush(stdout) != 0) exit(DONE); /* the reader has gone */
}

static double positive(const char *option, const char *word) {
    char *end = NULL;
    double value = word ? strtod(word, &end) : 0;
    if (!word || *end || !(value > 0)) refuse(BAD_INPUT, "%s: found %s, expected a number above 0", option, word ? word : "nothing");
    return value;
}

int main(int argc, char **argv) {
    struct state s = {.window = 64};
    const char *device = "umad0";
    double interval = 1, again = 60;
    long ticks = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(word, "--switches")) {
            s.switches = true;
            continue;
        }
        if (!strcmp(word, "--asked")) {
            s.asked = true;
            continue;
        }
        if (!strcmp(word, "--old-header")) {
            s.header = sizeof(struct ib_user_mad_hdr_old);
            continue;
        }
        if (!strcmp(word, "--device") && next) device = next;
        else if (!strcmp(word, "--interval")) interval = positive(word, next);
        else if (!strcmp(word, "--ticks")) ticks = (long)positive(word, next);
        else if (!strcmp(word, "--window")) s.window = (int)positive(word, next);
        else if (!strcmp(word, "--discover")) again = positive(word, next);
        else refuse(BAD_INPUT, "found %s, expected --device NAME, --switches, --interval, --ticks, --window, --discover, --asked or --old-header", word);
        i++;
    }
    if (s.window < 1 || s.window > 256) refuse(BAD_INPUT, "--window: found %d, expected 1 to 256", s.window);
    char path[256];
    snprintf(path, sizeof path, "/dev/infiniband/%s", device);
    s.device = open(path, O_RDWR | O_NONBLOCK);
    if (s.device < 0) refuse(LACKING, "%s: found %s, expected a user MAD device (root, ib_umad loaded)", path, strerror(errno));
    if (!s.header) {
        s.header = sizeof(struct ib_user_mad_hdr);
        if (ioctl(s.device, ENABLE_PKEY, NULL) < 0) refuse(LACKING, "%s: found %s, expected indices of partition keys", path, strerror(errno));
    }
    s.agent[0] = agent_of(&s, ROUTED, 0);
    s.agent[1] = agent_of(&s, PERFORMANCE, 1);
    s.requests = room(NULL, (size_t)s.window * sizeof *s.requests);
    memset(s.requests, 0, (size_t)s.window * sizeof *s.requests);
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    double found = -1e9, next = now();
    for (long tick = 0; ticks == 0 || tick < ticks; tick++) {
        if (now() - found >= (s.changed ? SOON : again)) {
            discover(&s);
            found = now();
            if (s.count < 2) refuse(LACKING, "found no other device behind %s, expected a fabric whose port is up", device);
            if (next < found) next = found;
        }
        char line[16];
        if (s.asked && !fgets(line, sizeof line, stdin)) return DONE;
        s.unanswered = 0;
        ask_states(&s);
        poll_all(&s);
        print(&s);
        if (s.asked) continue;
        next += interval;
        double left = next - now();
        if (left < 0) next = now();
        else if (ticks == 0 || tick + 1 < ticks) {
            struct timespec pause = {.tv_sec = (time_t)left, .tv_nsec = (long)(1e9 * (left - (double)(time_t)left))};
            nanosleep(&pause, NULL);
        }
    }
    return DONE;
}
