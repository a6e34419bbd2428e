/* hopbyte-memory [ROOT]: the host's memory as JSON lines, for `hopbyte doctor --memory`.
 *
 * Rows: every node, every page size, and for every kind and page size a mandatory request of one page, which is made
 * unless ROOT is a captured machine. Exit codes: 0, 2 for a bad HOPBYTE_MEMORY_KINDS or argument. */
#include "../kinds/kinds.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA "{\"schema\":\"hopbyte.doctor.memory/1\","

static void node_row(const struct mem_machine *m, const struct mem_node *n)
{
    struct mem_mask mask = {0};
    mem_mask_add(&mask, n->id);
    printf(SCHEMA "\"row\":\"node\",\"node\":%d,\"kind\":\"%s\",\"reason\":", n->id, mem_kind_name(n->kind));
    hopbyte_json_text(stdout, n->reason);
    printf(",\"cpus\":%s,\"allowed\":%s,\"total_bytes\":%llu,\"free_bytes\":%llu,\"file_bytes\":%llu,"
           "\"bandwidth_mb_per_s\":%llu,\"latency_ns\":%llu,\"huge_pages\":[",
           n->cpus ? "true" : "false", n->allowed ? "true" : "false", (unsigned long long)n->total,
           (unsigned long long)n->free, (unsigned long long)n->file, (unsigned long long)n->bandwidth,
           (unsigned long long)n->latency);
    for (int i = 1; i < m->sizes; i++)
        printf("%s{\"page_bytes\":%llu,\"free\":%llu}", i > 1 ? "," : "", (unsigned long long)m->size[i].bytes,
               (unsigned long long)mem_huge_free(m, m->size[i].bytes, &mask));
    printf("]}\n");
}

static void size_row(const struct mem_machine *m, int i)
{
    const struct mem_page_size *s = &m->size[i];
    bool transparent = m->transparent == s->bytes;
    printf(SCHEMA "\"row\":\"pages\",\"page_bytes\":%llu,\"base\":%s,\"total\":%llu,\"free\":%llu,\"on_demand\":%llu,"
           "\"transparent\":%s,\"transparent_shared\":%s}\n",
           (unsigned long long)s->bytes, i == 0 ? "true" : "false", (unsigned long long)s->total,
           (unsigned long long)s->free, (unsigned long long)s->on_demand, transparent ? "true" : "false",
           transparent && m->transparent_shared ? "true" : "false");
}

/* Whether a request of one page would be met on a captured machine, by its numbers. */
static bool expect(const struct mem_machine *m, const struct mem_request *request, struct mem_error *error)
{
    struct mem_mask mask;
    char page[32];
    if (!mem_nodes_of(m, request, &mask, error))
        return false;
    if (request->page > m->base && mem_huge_free(m, request->page, &mask) == 0) {
        mem_fail(error, MEM_NO_PAGES, "no free page of %s", mem_page_text(request->page, page));
        return false;
    }
    if (request->page > m->base || mem_room(m, &mask) >= m->base)
        return true;
    mem_fail(error, MEM_NO_ROOM, "no free memory, or its size cannot be read");
    return false;
}

static bool attempt(struct mem_machine *m, const struct mem_request *request, struct mem_error *error)
{
    struct mem_region region;
    struct mem_delivered *d = calloc(1, sizeof *d);
    if (!d)
        return false;
    bool good = mem_map(m, request, request->page, 1, &region, d, error);
    if (good && *d->reason) {
        mem_fail(error, MEM_NO_ROOM, "%s", d->reason);
        mem_unmap(&region);
        good = false;
    } else if (good) {
        mem_unmap(&region);
    }
    free(d);
    return good;
}

static void request_row(struct mem_machine *m, enum mem_kind kind, uint64_t page)
{
    struct mem_request request = {.kind = kind, .policy = MEM_MANDATORY, .page = page};
    struct mem_error error = {0};
    bool captured = *m->root != '\0';
    bool works = captured ? expect(m, &request, &error) : attempt(m, &request, &error);
    printf(SCHEMA "\"row\":\"request\",\"kind\":\"%s\",\"page_bytes\":%llu,\"works\":%s,\"tried\":%s,\"reason\":", mem_kind_name(kind),
           (unsigned long long)page, works ? "true" : "false", captured ? "false" : "true");
    if (works)
        printf("null}\n");
    else
        hopbyte_json_text(stdout, error.text), printf("}\n");
}

int main(int count, char **words)
{
    struct mem_machine machine;
    struct mem_error error = {0};
    if (count > 2 || (count == 2 && words[1][0] == '-')) {
        fprintf(stderr, "usage: hopbyte-memory [ROOT]\n");
        return 2;
    }
    if (!mem_machine_read(&machine, count == 2 ? words[1] : NULL, &error)) {
        fprintf(stderr, "hopbyte memory: %s\n", error.text);
        return 2;
    }
    for (int i = 0; i < machine.count; i++)
        node_row(&machine, &machine.nodes[i]);
    for (int i = 0; i < machine.sizes; i++)
        size_row(&machine, i);
    for (enum mem_kind kind = MEM_SYSTEM; kind <= MEM_PMEM; kind++) {
        struct mem_request any = {.kind = kind};
        struct mem_mask mask;
        if (!mem_nodes_of(&machine, &any, &mask, &error)) {
            request_row(&machine, kind, machine.base);
            continue;
        }
        for (int i = 0; i < machine.sizes; i++)
            request_row(&machine, kind, machine.size[i].bytes);
    }
    mem_machine_free(&machine);
    return 0;
}
