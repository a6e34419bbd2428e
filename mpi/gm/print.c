/* Gathers differences to rank 0 and prints them. Leaders send on request, a few domains at a time, so rank 0 holds
 * one message and not the whole machine (paper 000 held it all: 6 MB at 10,000 routers). */
#include "gm.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_ASK = 7301, TAG_DATA, CHUNK = 32, AHEAD = 16 };

struct wire_domain {
    char title[GM_NAME_BYTES], id[GM_NAME_BYTES];
    int link_count, pad;
};

struct wire_link {
    struct gm_link link;
    uint64_t values[GM_COLUMNS];
    uint8_t why[8];
};

struct printer {
    const struct hopbyte_gm *gm;
    const char *region;
    FILE *text, *json;
    bool failed;
};

static FILE *output_open(const char *variable, bool *failed)
{
    static bool begun[2];
    const char *path = getenv(variable);
    bool json = strstr(variable, "JSON") != NULL;
    if (!path || !*path)
        return json ? NULL : stdout;
    FILE *out = fopen(path, begun[json] ? "a" : "w");
    begun[json] = true;
    if (!out) {
        hopbyte_say("cannot write %s=%s: %s", variable, path, strerror(errno));
        *failed = true;
    }
    return out;
}

static void output_close(FILE *out, const char *what, bool *failed)
{
    if (!out)
        return;
    bool bad = ferror(out) != 0;
    bad |= (out == stdout ? fflush(out) : fclose(out)) != 0;
    if (bad) {
        hopbyte_say("cannot write all of the %s output", what);
        *failed = true;
    }
}

static const char *const why_words[] = {
    [GM_FINE] = "fine", [GM_WRAP] = "wrap", [GM_RESET] = "reset", [GM_UNREAD] = "unread"};

static void titles_print(const struct printer *p)
{
    const struct gm_source_facts *facts = &gm_source_facts[p->gm->source];
    if (p->region)
        fprintf(p->text, "# region %s\n", p->region);
    if (p->gm->source == GM_GPCD && !p->gm->titles)
        return; /* as the original prints it */
    fprintf(p->text, p->gm->source == GM_GPCD ? "# DEST_COORD\n#  SRC_COORD      GB/s" : "# DOMAIN\n# LINK REMOTE GB/s");
    for (int i = 0; i < GM_COLUMNS; i++)
        fprintf(p->text, " %12s", facts->titles[i]);
    fputc('\n', p->text);
}

static void link_print(FILE *out, const struct wire_link *w)
{
    fprintf(out, "%-2s %-13s ", w->link.direction, w->link.remote);
    if (w->link.gb_per_s > 0)
        fprintf(out, "%5.2f", w->link.gb_per_s);
    else
        fprintf(out, "%5s", "-");
    for (int i = 0; i < GM_COLUMNS; i++)
        if (w->why[i] == GM_FINE)
            fprintf(out, " %12" PRIu64, w->values[i]);
        else
            fprintf(out, " %12s", "-");
    fputc('\n', out);
}

static void json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fputc(' ', out);
        else
            fputc(*text, out);
    fputc('"', out);
}

static void json_field(FILE *out, const char *name, const char *value)
{
    fprintf(out, ", \"%s\": ", name);
    json_string(out, value);
}

/* One object per line: a missing value is null, and `spoiled` gives the reason. */
static void link_print_json(const struct printer *p, const struct wire_domain *d, const struct wire_link *w)
{
    const struct gm_source_facts *facts = &gm_source_facts[p->gm->source];
    fprintf(p->json, "{\"schema\": \"hopbyte-gm 1\"");
    json_field(p->json, "source", facts->name);
    if (p->region)
        json_field(p->json, "region", p->region);
    json_field(p->json, "domain", d->id);
    json_field(p->json, "title", d->title);
    json_field(p->json, "link", w->link.direction);
    json_field(p->json, "remote", w->link.remote);
    if (w->link.gb_per_s > 0)
        fprintf(p->json, ", \"capacity_bytes_per_s\": %.0f", w->link.gb_per_s * 1e9);
    for (int i = 0; i < GM_COLUMNS; i++) {
        fprintf(p->json, ", \"");
        for (const char *c = facts->titles[i]; *c; c++)
            fputc(tolower((unsigned char)*c), p->json);
        if (w->why[i] == GM_FINE)
            fprintf(p->json, "\": %" PRIu64, w->values[i]);
        else
            fprintf(p->json, "\": null");
    }
    fprintf(p->json, ", \"spoiled\": {");
    for (int i = 0, n = 0; i < GM_COLUMNS; i++)
        if (w->why[i] != GM_FINE)
            fprintf(p->json, "%s\"%d\": \"%s\"", n++ ? ", " : "", i, why_words[w->why[i]]);
    fprintf(p->json, "}}\n");
}

static const char *domain_print(struct printer *p, const char *at)
{
    struct wire_domain d;
    memcpy(&d, at, sizeof d);
    at += sizeof d;
    if (p->text)
        fprintf(p->text, "%s\n", d.title);
    for (int i = 0; i < d.link_count; i++, at += sizeof(struct wire_link)) {
        struct wire_link w;
        memcpy(&w, at, sizeof w);
        if (p->text)
            link_print(p->text, &w);
        if (p->json)
            link_print_json(p, &d, &w);
    }
    return at;
}

static size_t domain_bytes(const struct gm_domain *d)
{
    return sizeof(struct wire_domain) + (size_t)d->link_count * sizeof(struct wire_link);
}

static char *domain_pack(const struct hopbyte_gm *gm, int number, gm_difference difference, const void *context,
                         char *at)
{
    const struct gm_domain *d = &gm->domains[number];
    struct gm_delta deltas[d->link_count * GM_COLUMNS + 1];
    struct wire_domain head = {.link_count = d->link_count};
    memcpy(head.title, d->title, sizeof head.title);
    memcpy(head.id, d->id, sizeof head.id);
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    difference(gm, number, context, deltas);
    for (int i = 0; i < d->link_count; i++, at += sizeof(struct wire_link)) {
        struct wire_link w = {.link = d->links[i]};
        for (int c = 0; c < GM_COLUMNS; c++) {
            w.values[c] = deltas[i * GM_COLUMNS + c].value;
            w.why[c] = deltas[i * GM_COLUMNS + c].why;
        }
        memcpy(at, &w, sizeof w);
    }
    return at;
}

/* Packs the next domains of this process; NULL without memory. */
static char *chunk_pack(const struct hopbyte_gm *gm, int from, int to, gm_difference difference, const void *context,
                        size_t *bytes)
{
    *bytes = 0;
    for (int i = from; i < to; i++)
        *bytes += domain_bytes(&gm->domains[i]);
    char *chunk = gm_alloc(*bytes + 1, 1), *at = chunk;
    for (int i = from; chunk && i < to; i++)
        at = domain_pack(gm, i, difference, context, at);
    return chunk;
}

static int chunk_end(const struct hopbyte_gm *gm, int from)
{
    return from + CHUNK < gm->domain_count ? from + CHUNK : gm->domain_count;
}

/* A leader: one message per request, an empty one after its last domain. */
static void leader_serve(const struct hopbyte_gm *gm, gm_difference difference, const void *context)
{
    for (int from = 0, last = 0; !last;) {
        size_t bytes;
        int ask, to = chunk_end(gm, from);
        NEXT(Recv)(&ask, 1, MPI_INT, 0, TAG_ASK, gm->leaders, MPI_STATUS_IGNORE);
        char *chunk = chunk_pack(gm, from, to, difference, context, &bytes);
        last = !chunk || from == to;
        NEXT(Send)(chunk, chunk ? (int)bytes : 0, MPI_BYTE, 0, TAG_DATA, gm->leaders);
        gm_free(chunk);
        from = to;
    }
}

static void own_print(struct printer *p, gm_difference difference, const void *context)
{
    for (int from = 0, to; from < p->gm->domain_count; from = to) {
        size_t bytes;
        to = chunk_end(p->gm, from);
        char *chunk = chunk_pack(p->gm, from, to, difference, context, &bytes);
        for (const char *at = chunk; chunk && at < chunk + bytes;)
            at = domain_print(p, at);
        p->failed |= !chunk;
        gm_free(chunk);
    }
}

/* Prints all of one leader's domains; false at its last message. */
static bool message_print(struct printer *p, int leader)
{
    MPI_Status status;
    int bytes;
    NEXT(Probe)(leader, TAG_DATA, p->gm->leaders, &status);
    NEXT(Get_count)(&status, MPI_BYTE, &bytes);
    char *chunk = gm_alloc((size_t)bytes + 1, 1);
    if (!chunk)
        NEXT(Abort)(MPI_COMM_WORLD, 3); /* the leaders wait for a reply that cannot be sent */
    NEXT(Recv)(chunk, bytes, MPI_BYTE, leader, TAG_DATA, p->gm->leaders, MPI_STATUS_IGNORE);
    for (const char *at = chunk; at < chunk + bytes;)
        at = domain_print(p, at);
    gm_free(chunk);
    return bytes > 0;
}

static void ask(const struct printer *p, int leader)
{
    int word = 0;
    NEXT(Send)(&word, 1, MPI_INT, leader, TAG_ASK, p->gm->leaders);
}

/* In rank order, with the first messages of the next few leaders requested ahead. */
static void leaders_print(struct printer *p)
{
    int size;
    NEXT(Comm_size)(p->gm->leaders, &size);
    for (int i = 1; i < size && i < 1 + AHEAD; i++)
        ask(p, i);
    for (int leader = 1; leader < size; leader++) {
        while (message_print(p, leader))
            ask(p, leader);
        if (leader + AHEAD < size)
            ask(p, leader + AHEAD);
    }
}

int gm_print(struct hopbyte_gm *gm, const char *region, gm_difference difference, const void *context)
{
    int rank;
    if (gm->leaders == MPI_COMM_NULL)
        return 0;
    NEXT(Comm_rank)(gm->leaders, &rank);
    if (rank != 0) {
        leader_serve(gm, difference, context);
        return 0;
    }
    struct printer p = {.gm = gm, .region = region};
    p.text = output_open("HOPBYTE_GM_OUTPUT", &p.failed);
    p.json = output_open("HOPBYTE_GM_JSON", &p.failed);
    if (p.text)
        titles_print(&p);
    own_print(&p, difference, context);
    leaders_print(&p);
    output_close(p.text, "text", &p.failed);
    output_close(p.json, "JSON", &p.failed);
    return p.failed ? -1 : 0;
}
