/* Memory partitions: SHMEM_SYMMETRIC_PARTITION<ID> and shmem_kind_malloc (paper 004, VI.B).
 *
 * A partition is one object of the library's symmetric heap, placed on its kind of memory when the job starts, so that every
 * RMA call of the library works on it. It is divided here, by the same steps at every PE: offsets are equal everywhere. */
#define _GNU_SOURCE
#include "state.h"

#include "kinds.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PARTITIONS_MOST = 16, ID_MOST = 127, LEAST_ALIGNMENT = 64 };

/* Used pieces of a partition, ascending. */
struct piece {
    size_t offset, bytes;
    struct piece *next;
};

struct partition {
    int id;
    struct mem_request request;
    size_t bytes, align;
    char *base;
    struct piece *pieces;
    size_t used, peak;
    struct mem_delivered *delivered;
};
static struct partition partitions[PARTITIONS_MOST];
static int count;
static struct mem_machine machine;

/* --- settings --- */

static void trait_read(struct partition *p, const char *name, const char *whole, char *trait, unsigned *seen)
{
    static const char *const keys[] = {"size", "pgsize", "kind", "policy"};
    struct mem_error error = {0};
    char *value = strchr(trait, '=');
    unsigned key = 0;
    if (value)
        *value++ = '\0';
    while (key < 4 && strcasecmp(trait, keys[key]) != 0)
        key++;
    if (!value || key == 4)
        shmem_fail("%s=\"%s\": \"%s\": expected size=, pgsize=, kind= or policy=, with : between them", name, whole, trait);
    if (*seen >> key & 1)
        shmem_fail("%s=\"%s\": %s is given twice", name, whole, keys[key]);
    *seen |= 1U << key;
    uint64_t bytes = 0;
    bool good = key == 0   ? mem_bytes_read(value, &bytes) && bytes <= SIZE_MAX / 4
                : key == 1 ? mem_page_read(value, &machine, &p->request, &error)
                : key == 2 ? mem_kind_read(value, &p->request, &error)
                           : mem_policy_read(value, &p->request, &error);
    if (key == 0 && (!good || bytes == 0))
        shmem_fail("%s=\"%s\": size \"%s\": expected bytes above 0, with K, M, G or T", name, whole, value);
    if (!good)
        shmem_fail("%s=\"%s\": %s %s", name, whole, keys[key], error.text);
    if (key == 0)
        p->bytes = (size_t)bytes;
}

static int by_id(const void *a, const void *b)
{
    return ((const struct partition *)a)->id - ((const struct partition *)b)->id;
}

static void partition_add(const char *name, const char *digits, const char *whole)
{
    char copy[512], *rest = NULL;
    unsigned seen = 0;
    struct mem_error error;
    size_t length = strspn(digits, "0123456789");
    long id = strtol(digits, NULL, 10);
    if (length == 0 || digits[length] || id > ID_MOST)
        shmem_fail("%s: expected a number from 0 to %d after SHMEM_SYMMETRIC_PARTITION", name, ID_MOST);
    for (int i = 0; i < count; i++)
        if (partitions[i].id == id)
            shmem_fail("%s: partition %ld is defined twice", name, id);
    if (count == PARTITIONS_MOST)
        shmem_fail("%s: more than %d partitions", name, PARTITIONS_MOST);
    if (count == 0 && !mem_machine_read(&machine, NULL, &error))
        shmem_fail("%s", error.text);
    struct partition *p = &partitions[count++];
    *p = (struct partition){.id = (int)id, .request = {.policy = MEM_PREFERRED}};
    if (strlen(whole) >= sizeof copy)
        shmem_fail("%s: a value of %zu characters", name, strlen(whole));
    strcpy(copy, whole);
    for (char *trait = strtok_r(copy, ":", &rest); trait; trait = strtok_r(NULL, ":", &rest))
        trait_read(p, name, whole, trait, &seen);
    if (!(seen & 1))
        shmem_fail("%s=\"%s\": size= is missing", name, whole);
    /* The heap is the library's: larger pages than transparent ones cannot begin in it. */
    uint64_t align = p->request.page < machine.transparent ? p->request.page : machine.transparent;
    p->align = align > machine.base ? (size_t)align : (size_t)machine.base;
    p->bytes = (p->bytes + p->align - 1) / p->align * p->align;
}

void partition_settings_read(void)
{
    static const char *const stems[] = {"SHMEM_SYMMETRIC_PARTITION", "SMA_SYMMETRIC_PARTITION"};
    for (char **entry = environ; *entry; entry++)
        for (int s = 0; s < 2; s++) {
            size_t stem = strlen(stems[s]), length = strcspn(*entry, "=");
            char name[64];
            if (strncmp(*entry, stems[s], stem) != 0)
                continue;
            if (length >= sizeof name)
                shmem_fail("%.60s…: expected a number after SHMEM_SYMMETRIC_PARTITION", *entry);
            snprintf(name, sizeof name, "%.*s", (int)length, *entry);
            partition_add(name, name + stem, *entry + length + 1);
        }
    qsort(partitions, (size_t)count, sizeof *partitions, by_id);
    /* A library that grows its heap beyond the memory would take all of it. */
    char asked[32], has[32];
    uint64_t room = count ? mem_room_process(&machine) : 0;
    if (count && partition_symmetric_bytes() > room)
        shmem_fail("partitions: %s asked for, %s left to this process by the machine and its control groups",
                   mem_bytes_text(partition_symmetric_bytes(), asked), mem_bytes_text(room, has));
}

size_t partition_symmetric_bytes(void)
{
    size_t all = 0;
    for (int i = 0; i < count; i++)
        all += partitions[i].bytes + partitions[i].align + 4096;
    return all;
}

uint64_t partition_hash(uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        const struct partition *p = &partitions[i];
        uint64_t words[] = {(uint64_t)p->id, p->bytes, p->request.kind, p->request.policy, p->request.page};
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            seed = (seed ^ words[w]) * 0x100000001b3;
        for (size_t w = 0; w < sizeof p->request.list.words / sizeof *p->request.list.words; w++)
            seed = (seed ^ p->request.list.words[w]) * 0x100000001b3;
    }
    return seed;
}

/* --- start and end --- */

static const char *request_text(const struct partition *p, char *text, size_t room)
{
    char list[128], page[32], bytes[32];
    bool listed = p->request.kind == MEM_LIST;
    snprintf(text, room, "partition %d (%s, %s%s, %s%s%s)", p->id, mem_bytes_text(p->bytes, bytes),
             listed ? "node " : mem_kind_name(p->request.kind),
             listed ? mem_list_text(&p->request.list, list, sizeof list) : "", mem_policy_name(p->request.policy),
             p->request.page ? ", pages of " : "", p->request.page ? mem_page_text(p->request.page, page) : "");
    return text;
}

void partition_open(void)
{
    for (int i = 0; i < count; i++) {
        struct partition *p = &partitions[i];
        struct mem_error error = {0};
        char text[256];
        request_text(p, text, sizeof text);
        p->delivered = calloc(1, sizeof *p->delivered);
        p->base = shmem_align(p->align, p->bytes);
        if (!p->base || !p->delivered)
            shmem_fail("no room in the symmetric heap for %s: raise SHMEM_SYMMETRIC_SIZE, which this library could not", text);
        if (!mem_bind(&machine, &p->request, p->base, p->bytes, p->delivered, &error))
            shmem_fail("%s: %s", text, error.text);
        if (*p->delivered->reason)
            shmem_say("PE %d: %s is not as asked: %s", hopbyte_shmem.me, text, p->delivered->reason);
    }
    if (count)
        shmem_barrier_all();
}

static void line_put(const char *path, char *text, size_t length)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : STDERR_FILENO;
    if (fd < 0 || write(fd, text, length) != (ssize_t)length)
        shmem_say("cannot write %s: %s", path ? path : "standard error", strerror(errno));
    if (path && fd >= 0)
        close(fd);
}

static void report_write(FILE *out, const struct partition *p, bool json)
{
    char text[256], host[256] = "";
    gethostname(host, sizeof host - 1);
    if (json) {
        fprintf(out, "{\"schema\":\"hopbyte.memory/1\",\"rank\":%d,\"host\":", hopbyte_shmem.me);
        hopbyte_json_text(out, host);
        fprintf(out, ",\"call\":\"shmem partition\",\"partition\":%d,\"kind\":\"%s\",", p->id,
                p->request.kind == MEM_LIST ? "nodes" : mem_kind_name(p->request.kind));
        if (p->request.kind == MEM_LIST)
            fprintf(out, "\"nodes\":\"%s\",", mem_list_text(&p->request.list, text, sizeof text));
        fprintf(out, "\"policy\":\"%s\",\"page_bytes\":%llu,\"requested_bytes\":%zu,\"peak_bytes\":%zu,",
                mem_policy_name(p->request.policy), (unsigned long long)p->request.page, p->bytes, p->peak);
        mem_delivered_json(out, &machine, p->delivered);
        fprintf(out, "}\n");
        return;
    }
    fprintf(out, "hopbyte shmem: PE %d on %s: %s: delivered ", hopbyte_shmem.me, host, request_text(p, text, sizeof text));
    mem_delivered_write(out, &machine, p->delivered);
    fprintf(out, "; at most %zu bytes used", p->peak);
    if (*p->delivered->reason)
        fprintf(out, "; NOT AS ASKED: %s", p->delivered->reason);
    fprintf(out, "\n");
}

static void report_put(bool json, const char *path)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (int i = 0; out && i < count; i++)
        report_write(out, &partitions[i], json);
    if (out && fclose(out) == 0 && length)
        line_put(path, text, length);
    free(text);
}

void partition_close(void)
{
    const char *asked = getenv("HOPBYTE_MEMORY_REPORT"), *output = getenv("HOPBYTE_MEMORY_OUTPUT"),
               *json = getenv("HOPBYTE_MEMORY_JSON");
    bool file = output && *output;
    if (count && (file || (asked && *asked && strcmp(asked, "0") != 0)))
        report_put(false, file ? output : NULL);
    if (count && json && *json)
        report_put(true, json);
    for (int i = 0; i < count; i++) {
        while (partitions[i].pieces) {
            struct piece *piece = partitions[i].pieces;
            partitions[i].pieces = piece->next;
            free(piece);
        }
        free(partitions[i].delivered);
        partitions[i].base = NULL;
    }
    if (count)
        mem_machine_free(&machine);
    count = 0;
}

/* --- objects --- */

static struct partition *partition_of(const void *object)
{
    for (int i = 0; i < count; i++)
        if (partitions[i].base && (const char *)object >= partitions[i].base &&
            (const char *)object < partitions[i].base + partitions[i].bytes)
            return &partitions[i];
    return NULL;
}

/* The first gap that is large enough; NULL if there is none. */
static char *piece_take(struct partition *p, size_t align, size_t bytes)
{
    struct piece **at = &p->pieces;
    size_t from = 0;
    for (;; at = &(*at)->next) {
        size_t start = (((uintptr_t)p->base + from + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)p->base;
        size_t end = *at ? (*at)->offset : p->bytes;
        if (start <= end && end - start >= bytes) {
            struct piece *piece = malloc(sizeof *piece);
            if (!piece)
                shmem_fail("no memory for the table of partition %d", p->id);
            *piece = (struct piece){start, bytes, *at};
            *at = piece;
            p->used += bytes;
            p->peak = p->used > p->peak ? p->used : p->peak;
            return p->base + start;
        }
        if (!*at)
            return NULL;
        from = (*at)->offset + (*at)->bytes;
    }
}

static size_t piece_bytes(const struct partition *p, const char *object, const char *call)
{
    for (const struct piece *piece = p->pieces; piece; piece = piece->next)
        if (p->base + piece->offset == object)
            return piece->bytes;
    shmem_fail("%s: %p is not the start of an object of partition %d, or was freed", call, (const void *)object, p->id);
}

static void piece_give(struct partition *p, const char *object)
{
    struct piece **at = &p->pieces;
    while (p->base + (*at)->offset != object)
        at = &(*at)->next;
    struct piece *piece = *at;
    *at = piece->next;
    p->used -= piece->bytes;
    free(piece);
}

static void agree(const char *call, const char *const *names, const int64_t *values, int values_count)
{
    check_equal(team_of(SHMEM_TEAM_WORLD, call), call, names, values, values_count);
}

static void *take(const char *call, size_t align, size_t bytes, int id)
{
    static const char *const arguments[] = {"size", "partition_id", "alignment"};
    static const char *const places[] = {"the offset in the partition"};
    shmem_enter(call);
    agree(call, arguments, (const int64_t[]){(int64_t)bytes, id, (int64_t)align}, 3);
    struct partition *p = NULL;
    for (int i = 0; i < count; i++)
        p = partitions[i].id == id ? &partitions[i] : p;
    if (!p)
        shmem_fail("%s: partition %d is not defined (SHMEM_SYMMETRIC_PARTITION%d)", call, id, id);
    if (align == 0 || (align & (align - 1)) != 0)
        shmem_fail("%s: alignment %zu: expected a power of two", call, align);
    char *object = NULL;
    if (bytes > 0 && bytes <= p->bytes) {
        size_t least = align > LEAST_ALIGNMENT ? align : LEAST_ALIGNMENT;
        object = piece_take(p, least, (bytes + LEAST_ALIGNMENT - 1) / LEAST_ALIGNMENT * LEAST_ALIGNMENT);
        agree(call, places, (const int64_t[]){object ? object - p->base : -1}, 1);
    }
    shmem_leave();
    if (bytes > 0)
        shmem_barrier_all();
    return object;
}

void *shmem_kind_malloc(size_t size, int partition_id)
{
    return take("shmem_kind_malloc", LEAST_ALIGNMENT, size, partition_id);
}

void *shmem_kind_align(size_t alignment, size_t size, int partition_id)
{
    return take("shmem_kind_align", alignment, size, partition_id);
}

void *shmemx_kind_malloc(size_t size, int partition_id)
{
    return take("shmemx_kind_malloc", LEAST_ALIGNMENT, size, partition_id);
}

void *shmemx_kind_align(size_t alignment, size_t size, int partition_id)
{
    return take("shmemx_kind_align", alignment, size, partition_id);
}

static void give(const char *call, struct partition *p, char *object)
{
    static const char *const names[] = {"the offset of ptr", "the partition of ptr"};
    shmem_barrier_all();
    shmem_enter(call);
    agree(call, names, (const int64_t[]){object - p->base, p->id}, 2);
    piece_bytes(p, object, call);
    piece_give(p, object);
    shmem_leave();
}

static void *change(const char *call, struct partition *p, char *object, size_t bytes)
{
    if (bytes == 0) {
        give(call, p, object);
        return NULL;
    }
    size_t had = piece_bytes(p, object, call);
    char *fresh = take(call, LEAST_ALIGNMENT, bytes, p->id);
    if (!fresh)
        return NULL;
    memcpy(fresh, object, had < bytes ? had : bytes);
    give(call, p, object);
    return fresh;
}

/* Names of the library, for objects of partitions too. */
#define FREE(name)                                                                                                     \
    void name(void *object)                                                                                            \
    {                                                                                                                  \
        static void (*next)(void *);                                                                                   \
        struct partition *p = partition_of(object);                                                                    \
        if (p) {                                                                                                       \
            give(#name, p, object);                                                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        if (!next)                                                                                                     \
            next = (void (*)(void *))shmem_next(#name);                                                                \
        next(object);                                                                                                  \
    }
FREE(shmem_free)
FREE(shfree)

#define REALLOC(name)                                                                                                  \
    void *name(void *object, size_t bytes)                                                                             \
    {                                                                                                                  \
        static void *(*next)(void *, size_t);                                                                          \
        struct partition *p = partition_of(object);                                                                    \
        if (p)                                                                                                         \
            return change(#name, p, object, bytes);                                                                    \
        if (!next)                                                                                                     \
            next = (void *(*)(void *, size_t))shmem_next(#name);                                                       \
        return next(object, bytes);                                                                                    \
    }
REALLOC(shmem_realloc)
REALLOC(shrealloc)
