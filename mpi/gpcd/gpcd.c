/* Replays Gemini counters from a file through the API of Cray's gpcd library. Not thread safe, like the original. */
#include "../include/gpcd.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))

enum { ROWS = 6, COLUMNS = 8, COUNTERS = 6, TILE_REGISTERS = ROWS * COLUMNS * COUNTERS, LOCAL_NIC = 0xffffffffu };

/* One line of the file: values[i] at read i, or values[0] + i * step. */
struct rule {
    char *router, *mmr;
    uint64_t *values, step;
    int count;
    struct rule *next;
};

/* A router in use, and the number of its reads. Its NIC address is its index in the list, plus 1. */
struct router {
    char *name;
    uint64_t reads;
};

static struct {
    struct rule *rules;
    char *local;
    struct stat seen;
    bool loaded, verbose;
} replay;

static struct router *routers;
static uint32_t router_count;
static gpcd_mmr_desc_t *descs[4096];
static int desc_count;

/* --- registers --- */

static gpcd_mmr_desc_t *desc_find(const char *name)
{
    for (int i = 0; i < desc_count; i++)
        if (strcmp(descs[i]->name, name) == 0)
            return descs[i];
    return NULL;
}

static gpcd_mmr_desc_t *desc_add(const char *name)
{
    gpcd_mmr_desc_t *desc = desc_find(name);
    if (desc || desc_count == (int)(sizeof descs / sizeof *descs))
        return desc;
    desc = calloc(1, sizeof *desc);
    if (!desc || !(desc->name = strdup(name))) {
        free(desc);
        return NULL;
    }
    desc->addr = UINT64_C(0x1000) + 8 * (uint64_t)desc_count;
    return descs[desc_count++] = desc;
}

static void tile_descs_add(void)
{
    char name[64];
    for (int i = 0; i < TILE_REGISTERS; i++) {
        snprintf(name, sizeof name, "GM_%d_%d_TILE_PERFORMANCE_COUNTERS_%d", i / COUNTERS / COLUMNS,
                 i / COUNTERS % COLUMNS, i % COUNTERS);
        desc_add(name);
    }
}

/* --- the file --- */

static void rules_free(void)
{
    while (replay.rules) {
        struct rule *next = replay.rules->next;
        free(replay.rules->router);
        free(replay.rules->mmr);
        free(replay.rules->values);
        free(replay.rules);
        replay.rules = next;
    }
    free(replay.local);
    replay.local = NULL;
}

/* `a,b,c` or `a+step`; false when it is neither. */
static bool values_parse(struct rule *rule, const char *text)
{
    int room = 1;
    for (const char *c = text; *c; c++)
        room += *c == ',';
    rule->values = calloc((size_t)room, sizeof *rule->values);
    while (rule->values) {
        char *end;
        if (!isdigit((unsigned char)*text))
            return false;
        rule->values[rule->count++] = strtoull(text, &end, 0);
        if (*end == '+' && rule->count == 1 && isdigit((unsigned char)end[1])) {
            rule->step = strtoull(end + 1, &end, 0);
            return *end == 0;
        }
        if (*end == 0)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
    return false;
}

static struct rule *rule_parse(const char *router, const char *mmr, const char *values)
{
    struct rule *rule = calloc(1, sizeof *rule);
    if (!rule)
        return NULL;
    rule->router = strdup(router);
    rule->mmr = strdup(mmr);
    if (rule->router && rule->mmr && values_parse(rule, values))
        return rule;
    free(rule->router);
    free(rule->mmr);
    free(rule->values);
    free(rule);
    return NULL;
}

static bool line_parse(char *line, struct rule ***tail)
{
    char *rest, *first = strtok_r(line, " \t\r\n", &rest), *second = strtok_r(NULL, " \t\r\n", &rest);
    if (!first)
        return true;
    if (second && strcmp(first, "local") == 0) {
        free(replay.local);
        replay.local = strdup(second);
        return replay.local != NULL;
    }
    char *third = second ? strtok_r(NULL, " \t\r\n", &rest) : NULL;
    struct rule *rule = third && !strtok_r(NULL, " \t\r\n", &rest) ? rule_parse(first, second, third) : NULL;
    if (!rule)
        return false;
    if (!strpbrk(second, "*?["))
        desc_add(second);
    **tail = rule;
    *tail = &rule->next;
    return true;
}

static bool file_parse(const char *path, FILE *in)
{
    char *line = NULL;
    size_t room = 0;
    struct rule **tail = &replay.rules;
    bool ok = true;
    for (int number = 1; ok && getline(&line, &room, in) > 0; number++) {
        line[strcspn(line, "#")] = 0;
        if (!line_parse(line, &tail)) {
            fprintf(stderr, "gpcd: %s:%d: expected `ROUTER REGISTER VALUE[,VALUE…]`, `ROUTER REGISTER FIRST+STEP` or "
                            "`local ROUTER`\n",
                    path, number);
            ok = false;
        }
    }
    free(line);
    return ok;
}

static bool file_unchanged(const struct stat *now)
{
    return replay.loaded && now->st_ino == replay.seen.st_ino && now->st_size == replay.seen.st_size &&
           now->st_mtim.tv_sec == replay.seen.st_mtim.tv_sec && now->st_mtim.tv_nsec == replay.seen.st_mtim.tv_nsec;
}

/* Reads the file at first use and after every change. */
static bool file_load(void)
{
    const char *path = getenv("HOPBYTE_GPCD_FILE");
    struct stat now;
    static bool said; /* A program looks up hundreds of registers in a row. */
    if (!path || !*path) {
        if (!said)
            fprintf(stderr, "gpcd: set HOPBYTE_GPCD_FILE to the counters to replay\n");
        said = true;
        return false;
    }
    FILE *in = fopen(path, "r");
    if (!in || fstat(fileno(in), &now) != 0) {
        if (!said)
            fprintf(stderr, "gpcd: cannot read %s: %s\n", path, strerror(errno));
        said = true;
        if (in)
            fclose(in);
        return false;
    }
    bool ok = true;
    if (!file_unchanged(&now)) {
        rules_free();
        if (!desc_count)
            tile_descs_add();
        ok = file_parse(path, in);
        replay.seen = now;
        replay.loaded = ok;
    }
    fclose(in);
    return ok;
}

/* --- routers --- */

EXPORT uint32_t hopbyte_gpcd_nic_addr(const char *router)
{
    for (uint32_t i = 0; i < router_count; i++)
        if (strcmp(routers[i].name, router) == 0)
            return i + 1;
    struct router *more = realloc(routers, (router_count + 1) * sizeof *more);
    char *name = strdup(router);
    if (more)
        routers = more;
    if (!more || !name) {
        free(name);
        return LOCAL_NIC;
    }
    routers[router_count++] = (struct router){name, 0};
    return router_count;
}

static const char *local_name(void)
{
    const char *name = getenv("HOPBYTE_GPCD_LOCAL");
    if (name && *name)
        return name;
    if (replay.local)
        return replay.local;
    for (struct rule *rule = replay.rules; rule; rule = rule->next)
        if (strcmp(rule->router, "*") != 0)
            return rule->router;
    return "local";
}

static struct router *router_get(uint32_t nic_addr)
{
    if (nic_addr == LOCAL_NIC || nic_addr == 0)
        nic_addr = hopbyte_gpcd_nic_addr(local_name());
    if (nic_addr == 0 || nic_addr > router_count) {
        fprintf(stderr, "gpcd: no NIC at address %u\n", nic_addr);
        return NULL;
    }
    return &routers[nic_addr - 1];
}

static bool pattern_matches(const char *pattern, const char *name)
{
    if (strcmp(pattern, "*") == 0)
        return true;
    return strpbrk(pattern, "*?[") ? fnmatch(pattern, name, 0) == 0 : strcmp(pattern, name) == 0;
}

static uint64_t value_read(const struct router *router, const char *mmr)
{
    for (const struct rule *rule = replay.rules; rule; rule = rule->next) {
        if (!pattern_matches(rule->router, router->name) || !pattern_matches(rule->mmr, mmr))
            continue;
        if (rule->step)
            return rule->values[0] + router->reads * rule->step;
        uint64_t at = router->reads < (uint64_t)rule->count ? router->reads : (uint64_t)rule->count - 1;
        return rule->values[at];
    }
    return 0;
}

/* --- contexts --- */

EXPORT gpcd_context_t *gpcd_create_context(void)
{
    gpcd_context_t *context = calloc(1, sizeof *context);
    if (context)
        context->nic_addr = LOCAL_NIC;
    return context;
}

EXPORT int gpcd_remove_context(gpcd_context_t *context)
{
    if (!context)
        return -1;
    for (gpcd_mmr_list_t *p = context->list, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(context);
    return 0;
}

EXPORT gpcd_mmr_desc_t *gpcd_lookup_mmr_byname(char *name)
{
    return name && file_load() ? desc_find(name) : NULL;
}

EXPORT int gpcd_context_add_mmr(gpcd_context_t *context, const gpcd_mmr_desc_t *desc)
{
    gpcd_mmr_list_t *entry = context && desc ? calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return -1;
    entry->item = desc_find(desc->name);
    entry->next = context->list;
    context->list = entry;
    context->count++;
    return 0;
}

EXPORT int gpcd_context_remove_mmr(gpcd_context_t *context, const gpcd_mmr_desc_t *desc)
{
    for (gpcd_mmr_list_t **at = context ? &context->list : NULL; at && *at; at = &(*at)->next)
        if ((*at)->item == desc) {
            gpcd_mmr_list_t *entry = *at;
            *at = entry->next;
            free(entry);
            context->count--;
            return 0;
        }
    return -1;
}

EXPORT int gpcd_clone_context(gpcd_context_t *from, gpcd_context_t **to)
{
    gpcd_context_t *copy = from && to ? gpcd_create_context() : NULL;
    if (!copy)
        return -1;
    copy->nic_addr = from->nic_addr;
    gpcd_mmr_list_t **tail = &copy->list;
    for (gpcd_mmr_list_t *p = from->list; p; p = p->next) {
        if (!(*tail = calloc(1, sizeof **tail))) {
            gpcd_remove_context(copy);
            return -1;
        }
        (*tail)->item = p->item;
        (*tail)->value = p->value;
        tail = &(*tail)->next;
        copy->count++;
    }
    *to = copy;
    return 0;
}

EXPORT void gpcd_context_print(gpcd_context_t *context)
{
    for (gpcd_mmr_list_t *p = context ? context->list : NULL; p; p = p->next)
        printf("%s = %" PRIu64 "\n", p->item->name, p->value);
}

EXPORT void gpcd_context_set_nic_addr(gpcd_context_t *context, uint32_t nic_addr)
{
    if (context)
        context->nic_addr = nic_addr;
}

EXPORT gpcd_mmr_list_t *gpcd_context_find_list_byname(gpcd_context_t *context, char *name)
{
    for (gpcd_mmr_list_t *p = context ? context->list : NULL; p; p = p->next)
        if (strcmp(p->item->name, name) == 0)
            return p;
    return NULL;
}

EXPORT int gpcd_context_read_mmr_vals(gpcd_context_t *context)
{
    struct router *router = context && file_load() ? router_get(context->nic_addr) : NULL;
    if (!router)
        return -1;
    for (gpcd_mmr_list_t *p = context->list; p; p = p->next)
        p->value = value_read(router, p->item->name);
    router->reads++;
    if (replay.verbose)
        fprintf(stderr, "gpcd: %s: %d registers, read %" PRIu64 "\n", router->name, context->count, router->reads);
    return 0;
}

EXPORT int gpcd_read_mmr_val(const gpcd_mmr_desc_t *desc, uint64_t *value, uint32_t nic_addr)
{
    struct router *router = desc && value && file_load() ? router_get(nic_addr) : NULL;
    if (!router)
        return -1;
    *value = value_read(router, desc->name);
    router->reads++;
    return 0;
}

EXPORT int gpcd_read_mmr_val_byname(char *name, uint64_t *value, uint32_t nic_addr)
{
    return gpcd_read_mmr_val(gpcd_lookup_mmr_byname(name), value, nic_addr);
}

static int write_refuse(void)
{
    errno = EPERM;
    return -1;
}

EXPORT int gpcd_context_write_mmr_vals(gpcd_context_t *context)
{
    (void)context;
    return write_refuse();
}

EXPORT int gpcd_write_mmr_val(const gpcd_mmr_desc_t *desc, uint64_t *value, uint32_t nic_addr)
{
    (void)desc;
    (void)value;
    (void)nic_addr;
    return write_refuse();
}

EXPORT int gpcd_write_mmr_val_byname(char *name, uint64_t *value, uint32_t nic_addr)
{
    (void)name;
    (void)value;
    (void)nic_addr;
    return write_refuse();
}

EXPORT int gpcd_disable_perms(void)
{
    return 0;
}

EXPORT int gpcd_add_perms_entry(uint64_t job_id, int perms)
{
    (void)job_id;
    (void)perms;
    return 0;
}

EXPORT void gpcd_verbose_debug(int level)
{
    replay.verbose = level > 0;
}
