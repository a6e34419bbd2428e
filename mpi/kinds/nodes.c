/* The host's NUMA nodes and page sizes, from sysfs: the files that hwloc reads its memory attributes from. */
#define _GNU_SOURCE
#include "kinds.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MODE_BIND = 2, MODE_BITS = 0xff };

static bool file_read(const struct mem_machine *m, char *text, size_t room, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A small file, with a final zero; false if it cannot be read. */
static bool file_read(const struct mem_machine *m, char *text, size_t room, const char *format, ...)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s", m->root);
    va_list list;
    va_start(list, format);
    vsnprintf(path + length, sizeof path - (size_t)length, format, list);
    va_end(list);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t got = fread(text, 1, room - 1, file);
    text[got] = '\0';
    fclose(file);
    return true;
}

static uint64_t number_in(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

#define NUMBER(m, ...)                                                                                                 \
    __extension__({                                                                                                    \
        char text_[64];                                                                                                \
        file_read(m, text_, sizeof text_, __VA_ARGS__) ? strtoull(text_, NULL, 10) : 0;                                \
    })

static void memory_read(const struct mem_machine *m, struct mem_node *node)
{
    char text[16384];
    bool good = m->numa ? file_read(m, text, sizeof text, "/sys/devices/system/node/node%d/meminfo", node->id)
                        : file_read(m, text, sizeof text, "/proc/meminfo");
    if (!good)
        return;
    node->total = number_in(text, "MemTotal:") << 10;
    node->free = number_in(text, "MemFree:") << 10;
    node->file = (number_in(text, "Active(file):") + number_in(text, "Inactive(file):") + number_in(text, "SReclaimable:")) << 10;
}

static void pages_read(struct mem_machine *m)
{
    for (int i = 1; i < m->sizes; i++) {
        unsigned long long kib = m->size[i].bytes >> 10;
        const char *folder = "/sys/kernel/mm/hugepages/hugepages";
        m->size[i].total = NUMBER(m, "%s-%llukB/nr_hugepages", folder, kib);
        m->size[i].free = NUMBER(m, "%s-%llukB/free_hugepages", folder, kib);
        uint64_t most = NUMBER(m, "%s-%llukB/nr_overcommit_hugepages", folder, kib);
        uint64_t used = NUMBER(m, "%s-%llukB/surplus_hugepages", folder, kib);
        uint64_t reserved = NUMBER(m, "%s-%llukB/resv_hugepages", folder, kib);
        m->size[i].free -= reserved < m->size[i].free ? reserved : m->size[i].free;
        m->size[i].on_demand = most > used ? most - used : 0;
    }
}

void mem_machine_refresh(struct mem_machine *machine)
{
    for (int i = 0; i < machine->count; i++)
        memory_read(machine, &machine->nodes[i]);
    pages_read(machine);
}

static int by_bytes(const void *a, const void *b)
{
    const struct mem_page_size *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void sizes_read(struct mem_machine *m)
{
    char path[PATH_MAX], text[64];
    m->base = (uint64_t)sysconf(_SC_PAGESIZE);
    m->size[m->sizes++] = (struct mem_page_size){.bytes = m->base};
    snprintf(path, sizeof path, "%s/sys/kernel/mm/hugepages", m->root);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) && m->sizes < MEM_SIZES_MOST;) {
        unsigned long long kib;
        if (sscanf(entry->d_name, "hugepages-%llukB", &kib) == 1)
            m->size[m->sizes++] = (struct mem_page_size){.bytes = kib << 10};
    }
    if (folder)
        closedir(folder);
    qsort(m->size, (size_t)m->sizes, sizeof *m->size, by_bytes);
    const char *thp = "/sys/kernel/mm/transparent_hugepage";
    if (file_read(m, text, sizeof text, "%s/enabled", thp) && !strstr(text, "[never]"))
        m->transparent = NUMBER(m, "%s/hpage_pmd_size", thp);
    m->transparent_shared = file_read(m, text, sizeof text, "%s/shmem_enabled", thp) && !strstr(text, "[never]") &&
                            !strstr(text, "[deny]");
    pages_read(m);
}

/* --- kinds --- */

/* The class of nodes that is numbered 1 has CPUs as initiators only; the class 0 may have accelerators. */
static void attributes_read(const struct mem_machine *m, struct mem_node *node)
{
    for (int access = 1; access >= 0 && node->bandwidth == 0; access--) {
        const char *folder = "/sys/devices/system/node/node";
        node->bandwidth = NUMBER(m, "%s%d/access%d/initiators/read_bandwidth", folder, node->id, access);
        node->latency = NUMBER(m, "%s%d/access%d/initiators/read_latency", folder, node->id, access);
    }
}

/* Devices whose memory the kernel runs as a node: CXL regions, persistent memory, and what firmware calls specific. */
static void devices_read(const struct mem_machine *m)
{
    char path[PATH_MAX], target[PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/bus/dax/devices", m->root);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        int id = (int)NUMBER(m, "/sys/bus/dax/devices/%s/target_node", entry->d_name);
        snprintf(path, sizeof path, "%s/sys/bus/dax/devices/%s", m->root, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        for (int i = 0; i < m->count; i++) {
            struct mem_node *node = &m->nodes[i];
            if (node->id != id || node->cpus)
                continue;
            if (strstr(target, "/ndbus") || strstr(target, "pmem")) {
                node->kind = MEM_PMEM;
                snprintf(node->reason, sizeof node->reason, "persistent memory device %.40s", entry->d_name);
            } else if (strstr(target, "cxl") || strstr(target, "region")) {
                node->kind = MEM_CXL;
                snprintf(node->reason, sizeof node->reason, "CXL region of %.40s", entry->d_name);
            }
        }
    }
    if (folder)
        closedir(folder);
}

static bool knights_landing(const struct mem_machine *m)
{
    char text[1024];
    return file_read(m, text, sizeof text, "/proc/cpuinfo") && strstr(text, "Xeon Phi");
}

/* Memory with twice the bandwidth of the slowest node with CPUs is HBM; memory without CPUs and slower than that is CXL,
 * unless a device says otherwise. */
static void kinds_decide(struct mem_machine *m)
{
    uint64_t usual = 0, slowest = 0;
    bool phi = knights_landing(m);
    for (int i = 0; i < m->count; i++) {
        struct mem_node *n = &m->nodes[i];
        if (!n->cpus)
            continue;
        usual = n->bandwidth && (usual == 0 || n->bandwidth < usual) ? n->bandwidth : usual;
        slowest = n->latency > slowest ? n->latency : slowest;
    }
    for (int i = 0; i < m->count; i++) {
        struct mem_node *n = &m->nodes[i];
        unsigned long long own = n->bandwidth, other = usual;
        if (n->kind != MEM_UNKNOWN)
            continue;
        if (usual && own >= 2 * usual) {
            n->kind = MEM_HBM;
            snprintf(n->reason, sizeof n->reason, "bandwidth %llu MB/s, %llu MB/s at the slowest node with CPUs", own, other);
        } else if (n->cpus) {
            n->kind = MEM_DDR;
            snprintf(n->reason, sizeof n->reason, own       ? "CPUs, bandwidth %llu MB/s"
                                                       : m->numa ? "CPUs, no attributes published"
                                                                 : "all memory: /sys shows no NUMA nodes",
                     own);
        } else if (usual && own && (own < usual || n->latency > slowest)) {
            n->kind = MEM_CXL;
            snprintf(n->reason, sizeof n->reason, "no CPUs, bandwidth %llu MB/s, %llu MB/s at the slowest node with CPUs", own, other);
        } else if (usual && own) {
            n->kind = MEM_DDR;
            snprintf(n->reason, sizeof n->reason, "no CPUs, but the bandwidth of a node with CPUs");
        } else if (phi) {
            n->kind = MEM_HBM;
            snprintf(n->reason, sizeof n->reason, "no CPUs, on a Xeon Phi: MCDRAM");
        } else {
            snprintf(n->reason, sizeof n->reason, "no CPUs, no attributes published: set HOPBYTE_MEMORY_KINDS");
        }
    }
}

/* HOPBYTE_MEMORY_KINDS="HBM=2,3 CXL=4". */
static bool kinds_given(struct mem_machine *m, struct mem_error *error)
{
    const char *given = getenv("HOPBYTE_MEMORY_KINDS");
    char copy[1024], *rest = NULL;
    if (!given || !*given)
        return true;
    snprintf(copy, sizeof copy, "%s", given);
    for (char *word = strtok_r(copy, " ;", &rest); word; word = strtok_r(NULL, " ;", &rest)) {
        struct mem_request request = {0};
        struct mem_mask mask;
        struct mem_error ignored;
        char *equals = strchr(word, '=');
        if (equals)
            *equals = '\0';
        if (!equals || !mem_kind_read(word, &request, &ignored) || request.kind == MEM_SYSTEM || request.kind == MEM_LIST ||
            !mem_list_read(equals + 1, &mask)) {
            mem_fail(error, MEM_BAD_VALUE, "HOPBYTE_MEMORY_KINDS=\"%s\": expected KIND=NODES …, as in \"HBM=2,3 CXL=4\"", given);
            return false;
        }
        for (int id = 0; id < MEM_NODES_MOST; id++) {
            struct mem_node *node = NULL;
            for (int i = 0; i < m->count; i++)
                node = m->nodes[i].id == id ? &m->nodes[i] : node;
            if (!mem_mask_has(&mask, id))
                continue;
            if (!node) {
                mem_fail(error, MEM_BAD_VALUE, "HOPBYTE_MEMORY_KINDS=\"%s\": this host has no memory on node %d", given, id);
                return false;
            }
            node->kind = request.kind;
            snprintf(node->reason, sizeof node->reason, "HOPBYTE_MEMORY_KINDS");
        }
    }
    return true;
}

static bool nodes_read(struct mem_machine *m)
{
    char text[16384];
    struct mem_mask online, cpus = {0}, allowed = {0};
    bool known = false;
    m->numa = true;
    if (!file_read(m, text, sizeof text, "/sys/devices/system/node/online") || !mem_list_read(text, &online)) {
        memset(&online, 0, sizeof online);
        mem_mask_add(&online, 0); /* a kernel without NUMA, or a container that hides it */
        m->numa = false;
    }
    if (!file_read(m, text, sizeof text, "/sys/devices/system/node/has_cpu") || !mem_list_read(text, &cpus))
        mem_mask_add(&cpus, 0);
    if (file_read(m, text, sizeof text, "/proc/self/status")) {
        char *at = strstr(text, "Mems_allowed_list:");
        known = at && mem_list_read(at + 18 + strspn(at + 18, " \t"), &allowed);
    }
    m->nodes = calloc(MEM_NODES_MOST, sizeof *m->nodes);
    for (int id = 0; m->nodes && id < MEM_NODES_MOST; id++) {
        if (!mem_mask_has(&online, id))
            continue;
        struct mem_node *node = &m->nodes[m->count];
        *node = (struct mem_node){.id = id, .kind = MEM_UNKNOWN, .cpus = mem_mask_has(&cpus, id)};
        node->allowed = !known || mem_mask_has(&allowed, id);
        memory_read(m, node);
        attributes_read(m, node);
        if (node->total > 0 || m->count + id == 0)
            m->count++;
    }
    return m->nodes != NULL;
}

bool mem_machine_read(struct mem_machine *machine, const char *root, struct mem_error *error)
{
    const char *given = root ? root : getenv("HOPBYTE_MEMORY_ROOT");
    memset(machine, 0, sizeof *machine);
    snprintf(machine->root, sizeof machine->root, "%s", given && strcmp(given, "/") != 0 ? given : "");
    sizes_read(machine);
    if (!nodes_read(machine)) {
        mem_fail(error, MEM_NO_ROOM, "no memory for the list of nodes");
        return false;
    }
    devices_read(machine);
    kinds_decide(machine);
    return kinds_given(machine, error);
}

void mem_machine_free(struct mem_machine *machine)
{
    free(machine->nodes);
    machine->nodes = NULL;
    machine->count = 0;
}

/* --- nodes of a request --- */

static void absent_say(const struct mem_machine *m, const struct mem_request *request, bool forbidden,
                       struct mem_error *error)
{
    char has[256] = "", list[128];
    size_t length = 0;
    for (enum mem_kind kind = MEM_DDR; kind <= MEM_UNKNOWN; kind++) {
        bool found = false;
        for (int i = 0; i < m->count; i++)
            found |= m->nodes[i].kind == kind;
        if (found)
            length += (size_t)snprintf(has + length, sizeof has - length, "%s%s", length ? ", " : "", mem_kind_name(kind));
    }
    if (request->kind == MEM_LIST)
        mem_fail(error, MEM_NO_KIND, "node %s: %s", mem_list_text(&request->list, list, sizeof list),
                 forbidden ? "outside of the nodes that this process may use (cpuset)" : "this host has no such node with memory");
    else if (forbidden)
        mem_fail(error, MEM_NO_KIND, "%s is on nodes that this process may not use (cpuset)", mem_kind_name(request->kind));
    else
        mem_fail(error, MEM_NO_KIND, "this host has no %s (it has %s); HOPBYTE_MEMORY_KINDS can name nodes of that kind",
                 mem_kind_name(request->kind), has);
}

static bool bound_to(struct mem_mask *mask)
{
    int mode = 0;
    memset(mask, 0, sizeof *mask);
    return syscall(SYS_get_mempolicy, &mode, mask->words, MEM_NODES_MOST, NULL, 0) == 0 && (mode & MODE_BITS) == MODE_BIND;
}

bool mem_nodes_of(const struct mem_machine *machine, const struct mem_request *request, struct mem_mask *mask,
                  struct mem_error *error)
{
    bool any = false, forbidden = false, missing = false;
    struct mem_mask bound;
    bool binds = request->kind == MEM_SYSTEM && bound_to(&bound);
    memset(mask, 0, sizeof *mask);
    for (int i = 0; i < machine->count; i++) {
        const struct mem_node *node = &machine->nodes[i];
        bool meant = request->kind == MEM_SYSTEM ? !binds || mem_mask_has(&bound, node->id)
                     : request->kind == MEM_LIST ? mem_mask_has(&request->list, node->id)
                                                 : node->kind == request->kind;
        forbidden |= meant && !node->allowed;
        any |= meant && node->allowed;
        if (meant && node->allowed)
            mem_mask_add(mask, node->id);
    }
    for (int id = 0; request->kind == MEM_LIST && id < MEM_NODES_MOST; id++)
        missing |= mem_mask_has(&request->list, id) && !mem_mask_has(mask, id);
    if (any && !missing)
        return true;
    absent_say(machine, request, forbidden, error);
    return false;
}

/* --- room --- */

uint64_t mem_huge_free(const struct mem_machine *machine, uint64_t page, const struct mem_mask *mask)
{
    uint64_t sum = 0;
    for (int i = 0; i < machine->count; i++) {
        int id = machine->nodes[i].id;
        if (mem_mask_has(mask, id) && machine->numa)
            sum += NUMBER(machine, "/sys/devices/system/node/node%d/hugepages/hugepages-%llukB/free_hugepages", id,
                          (unsigned long long)(page >> 10));
        else if (mem_mask_has(mask, id))
            sum += NUMBER(machine, "/sys/kernel/mm/hugepages/hugepages-%llukB/free_hugepages", (unsigned long long)(page >> 10));
    }
    return sum;
}

uint64_t mem_room(const struct mem_machine *machine, const struct mem_mask *mask)
{
    uint64_t sum = 0;
    for (int i = 0; i < machine->count; i++)
        if (mem_mask_has(mask, machine->nodes[i].id))
            sum += machine->nodes[i].free + machine->nodes[i].file;
    return sum;
}

/* What a control group and those above it leave, in version 2 or 1. */
static uint64_t group_room(const struct mem_machine *m, const char *mount, char *path, const char *limit,
                           const char *used)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char text[8192];
        if (file_read(m, text, sizeof text, "%s%s/%s", mount, path, limit) && *text >= '0' && *text <= '9') {
            uint64_t most = strtoull(text, NULL, 10), now = NUMBER(m, "%s%s/%s", mount, path, used), file = 0;
            if (file_read(m, text, sizeof text, "%s%s/memory.stat", mount, path))
                file = number_in(text, "\ninactive_file ") + number_in(text, "\nactive_file ");
            uint64_t left = most > now ? most - now + file : file;
            least = left < least ? left : least;
        }
        char *slash = strrchr(path, '/');
        if (!slash || !*path)
            return least;
        *slash = '\0';
    }
}

uint64_t mem_room_process(const struct mem_machine *machine)
{
    char text[4096], line[PATH_MAX];
    uint64_t least = UINT64_MAX;
    if (file_read(machine, text, sizeof text, "/proc/meminfo")) {
        uint64_t available = number_in(text, "MemAvailable:");
        least = available ? available << 10 : least;
    }
    if (!file_read(machine, text, sizeof text, "/proc/self/cgroup"))
        return least;
    char *rest = NULL;
    for (char *at = strtok_r(text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        char *name = strchr(at, ':'), *path = name ? strchr(name + 1, ':') : NULL;
        uint64_t left = UINT64_MAX;
        if (!path)
            continue;
        snprintf(line, sizeof line, "%s", path + 1);
        if (strncmp(name, "::", 2) == 0)
            left = group_room(machine, "/sys/fs/cgroup", line, "memory.max", "memory.current");
        else if (strncmp(name, ":memory:", 8) == 0)
            left = group_room(machine, "/sys/fs/cgroup/memory", line, "memory.limit_in_bytes", "memory.usage_in_bytes");
        least = left < least ? left : least;
    }
    return least;
}
