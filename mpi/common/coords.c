#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "coords.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_DIMENSION = 4096, ROUTERS_MOST = 1 << 22, LARGEST_NID = 100000000, FILE_LARGEST = 1 << 28 };

char *hopbyte_coords_load(const char *path, char error[COORDS_ERROR])
{
    FILE *in = fopen(path, "re");
    char *text = NULL;
    size_t used = 0, room = 0;
    if (!in) {
        snprintf(error, COORDS_ERROR, "cannot open %.300s: %s", path, strerror(errno));
        return NULL;
    }
    while (!feof(in) && !ferror(in) && used < FILE_LARGEST) {
        if (used + 1 >= room) {
            char *more = realloc(text, room = room ? 2 * room : 1 << 16);
            if (!more)
                break;
            text = more;
        }
        used += fread(text + used, 1, room - used - 1, in);
    }
    bool whole = text && feof(in) && !ferror(in);
    fclose(in);
    if (!whole) {
        snprintf(error, COORDS_ERROR, "cannot read %.300s whole (at most 256 MiB)", path);
        free(text);
        return NULL;
    }
    text[used] = 0;
    return text;
}

struct parser {
    const char *path;
    int line, count;
    char *words[COORDS_WORDS], *error;
    struct hopbyte_coords *coords;
    int room, other_room;
};

static bool wrong(const struct parser *p, const char *found, const char *expected)
{
    snprintf(p->error, COORDS_ERROR, "%.200s:%d: found '%.60s', expected %.160s", p->path, p->line, found, expected);
    return false;
}

static bool number(const struct parser *p, int word, int least, int most, int *value)
{
    const char *text = word < p->count ? p->words[word] : "the end of the line";
    char *end, expected[80];
    errno = 0;
    long found = strtol(text, &end, 10);
    *value = (int)found;
    if (end != text && !*end && !errno && found >= least && found <= most)
        return true;
    snprintf(expected, sizeof expected, "a whole number in %d..%d", least, most);
    return wrong(p, text, expected);
}

/* Room for one more; NULL without memory. */
static void *grown(void *array, int count, int *room, size_t size)
{
    if (count < *room)
        return array;
    int more = *room ? 2 * *room : 256;
    void *fresh = realloc(array, (size_t)more * size);
    *room = fresh ? more : *room;
    return fresh;
}

static bool dims_take(struct parser *p)
{
    struct hopbyte_coords *c = p->coords;
    if (c->dimensions)
        return wrong(p, "dims", "dims only once");
    if (p->count < 2 || p->count > COORDS_DIMENSIONS + 1)
        return wrong(p, "dims", "one to six lengths");
    long long routers = 1;
    for (int d = 0; d + 1 < p->count; d++) {
        if (!number(p, d + 1, 1, LONGEST_DIMENSION, &c->length[d]))
            return false;
        c->closed[d] = true;
        routers *= c->length[d];
        if (routers > ROUTERS_MOST)
            return wrong(p, p->words[p->count - 1], "at most 4194304 routers");
    }
    c->dimensions = p->count - 1;
    return true;
}

static bool wrap_take(struct parser *p)
{
    struct hopbyte_coords *c = p->coords;
    if (p->count != c->dimensions + 1)
        return wrong(p, "wrap", "0 or 1 for every dimension");
    for (int d = 0; d < c->dimensions; d++) {
        int closed;
        if (!number(p, d + 1, 0, 1, &closed))
            return false;
        c->closed[d] = closed;
    }
    return true;
}

static bool node_take(struct parser *p)
{
    struct hopbyte_coords *c = p->coords;
    if (p->count < 2 || strlen(p->words[1]) >= COORDS_NAME)
        return wrong(p, p->words[p->count - 1], "a node name of at most 127 characters");
    struct hopbyte_coords_node *more = grown(c->nodes, c->count, &p->room, sizeof *more);
    if (!more)
        return wrong(p, "no memory", "memory for the nodes");
    c->nodes = more;
    struct hopbyte_coords_node *node = &c->nodes[c->count];
    memset(node, 0, sizeof *node);
    snprintf(node->host, sizeof node->host, "%s", p->words[1]);
    node->nid = c->count;
    for (int d = 0; d < c->dimensions; d++)
        if (!number(p, 2 + d, 0, c->length[d] - 1, &node->at[d]))
            return false;
    int behind = 2 + c->dimensions;
    if (p->count > behind && strlen(p->words[behind]) >= COORDS_NAME)
        return wrong(p, p->words[behind], "a name of at most 127 characters");
    if (p->count > behind)
        snprintf(node->name, sizeof node->name, "%s", p->words[behind]);
    node->numbered = p->count > behind + 1;
    if (node->numbered && !number(p, behind + 1, 0, LARGEST_NID, &node->nid))
        return false;
    if (p->count > behind + 2)
        return wrong(p, p->words[behind + 2], "the end of the line");
    c->count++;
    return true;
}

static bool other_take(struct parser *p)
{
    struct hopbyte_coords *c = p->coords;
    struct hopbyte_coords_line *more = grown(c->others, c->other_count, &p->other_room, sizeof *more);
    if (!more)
        return wrong(p, "no memory", "memory for the lines");
    c->others = more;
    struct hopbyte_coords_line *line = &c->others[c->other_count++];
    *line = (struct hopbyte_coords_line){.number = p->line, .count = p->count};
    memcpy(line->words, p->words, (size_t)p->count * sizeof *p->words);
    return true;
}

static bool line_take(struct parser *p)
{
    static const char *const others[] = {"kind", "router", "link"};
    const char *word = p->words[0];
    if (strcmp(word, "dims") == 0)
        return dims_take(p);
    if (!p->coords->dimensions)
        return wrong(p, word, "dims before everything else");
    if (strcmp(word, "wrap") == 0)
        return wrap_take(p);
    if (strcmp(word, "node") == 0)
        return node_take(p);
    if (strcmp(word, "kinds") == 0 && p->count == 2 && strcmp(p->words[1], "gemini") == 0)
        return other_take(p);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i]) == 0)
            return other_take(p);
    return wrong(p, word, "dims, wrap, kind, kinds gemini, router, link or node");
}

/* Cuts a line into words. */
static bool words_cut(struct parser *p, char *line)
{
    char *rest, *word = line + strspn(line, " \t");
    p->count = 0;
    if (*word == '#')
        return true;
    for (const unsigned char *c = (const unsigned char *)line; *c; c++)
        if ((*c < 0x20 && *c != '\t') || *c == 0x7f)
            return wrong(p, "a control character", "text");
    for (word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (p->count == COORDS_WORDS)
            return wrong(p, word, "the end of the line");
        p->words[p->count++] = word;
    }
    return true;
}

static int host_compare(const void *a, const void *b, void *nodes)
{
    const struct hopbyte_coords_node *list = nodes;
    return strcmp(list[*(const int *)a].host, list[*(const int *)b].host);
}

/* Orders the nodes by host, each of which may be there once. */
static bool hosts_order(struct hopbyte_coords *c, const char *path, char *error)
{
    c->by_host = calloc((size_t)c->count + 1, sizeof *c->by_host);
    if (!c->by_host) {
        snprintf(error, COORDS_ERROR, "%.200s: no memory for the nodes", path);
        return false;
    }
    for (int i = 0; i < c->count; i++)
        c->by_host[i] = i;
    qsort_r(c->by_host, (size_t)c->count, sizeof *c->by_host, host_compare, c->nodes);
    for (int i = 1; i < c->count; i++)
        if (host_compare(&c->by_host[i - 1], &c->by_host[i], c->nodes) == 0) {
            snprintf(error, COORDS_ERROR, "%.200s: node '%.100s' is listed twice", path, c->nodes[c->by_host[i]].host);
            return false;
        }
    return true;
}

bool hopbyte_coords_parse(char *text, const char *path, struct hopbyte_coords *coords, char error[COORDS_ERROR])
{
    struct parser p = {.path = path, .error = error, .coords = coords};
    bool fine = true;
    memset(coords, 0, sizeof *coords);
    for (char *line = text, *next; fine && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r')
            line[length - 1] = 0;
        p.line++;
        fine = words_cut(&p, line) && (!p.count || line_take(&p));
    }
    if (fine && !coords->count) {
        snprintf(error, COORDS_ERROR, "%.200s: no nodes; expected lines `node HOST X Y Z [NAME [NID]]`", path);
        fine = false;
    }
    if (fine && hosts_order(coords, path, error))
        return true;
    hopbyte_coords_free(coords);
    return false;
}

void hopbyte_coords_free(struct hopbyte_coords *coords)
{
    free(coords->nodes);
    free(coords->by_host);
    free(coords->others);
    memset(coords, 0, sizeof *coords);
}

bool hopbyte_host_same(const char *a, const char *b)
{
    size_t stem = strcspn(a, ".");
    if (strcspn(b, ".") != stem || strncasecmp(a, b, stem) != 0)
        return false;
    return !a[stem] || !b[stem] || strcasecmp(a, b) == 0;
}

/* A node of exactly this host; -1 without one. */
static int exact(const struct hopbyte_coords *coords, const char *host)
{
    int from = 0, to = coords->count;
    while (from < to) {
        int middle = from + (to - from) / 2, order = strcmp(coords->nodes[coords->by_host[middle]].host, host);
        if (order == 0)
            return coords->by_host[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return -1;
}

int hopbyte_coords_find(const struct hopbyte_coords *coords, int rank, const char *host)
{
    char word[32];
    snprintf(word, sizeof word, "rank:%d", rank);
    int found = exact(coords, word);
    if (found < 0)
        found = exact(coords, host);
    for (int i = 0; found < 0 && i < coords->count; i++)
        if (hopbyte_host_same(coords->nodes[i].host, host))
            found = i;
    return found;
}

int hopbyte_coords_find_nid(const struct hopbyte_coords *coords, int nid)
{
    if (nid >= 0 && nid < coords->count && coords->nodes[nid].nid == nid)
        return nid;
    for (int i = 0; i < coords->count; i++)
        if (coords->nodes[i].nid == nid)
            return i;
    return -1;
}
