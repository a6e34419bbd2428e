/* Memory on the nodes and in the pages of a request.
 *
 * A binding policy would let the kernel kill the process when the nodes are full. Pages are therefore populated with the
 * nodes preferred, then bound and moved, which fails with an error, and then looked at. */
#define _GNU_SOURCE
#include "kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

/* Of the kernel's interface, for C libraries whose headers are older. */
enum { MODE_DEFAULT, MODE_PREFERRED, MODE_BIND, MODE_INTERLEAVE, MODE_LOCAL, MODE_PREFERRED_MANY };
enum { MOVE_STRICT = 1, MOVE_OWN = 2, MOVE_SHARED = 4, POPULATE_WRITE = 23, MASK_BITS = MEM_NODES_MOST + 1 };

static bool nodes_must(const struct mem_request *request)
{
    return request->policy == MEM_MANDATORY || request->policy == MEM_BOUND;
}

static uintptr_t down(uintptr_t value, uint64_t to)
{
    return value & ~(uintptr_t)(to - 1);
}

static uintptr_t up(uintptr_t value, uint64_t to)
{
    return down(value + to - 1, to);
}

static int first_of(const struct mem_mask *mask)
{
    for (int id = 0; id < MEM_NODES_MOST; id++)
        if (mem_mask_has(mask, id))
            return id;
    return -1;
}

static int policy_set(void *at, size_t bytes, int mode, const struct mem_mask *mask, unsigned flags)
{
    int rc = (int)syscall(SYS_mbind, at, bytes, mode, mask ? mask->words : NULL, mask ? MASK_BITS : 0, flags);
    if (rc == 0 || mode != MODE_PREFERRED_MANY || errno != EINVAL)
        return rc;
    /* Kernels before 5.15 prefer one node. */
    struct mem_mask one = {0};
    mem_mask_add(&one, first_of(mask));
    return (int)syscall(SYS_mbind, at, bytes, MODE_PREFERRED, one.words, MASK_BITS, flags);
}

/* Backs every page. Kernels before 5.14 need a write to each; huge pages are reserved by mmap there, and nodes are only
 * preferred, so that no write fails. Adding zero keeps what other processes write meanwhile. */
static bool populate_part(char *at, size_t bytes, uint64_t page)
{
    int rc;
    while ((rc = madvise(at, bytes, POPULATE_WRITE)) != 0 && (errno == EINTR || errno == EAGAIN))
        ;
    if (rc == 0 || errno != EINVAL)
        return rc == 0;
    for (size_t i = 0; i < bytes; i += page)
        __atomic_fetch_add(at + i, 0, __ATOMIC_RELAXED);
    return true;
}

/* In parts, because other processes take memory at the same time: before each, every CPU's process could still have a
 * part. Huge pages are reserved already. */
static bool populate(const struct mem_machine *m, void *at, size_t bytes, uint64_t page)
{
    enum { PART = 16 << 20 };
    uint64_t room = mem_room_process(m), margin = (uint64_t)PART * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    margin = margin < room / 8 ? margin : room / 8;
    for (size_t done = 0; done < bytes;) {
        size_t part = page > PART ? page : PART;
        part = part < bytes - done ? part : bytes - done;
        if (page == m->base && done > 0 && mem_room_process(m) < margin + part) {
            errno = ENOMEM;
            return false;
        }
        if (!populate_part((char *)at + done, part, page))
            return false;
        done += part;
    }
    return true;
}

/* --- what was delivered --- */

static void shortfall(struct mem_delivered *d, const char *text)
{
    if (!*d->reason)
        snprintf(d->reason, sizeof d->reason, "%s", text);
}

/* Nodes of every page. */
static void look_nodes(void *at, size_t bytes, uint64_t page, struct mem_delivered *d)
{
    enum { BATCH = 1024 };
    void *pages[BATCH];
    int status[BATCH];
    for (size_t done = 0; done < bytes;) {
        size_t count = 0;
        for (; count < BATCH && done + count * page < bytes; count++)
            pages[count] = (char *)at + done + count * page;
        if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) != 0) {
            d->unknown += bytes - done;
            return;
        }
        for (size_t i = 0; i < count; i++)
            if (status[i] >= 0 && status[i] < MEM_NODES_MOST)
                d->node[status[i]] += page;
            else
                d->absent += page;
        done += count * page;
    }
}

/* Page sizes of memory that was not mapped here, from smaps: bytes in reserved huge pages, and in transparent ones. */
static void look_pages(const struct mem_machine *m, void *at, size_t bytes, struct mem_delivered *d)
{
    uintptr_t from = (uintptr_t)at, to = from + bytes;
    uint64_t overlap = 0, transparent = 0;
    char line[512];
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long first, last;
        unsigned long long kib;
        char key[64];
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
            d->transparent += transparent < overlap ? transparent : overlap;
            transparent = 0;
            uintptr_t low = first > from ? first : from, high = last < to ? last : to;
            overlap = high > low ? high - low : 0;
            if (first >= to)
                break;
        } else if (overlap && sscanf(line, "%63[^:]: %llu kB", key, &kib) == 2) {
            if (strcmp(key, "KernelPageSize") == 0 && kib << 10 > m->base) {
                d->huge += overlap;
                d->page = kib << 10;
            } else if (strcmp(key, "AnonHugePages") == 0 || strcmp(key, "ShmemPmdMapped") == 0 ||
                       strcmp(key, "FilePmdMapped") == 0) {
                transparent += kib << 10;
            }
        }
    }
    d->transparent += transparent < overlap ? transparent : overlap;
    if (file)
        fclose(file);
}

/* Compares what is there with what was asked for. */
static void compare(const struct mem_machine *m, const struct mem_request *request, const struct mem_mask *mask,
                    struct mem_delivered *d)
{
    char list[128], text[MEM_TEXT], size[32], bytes[32];
    for (int id = 0; id < MEM_NODES_MOST; id++)
        if (request->kind != MEM_SYSTEM && !mem_mask_has(mask, id))
            d->elsewhere += d->node[id];
    if (d->transparent && !d->huge)
        d->page = m->transparent;
    uint64_t large = (d->page >= request->page ? d->huge : 0) + (m->transparent >= request->page ? d->transparent : 0);
    d->smaller = request->page > m->base && d->bytes > large ? d->bytes - large : 0;
    if (d->elsewhere) {
        snprintf(text, sizeof text, "%s not on node %s", mem_bytes_text(d->elsewhere, bytes),
                 mem_list_text(mask, list, sizeof list));
        shortfall(d, text);
    }
    if (d->smaller) {
        snprintf(text, sizeof text, "%s not in pages of %s", mem_bytes_text(d->smaller, bytes),
                 mem_page_text(request->page, size));
        shortfall(d, text);
    }
    if (d->absent) {
        snprintf(text, sizeof text, "%s without a page", mem_bytes_text(d->absent, bytes));
        shortfall(d, text);
    }
    if (d->unknown)
        shortfall(d, "not verified: the kernel does not tell the nodes of pages (a container without move_pages?)");
}

/* --- placing --- */

/* The largest page size of the machine up to the one asked for; says if that is another. */
static const struct mem_page_size *size_choose(const struct mem_machine *m, uint64_t page, struct mem_delivered *d)
{
    char text[MEM_TEXT], asked[32], other[32];
    const struct mem_page_size *found = &m->size[0];
    for (int i = 1; i < m->sizes; i++)
        if (m->size[i].bytes <= page)
            found = &m->size[i];
    if (page > m->base && found->bytes != page) {
        snprintf(text, sizeof text, "this machine has no pages of %s; the next smaller are of %s", mem_page_text(page, asked),
                 mem_page_text(found->bytes, other));
        shortfall(d, text);
    }
    return found;
}

/* Whether the machine has the page size, or the policy allows another. */
static bool size_check(const struct mem_machine *m, const struct mem_request *request, struct mem_delivered *d,
                       struct mem_error *error)
{
    bool good = request->page <= m->base || size_choose(m, request->page, d)->bytes == request->page;
    if (good || request->policy != MEM_MANDATORY)
        return true;
    mem_fail(error, MEM_NO_PAGES, "%s", d->reason);
    return false;
}

/* Fails where more is asked for than there is: the kernel would end a process for it. */
static bool room_check(const struct mem_machine *m, const struct mem_request *request, const struct mem_mask *mask,
                       uint64_t bytes, bool bound, struct mem_error *error)
{
    char asked[32], has[32], list[128];
    uint64_t process = mem_room_process(m), room = mem_room(m, mask);
    if (bytes > process) {
        mem_fail(error, MEM_NO_ROOM, "%s asked for, %s left to this process by the machine and its control groups",
                 mem_bytes_text(bytes, asked), mem_bytes_text(process, has));
        return false;
    }
    if (bound && bytes > room) {
        mem_fail(error, MEM_NO_ROOM, "%s asked for, %s free on node %s (%s)", mem_bytes_text(bytes, asked),
                 mem_bytes_text(room, has), mem_list_text(mask, list, sizeof list), mem_kind_name(request->kind));
        return false;
    }
    return true;
}

/* After a failure: a kernel without NUMA has one node, and no policies. */
static bool without_policies(const struct mem_machine *m)
{
    return !m->numa && errno == ENOSYS;
}

/* Policy and population of whole pages. `mask`: nodes, if `bind`. */
static bool place(const struct mem_machine *m, const struct mem_request *request, const struct mem_mask *mask, bool bind,
                  void *at, size_t bytes, uint64_t page, struct mem_error *error)
{
    char list[128];
    int mode = request->policy == MEM_INTERLEAVE ? MODE_INTERLEAVE : MODE_PREFERRED_MANY;
    mem_list_text(mask, list, sizeof list);
    if (bind && policy_set(at, bytes, mode, mask, MOVE_OWN) != 0 && errno != EIO && !without_policies(m)) {
        mem_fail(error, MEM_DENIED, "mbind to node %s: %s%s", list, strerror(errno),
                 errno == EPERM || errno == ENOSYS ? " (a container's system call filter?)" : "");
        return false;
    }
    if (!populate(m, at, bytes, page)) {
        mem_fail(error, MEM_NO_ROOM, "no pages behind %zu bytes: %s", bytes, strerror(errno));
        return false;
    }
    if (bind && nodes_must(request) && policy_set(at, bytes, MODE_BIND, mask, MOVE_OWN | MOVE_STRICT) != 0 &&
        !without_policies(m)) {
        mem_fail(error, errno == EIO ? MEM_NO_ROOM : MEM_DENIED, "not all of %zu bytes can be on node %s: %s", bytes, list,
                 errno == EIO ? "too little free memory, or pages that cannot be moved" : strerror(errno));
        return false;
    }
    return true;
}

/* The nodes of a request, or none with a reason where the policy allows that. */
static bool nodes_choose(const struct mem_machine *m, const struct mem_request *request, struct mem_mask *mask,
                         struct mem_delivered *d, bool *bind, struct mem_error *error)
{
    *bind = request->kind != MEM_SYSTEM;
    if (mem_nodes_of(m, request, mask, error))
        return true;
    if (nodes_must(request))
        return false;
    struct mem_request anywhere = {.kind = MEM_SYSTEM};
    shortfall(d, error->text);
    error->what = MEM_FINE;
    *bind = false;
    return mem_nodes_of(m, &anywhere, mask, error);
}

static void *map_aligned(size_t bytes, size_t align)
{
    char *at = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    char *start = (char *)up((uintptr_t)at, align);
    if (start > at)
        munmap(at, (size_t)(start - at));
    munmap(start + bytes, (size_t)(at + align - start));
    return start;
}

/* Reserved huge pages at an aligned address; NULL with errno. */
static void *map_huge(size_t bytes, uint64_t page, size_t align)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (__builtin_ctzll(page) << MAP_HUGE_SHIFT);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (((uintptr_t)at & (align - 1)) == 0)
        return at;
    munmap(at, bytes);
    /* A hole of the right alignment, which the mapping then replaces. */
    char *hole = map_aligned(bytes, align);
    if (!hole)
        return NULL;
    at = mmap(hole, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) {
        munmap(hole, bytes);
        return NULL;
    }
    return at;
}

/* The reason why the nodes cannot give this many bytes in huge pages; NULL if they can. */
static const char *huge_lack(const struct mem_machine *m, const struct mem_page_size *size, const struct mem_mask *mask,
                             bool bind, uint64_t bytes, char *text, size_t room)
{
    char page[32], list[128];
    uint64_t all = size->free + size->on_demand;
    uint64_t free = bind ? mem_huge_free(m, size->bytes, mask) + size->on_demand : all, need = bytes / size->bytes;
    free = free < all ? free : all;
    if (free >= need)
        return NULL;
    snprintf(text, room, "%llu pages of %s asked for, %llu free%s%s (vm.nr_hugepages, or nr_hugepages of the node)",
             (unsigned long long)need, mem_page_text(size->bytes, page), (unsigned long long)free, bind ? " on node " : "",
             bind ? mem_list_text(mask, list, sizeof list) : "");
    return text;
}

static bool map_in_huge_pages(const struct mem_machine *m, const struct mem_request *request, const struct mem_mask *mask,
                              bool bind, size_t bytes, size_t align, struct mem_region *region, struct mem_delivered *d,
                              struct mem_error *error)
{
    const struct mem_page_size *size = size_choose(m, request->page, d);
    char text[MEM_TEXT], page[32];
    if (size->bytes == m->base) {
        mem_fail(error, MEM_NO_PAGES, "%s", d->reason);
        return false;
    }
    region->bytes = up(bytes, size->bytes);
    const char *lack = huge_lack(m, size, mask, bind, region->bytes, text, sizeof text);
    if (lack) {
        mem_fail(error, MEM_NO_PAGES, "%s", lack);
        return false;
    }
    region->at = map_huge(region->bytes, size->bytes, align > size->bytes ? align : size->bytes);
    if (!region->at) {
        mem_fail(error, MEM_NO_PAGES, "mmap in pages of %s: %s", mem_page_text(size->bytes, page), strerror(errno));
        return false;
    }
    if (!place(m, request, mask, bind, region->at, region->bytes, size->bytes, error)) {
        munmap(region->at, region->bytes);
        return false;
    }
    d->bytes = d->huge = region->bytes;
    d->page = size->bytes;
    look_nodes(region->at, region->bytes, size->bytes, d);
    return true;
}

bool mem_map(struct mem_machine *machine, const struct mem_request *request, size_t bytes, size_t align,
             struct mem_region *region, struct mem_delivered *d, struct mem_error *error)
{
    struct mem_mask mask;
    bool bind, large = request->page > machine->base;
    memset(d, 0, sizeof *d);
    *error = (struct mem_error){0};
    mem_machine_refresh(machine);
    align = align > request->page ? align : (size_t)request->page;
    align = align > machine->base ? align : (size_t)machine->base;
    if (bytes > SIZE_MAX / 2 - align) {
        mem_fail(error, MEM_NO_ROOM, "%zu bytes asked for", bytes);
        return false;
    }
    if (!nodes_choose(machine, request, &mask, d, &bind, error) || !size_check(machine, request, d, error))
        return false;
    if (large && map_in_huge_pages(machine, request, &mask, bind, bytes, align, region, d, error)) {
        compare(machine, request, &mask, d);
        return true;
    }
    if (large && (request->policy == MEM_MANDATORY || error->what == MEM_DENIED))
        return false;
    if (large)
        shortfall(d, error->text);
    error->what = MEM_FINE;
    bool transparent = large && machine->transparent > 0;
    region->bytes = up(bytes, transparent && bytes >= machine->transparent ? machine->transparent : machine->base);
    struct mem_request system = {.kind = MEM_SYSTEM};
    struct mem_mask bound;
    bool must = bind && nodes_must(request);
    /* Without a kind, a process bound by numactl would be killed where its nodes are full. */
    if (!bind && mem_nodes_of(machine, &system, &bound, error))
        must = true, mask = bound;
    if (!room_check(machine, request, &mask, region->bytes, must, error))
        return false;
    region->at = map_aligned(region->bytes, align);
    if (!region->at) {
        mem_fail(error, MEM_NO_ROOM, "mmap of %zu bytes: %s", region->bytes, strerror(errno));
        return false;
    }
    if (transparent)
        madvise(region->at, region->bytes, MADV_HUGEPAGE);
    if (!place(machine, request, &mask, bind, region->at, region->bytes, machine->base, error)) {
        munmap(region->at, region->bytes);
        return false;
    }
    d->bytes = region->bytes;
    look_nodes(region->at, region->bytes, machine->base, d);
    if (large)
        look_pages(machine, region->at, region->bytes, d);
    mem_nodes_of(machine, request, &mask, error); /* empty if there are none: every page is elsewhere */
    error->what = MEM_FINE;
    compare(machine, request, &mask, d);
    return true;
}

void mem_unmap(const struct mem_region *region)
{
    munmap(region->at, region->bytes);
}

static uint64_t elsewhere(const struct mem_machine *m, const struct mem_mask *mask, uintptr_t from, uintptr_t to)
{
    struct mem_delivered *d = calloc(1, sizeof *d);
    uint64_t sum = 0;
    if (d)
        look_nodes((void *)from, to - from, m->base, d);
    for (int id = 0; d && id < MEM_NODES_MOST; id++)
        sum += mem_mask_has(mask, id) ? 0 : d->node[id];
    free(d);
    return sum;
}

/* The kernel leaves pages that several processes have mapped where they are, without an error; a privileged process may
 * move them. Pages at the edges may hold data of the library, which every process of the host uses already. */
static bool shared_check(const struct mem_machine *m, const struct mem_mask *mask, void *at, size_t bytes,
                         struct mem_error *error)
{
    uintptr_t from = down((uintptr_t)at, m->base), to = up((uintptr_t)at + bytes, m->base);
    char text[32], list[128];
    if (elsewhere(m, mask, from, to) == 0)
        return true;
    policy_set((void *)from, to - from, MODE_BIND, mask, MOVE_SHARED);
    if (up((uintptr_t)at, m->base) < down((uintptr_t)at + bytes, m->base)) {
        from = up((uintptr_t)at, m->base);
        to = down((uintptr_t)at + bytes, m->base);
    }
    uint64_t left = elsewhere(m, mask, from, to);
    if (left == 0)
        return true;
    mem_fail(error, MEM_NO_ROOM, "%s stay off node %s: other processes have these pages mapped, or they are pinned",
             mem_bytes_text(left, text), mem_list_text(mask, list, sizeof list));
    return false;
}

bool mem_check(struct mem_machine *machine, const struct mem_request *request, size_t bytes, struct mem_error *error)
{
    struct mem_delivered *d = calloc(1, sizeof *d);
    struct mem_mask mask;
    bool bind;
    *error = (struct mem_error){0};
    mem_machine_refresh(machine);
    bool good = d && nodes_choose(machine, request, &mask, d, &bind, error) && size_check(machine, request, d, error) &&
                room_check(machine, request, &mask, bytes, bind && nodes_must(request), error);
    free(d);
    return good;
}

bool mem_bind(struct mem_machine *machine, const struct mem_request *request, void *at, size_t bytes,
              struct mem_delivered *d, struct mem_error *error)
{
    struct mem_mask mask;
    bool bind;
    memset(d, 0, sizeof *d);
    *error = (struct mem_error){0};
    mem_machine_refresh(machine);
    uintptr_t from = down((uintptr_t)at, machine->base);
    size_t whole = up((uintptr_t)at + bytes, machine->base) - from;
    void *given = at;
    at = (void *)from;
    if (!nodes_choose(machine, request, &mask, d, &bind, error) || !size_check(machine, request, d, error))
        return false;
    uint64_t present = 0;
    struct mem_delivered now = {0};
    look_nodes(at, whole, machine->base, &now);
    present = whole - now.absent - now.unknown;
    if (!room_check(machine, request, &mask, whole - present, bind && nodes_must(request), error))
        return false;
    if (request->page > machine->base)
        madvise(at, whole, MADV_HUGEPAGE);
    if (!place(machine, request, &mask, bind, at, whole, machine->base, error))
        return false;
    if (bind && nodes_must(request) && !shared_check(machine, &mask, given, bytes, error))
        return false;
    d->bytes = whole;
    look_nodes(at, whole, machine->base, d);
    if (request->page > machine->base)
        look_pages(machine, at, whole, d);
    mem_nodes_of(machine, request, &mask, error);
    error->what = MEM_FINE;
    compare(machine, request, &mask, d);
    if (d->smaller && request->policy == MEM_MANDATORY) {
        mem_fail(error, MEM_NO_PAGES, "%s (the segment is the library's own: only transparent huge pages are possible%s)",
                 d->reason, machine->transparent_shared ? "" : ", which are off for shared memory here");
        return false;
    }
    return true;
}

static bool shared(const void *at)
{
    char line[512], permissions[8];
    unsigned long first, last;
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%lx-%lx %7s", &first, &last, permissions) == 3 && (uintptr_t)at >= first && (uintptr_t)at < last;
    if (file)
        fclose(file);
    return found && permissions[3] == 's';
}

void mem_unbind(const struct mem_machine *machine, void *at, size_t bytes)
{
    uintptr_t from = down((uintptr_t)at, machine->base);
    if (!shared(at))
        policy_set((void *)from, up((uintptr_t)at + bytes, machine->base) - from, MODE_DEFAULT, NULL, 0);
}

/* --- the process's own policy --- */

bool mem_process_prefer(const struct mem_machine *machine, const struct mem_request *request, struct mem_process *before,
                        struct mem_error *error)
{
    struct mem_mask mask;
    memset(before, 0, sizeof *before);
    if (!mem_nodes_of(machine, request, &mask, error))
        return false;
    long rc = syscall(SYS_get_mempolicy, &before->mode, before->mask.words, MEM_NODES_MOST, NULL, 0);
    if (rc == 0) {
        rc = syscall(SYS_set_mempolicy, MODE_PREFERRED_MANY, mask.words, MASK_BITS);
        if (rc != 0 && errno == EINVAL) {
            struct mem_mask one = {0};
            mem_mask_add(&one, first_of(&mask));
            rc = syscall(SYS_set_mempolicy, MODE_PREFERRED, one.words, MASK_BITS);
        }
    }
    if (rc != 0)
        mem_fail(error, MEM_DENIED, "set_mempolicy: %s", strerror(errno));
    return rc == 0;
}

void mem_process_restore(const struct mem_process *before)
{
    bool any = first_of(&before->mask) >= 0;
    syscall(SYS_set_mempolicy, before->mode, any ? before->mask.words : NULL, any ? MASK_BITS : 0);
}

uint64_t mem_process_nodes(const struct mem_machine *machine, uint64_t node[MEM_NODES_MOST])
{
    uint64_t all = 0;
    char line[4096];
    memset(node, 0, MEM_NODES_MOST * sizeof *node);
    FILE *file = fopen("/proc/self/numa_maps", "re");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long kib = machine->base >> 10, pages;
        const char *size = strstr(line, "kernelpagesize_kB=");
        if (size)
            sscanf(size, "kernelpagesize_kB=%llu", &kib);
        for (const char *at = line; (at = strstr(at, " N")) != NULL; at += 2) {
            int id;
            if (sscanf(at, " N%d=%llu", &id, &pages) == 2 && id >= 0 && id < MEM_NODES_MOST) {
                node[id] += pages * kib << 10;
                all += pages * kib << 10;
            }
        }
    }
    if (file)
        fclose(file);
    return all;
}
