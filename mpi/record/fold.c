/* Folding: a sequence a b a b a b c is kept as loop(3){a b} c, and loops may contain loops. A loop inside a loop keeps
 * the number of its iterations for each execution, so the sequence of events stays exact; times and bytes are summed
 * over the executions of each place.
 *
 * Pieces of the list are compared by polynomial hashes of the list's beginnings (Karp and Rabin). A loop's hash is
 * that of its body and does not contain its count, so that executions of different lengths are equal. */
#include "fold.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 1 << 15, CANDIDATES = 64, LOOPS = 8, FIRST = 1024 };
#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

struct counts {
    uint64_t value, times;
};
struct hopbyte_fold_loop {
    struct hopbyte_fold_node *body;
    int64_t length;
    uint64_t body_hash;
    struct counts *counts; /* iterations of each execution, equal neighbours together */
    int64_t counts_used, counts_room;
};

static uint64_t powers[BODY_MAX + 1];

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ value >> 29;
}

static bool room_make(struct hopbyte_fold *f)
{
    if (f->count + 1 < f->room)
        return true;
    int64_t room = f->room ? f->room * 2 : FIRST;
    void *list = realloc(f->list, (size_t)room * sizeof *f->list);
    if (list)
        f->list = list;
    void *prefix = realloc(f->prefix, (size_t)(room + 1) * sizeof *f->prefix);
    if (prefix)
        f->prefix = prefix;
    int64_t *last = malloc((size_t)room * 2 * sizeof *last);
    if (!list || !prefix || !last) {
        free(last);
        return false;
    }
    if (!f->room) {
        f->prefix[0] = 0;
        f->following = -1;
        powers[0] = 1;
        for (int i = 1; i <= BODY_MAX; i++)
            powers[i] = powers[i - 1] * FACTOR;
    }
    free(f->last);
    f->last = last;
    f->last_room = (uint64_t)room * 2;
    memset(f->last, -1, (size_t)f->last_room * sizeof *f->last);
    f->room = room;
    /* Nodes of one bucket are chained by `before`, whatever their hashes. */
    for (int64_t i = 0; i < f->count; i++) {
        int64_t *head = &f->last[f->list[i].hash & (f->last_room - 1)];
        f->list[i].before = *head;
        *head = i;
    }
    return true;
}

static uint64_t piece_hash(const struct hopbyte_fold *f, int64_t from, int64_t to)
{
    return f->prefix[to] - f->prefix[from] * powers[to - from];
}

/* Adds a node; the caller fills in what it is. Built in its place: copies of what was just stored wait for the stores. */
static struct hopbyte_fold_node *list_push(struct hopbyte_fold *f, uint64_t hash)
{
    int64_t at = f->count++, *head = &f->last[hash & (f->last_room - 1)];
    struct hopbyte_fold_node *node = &f->list[at];
    node->hash = hash;
    node->before = *head;
    node->before_loop = at == 0 ? -1 : node[-1].loop ? at - 1 : node[-1].before_loop;
    *head = at;
    f->prefix[at + 1] = f->prefix[at] * FACTOR + hash;
    return node;
}

static void list_pop(struct hopbyte_fold *f, int64_t count)
{
    for (; count > 0; count--) {
        const struct hopbyte_fold_node *node = &f->list[--f->count];
        f->last[node->hash & (f->last_room - 1)] = node->before;
    }
}

static void counts_add(struct hopbyte_fold *f, struct hopbyte_fold_loop *loop, uint64_t value, uint64_t times)
{
    struct counts *end = loop->counts_used ? &loop->counts[loop->counts_used - 1] : NULL;
    if (end && end->value == value) {
        end->times += times;
        return;
    }
    if (loop->counts_used == loop->counts_room) {
        int64_t room = loop->counts_room ? loop->counts_room * 2 : 1;
        struct counts *more = realloc(loop->counts, (size_t)room * sizeof *more);
        if (!more) {
            f->failed = true;
            return;
        }
        loop->counts = more;
        loop->counts_room = room;
    }
    f->nodes++;
    loop->counts[loop->counts_used++] = (struct counts){value, times};
}

static void node_merge(struct hopbyte_fold *f, struct hopbyte_fold_node *to, struct hopbyte_fold_node *from);

/* Adds one execution of a body to another, and frees it. */
static void body_merge(struct hopbyte_fold *f, struct hopbyte_fold_node *to, struct hopbyte_fold_node *from,
                       int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        node_merge(f, &to[i], &from[i]);
    f->nodes -= (uint64_t)length;
}

static void node_merge(struct hopbyte_fold *f, struct hopbyte_fold_node *to, struct hopbyte_fold_node *from)
{
    if (!to->loop != !from->loop || (to->loop && to->loop->length != from->loop->length)) {
        f->failed = true; /* two pieces with one hash */
        return;
    }
    if (from->loop) {
        struct hopbyte_fold_loop *into = to->loop, *gone = from->loop;
        for (int64_t i = 0; i < gone->counts_used; i++)
            counts_add(f, into, gone->counts[i].value, gone->counts[i].times);
        body_merge(f, into->body, gone->body, into->length);
        f->nodes -= (uint64_t)gone->counts_used;
        free(gone->body);
        free(gone->counts);
        free(gone);
        return;
    }
    to->sums.gap += from->sums.gap;
    to->sums.inside += from->sums.inside;
    to->sums.bytes += from->sums.bytes;
    to->sums.times += from->sums.times;
    if (from->sums.least < to->sums.least)
        to->sums.least = from->sums.least;
    if (from->sums.most > to->sums.most)
        to->sums.most = from->sums.most;
}

/* The last `length` nodes are one more iteration of the loop before them. */
static void loop_extend(struct hopbyte_fold *f, int64_t at, int64_t length)
{
    struct hopbyte_fold_loop *loop = f->list[at].loop;
    loop->counts[loop->counts_used - 1].value++;
    list_pop(f, length);
    body_merge(f, loop->body, &f->list[f->count], length);
}

/* The last `length` nodes are equal to those before them. */
static void loop_create(struct hopbyte_fold *f, int64_t length)
{
    struct hopbyte_fold_loop *loop = calloc(1, sizeof *loop);
    struct hopbyte_fold_node *body = malloc((size_t)length * sizeof *body);
    if (!loop || !body) {
        free(loop);
        free(body);
        f->failed = true;
        return;
    }
    loop->length = length;
    loop->body_hash = piece_hash(f, f->count - length, f->count);
    list_pop(f, 2 * length);
    memcpy(body, &f->list[f->count], (size_t)length * sizeof *body);
    loop->body = body;
    body_merge(f, body, &f->list[f->count + length], length);
    counts_add(f, loop, 2, 1);
    f->nodes++;
    list_push(f, mixed(loop->body_hash + (uint64_t)length))->loop = loop;
}

/* Looks for a repetition that the last node completes; true if the list has changed. */
static bool fold_try(struct hopbyte_fold *f)
{
    int64_t end = f->count, loop = f->list[end - 1].before_loop;
    for (int i = 0; i < LOOPS && loop >= 0 && end - 1 - loop <= BODY_MAX; i++, loop = f->list[loop].before_loop) {
        const struct hopbyte_fold_loop *l = f->list[loop].loop;
        int64_t length = end - 1 - loop;
        if (length == l->length && piece_hash(f, loop + 1, end) == l->body_hash) {
            loop_extend(f, loop, length);
            return true;
        }
    }
    int64_t other = f->list[end - 1].before;
    for (int i = 0; i < CANDIDATES && other >= 0; i++, other = f->list[other].before) {
        int64_t length = end - 1 - other;
        if (f->list[other].hash != f->list[end - 1].hash)
            continue;
        if (length > BODY_MAX || end < 2 * length)
            return false;
        if (piece_hash(f, end - 2 * length, end - length) == piece_hash(f, end - length, end)) {
            loop_create(f, length);
            return !f->failed;
        }
    }
    return false;
}

/* Follows the next iteration of the loop at the list's end; true if the node belongs to it. */
static bool follow(struct hopbyte_fold *f, uint64_t hash)
{
    if (f->following < 0)
        return false;
    const struct hopbyte_fold_loop *loop = f->list[f->following].loop;
    if (loop->body[f->position].hash != hash) {
        f->following = -1;
        return false;
    }
    if (++f->position == loop->length) {
        loop_extend(f, f->following, loop->length);
        f->position = 0;
    }
    return true;
}

static void follow_begin(struct hopbyte_fold *f)
{
    bool loop = f->count > 0 && f->list[f->count - 1].loop;
    f->following = loop ? f->count - 1 : -1;
    f->position = 0;
}

static uint64_t first_hash(const struct hopbyte_fold_node *node)
{
    while (node->loop)
        node = &node->loop->body[0];
    return node->hash;
}

void hopbyte_fold_append(struct hopbyte_fold *f, uint32_t event, double gap, double inside, double bytes)
{
    if (f->failed || !room_make(f)) {
        f->failed = true;
        return;
    }
    uint64_t hash = mixed(event + UINT64_C(1));
    /* A loop that this event does not continue is complete, and may complete a loop around it. */
    while (f->count && f->list[f->count - 1].loop && first_hash(&f->list[f->count - 1]) != hash && fold_try(f))
        follow_begin(f);
    f->nodes++;
    struct hopbyte_fold_node *node = list_push(f, hash);
    node->event = event;
    node->loop = NULL;
    node->sums = (struct hopbyte_fold_sums){gap, inside, bytes, bytes, bytes, 1};
    if (f->following >= 0 && follow(f, hash))
        return;
    if (fold_try(f))
        follow_begin(f);
    else if (f->following >= 0)
        f->following = -1;
}

static void walk(const struct hopbyte_fold_node *list, int64_t count, hopbyte_fold_visit visit, void *context)
{
    for (int64_t i = 0; i < count; i++) {
        const struct hopbyte_fold_loop *loop = list[i].loop;
        if (!loop) {
            visit(context, &list[i], NULL, false);
            continue;
        }
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        for (int64_t c = 0; out && c < loop->counts_used; c++) {
            fprintf(out, c ? ",%llu" : "%llu", (unsigned long long)loop->counts[c].value);
            if (loop->counts[c].times > 1)
                fprintf(out, "*%llu", (unsigned long long)loop->counts[c].times);
        }
        if (out)
            fclose(out);
        visit(context, NULL, text ? text : "0", false);
        walk(loop->body, loop->length, visit, context);
        visit(context, NULL, NULL, true);
        free(text);
    }
}

void hopbyte_fold_walk(const struct hopbyte_fold *f, hopbyte_fold_visit visit, void *context)
{
    walk(f->list, f->count, visit, context);
}
