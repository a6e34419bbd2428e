/* Kinds of memory and page sizes of a host, and memory placed on them (paper 004, VI), for MPI and SHMEM alike.
 *
 * A kind is found through the attributes that firmware and kernel publish (bandwidth and latency of every NUMA node, CXL
 * and persistent devices), never by the number of a node. Memory is populated and looked at before it is handed out:
 * what is delivered is known, and a request that cannot be met is an error instead of a signal. */
#ifndef HOPBYTE_KINDS_H
#define HOPBYTE_KINDS_H

#include "../common/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MEM_NODES_MOST = 1024, MEM_WORD_BITS = 8 * sizeof(unsigned long), MEM_SIZES_MOST = 16, MEM_TEXT = 512 };

enum mem_kind { MEM_SYSTEM, MEM_DDR, MEM_HBM, MEM_CXL, MEM_PMEM, MEM_UNKNOWN, MEM_LIST };
/* Bound: nodes as with Mandatory, pages as with Preferred; Cray's way with DDR, which has no policy. */
enum mem_policy { MEM_UNSET, MEM_MANDATORY, MEM_PREFERRED, MEM_INTERLEAVE, MEM_BOUND };

struct mem_mask {
    unsigned long words[MEM_NODES_MOST / MEM_WORD_BITS];
};

struct mem_node {
    int id;
    bool cpus, allowed; /* allowed: to this process, by its cpuset */
    enum mem_kind kind;
    uint64_t total, free, file;    /* bytes; file: pages of files, which the kernel can drop */
    uint64_t bandwidth, latency;   /* MB/s and ns from the nearest CPU; 0: not published */
    char reason[128];              /* for the kind */
};

struct mem_page_size {
    uint64_t bytes;
    uint64_t total, free, on_demand; /* huge pages of the host; on_demand: more that the kernel may make */
};

struct mem_machine {
    char root[256]; /* folder with sys and proc; empty: this machine's */
    int count, sizes;
    uint64_t base, transparent; /* transparent: bytes of a transparent huge page; 0: off for private memory */
    bool transparent_shared;
    bool numa; /* the kernel shows nodes; otherwise node 0 is all memory */
    struct mem_node *nodes;
    struct mem_page_size size[MEM_SIZES_MOST]; /* ascending; the first is the base page */
};

struct mem_request {
    enum mem_kind kind;
    enum mem_policy policy;
    struct mem_mask list; /* with MEM_LIST */
    uint64_t page;        /* bytes; 0: not asked for */
};

enum mem_failure {
    MEM_FINE,
    MEM_BAD_VALUE, /* of a setting */
    MEM_NO_KIND,   /* no memory of the kind, or no such node */
    MEM_NO_PAGES,  /* no pages of the size */
    MEM_NO_ROOM,   /* too little memory */
    MEM_DENIED,    /* by the kernel */
};

struct mem_error {
    enum mem_failure what;
    char text[MEM_TEXT];
};

/* Memory as it is. Bytes; the sum over nodes, `absent` and `unknown` is `bytes`. */
struct mem_delivered {
    uint64_t bytes, absent, unknown;
    uint64_t elsewhere;   /* not on the nodes asked for */
    uint64_t page;        /* size of the huge pages; 0: none */
    uint64_t huge;        /* in huge pages that were reserved as such */
    uint64_t transparent; /* in transparent huge pages, which the kernel may split */
    uint64_t smaller;     /* in pages below the size asked for */
    uint64_t node[MEM_NODES_MOST];
    char reason[MEM_TEXT]; /* of the first shortfall; empty: all that was asked for */
};

struct mem_region {
    void *at;
    size_t bytes; /* whole pages, at least what was asked for */
};

/* --- words.c --- */

const char *mem_kind_name(enum mem_kind kind);
const char *mem_policy_name(enum mem_policy policy);
/* DDR, D, NORMALMEM, N; HBM, H, MCDRAM, M, FASTMEM, F; CXL, C; PMEM; SYS_DEFAULT, S; nodeLIST, as node0,2-3. Any case. */
bool mem_kind_read(const char *text, struct mem_request *request, struct mem_error *error);
/* Mandatory, M; Preferred, P; Interleave, I. */
bool mem_policy_read(const char *text, struct mem_request *request, struct mem_error *error);
/* 4K, 2M to 512M in powers of two, 1G, and the machine's own. */
bool mem_page_read(const char *text, const struct mem_machine *machine, struct mem_request *request,
                   struct mem_error *error);
/* Bytes with K, M, G or T (powers of 1024). */
bool mem_bytes_read(const char *text, uint64_t *bytes);
/* 96.0 MiB; room for 32 characters. */
const char *mem_bytes_text(uint64_t bytes, char *text);
/* 2M; room for 32 characters. */
const char *mem_page_text(uint64_t bytes, char *text);
/* 0,2-3. */
bool mem_list_read(const char *text, struct mem_mask *mask);
const char *mem_list_text(const struct mem_mask *mask, char *text, size_t room);
void mem_fail(struct mem_error *error, enum mem_failure what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool mem_mask_has(const struct mem_mask *mask, int id)
{
    return id >= 0 && id < MEM_NODES_MOST && mask->words[(unsigned)id / MEM_WORD_BITS] >> ((unsigned)id % MEM_WORD_BITS) & 1;
}
static inline void mem_mask_add(struct mem_mask *mask, int id)
{
    mask->words[(unsigned)id / MEM_WORD_BITS] |= 1UL << ((unsigned)id % MEM_WORD_BITS);
}

/* --- nodes.c: what the host has --- */

/* Reads `root`/sys and `root`/proc; NULL for HOPBYTE_MEMORY_ROOT, or this machine. HOPBYTE_MEMORY_KINDS names kinds that
 * the firmware does not: "HBM=2,3 CXL=4". False with an error for that variable's value alone. */
bool mem_machine_read(struct mem_machine *machine, const char *root, struct mem_error *error);
void mem_machine_free(struct mem_machine *machine);
/* Free memory and free huge pages change: reads them again. */
void mem_machine_refresh(struct mem_machine *machine);
/* Nodes that a request means; false if this host has none that the process may use. With MEM_SYSTEM: the nodes that the
 * process is bound to, or all. */
bool mem_nodes_of(const struct mem_machine *machine, const struct mem_request *request, struct mem_mask *mask,
                  struct mem_error *error);
/* Free huge pages of a size on these nodes. */
uint64_t mem_huge_free(const struct mem_machine *machine, uint64_t page, const struct mem_mask *mask);
/* Bytes that these nodes can give: free ones and those of file pages. */
uint64_t mem_room(const struct mem_machine *machine, const struct mem_mask *mask);
/* Bytes that the process can still get from the machine and its control groups. */
uint64_t mem_room_process(const struct mem_machine *machine);

/* --- place.c: memory on them; delivered.c: what it is then --- */

/* New private memory of at least `bytes`, populated; `align`: a power of two. */
bool mem_map(struct mem_machine *machine, const struct mem_request *request, size_t bytes, size_t align,
             struct mem_region *region, struct mem_delivered *delivered, struct mem_error *error);
void mem_unmap(const struct mem_region *region);
/* Whether there are nodes and room for a request, without taking any. */
bool mem_check(struct mem_machine *machine, const struct mem_request *request, size_t bytes, struct mem_error *error);
/* Places memory that exists already, where its owner keeps using it: moved, populated, looked at. Whole pages around it
 * are included. */
bool mem_bind(struct mem_machine *machine, const struct mem_request *request, void *at, size_t bytes,
              struct mem_delivered *delivered, struct mem_error *error);
/* Undoes the policy of mem_bind on private memory, which may be used again; the pages stay. A policy of shared memory is
 * everyone's, and ends with it. */
void mem_unbind(const struct mem_machine *machine, void *at, size_t bytes);
/* The process's own policy for memory that it touches from now on: the request's nodes first. False if the kernel
 * refuses. mem_process_restore ends it. */
struct mem_process {
    int mode;
    struct mem_mask mask;
};
bool mem_process_prefer(const struct mem_machine *machine, const struct mem_request *request, struct mem_process *before,
                        struct mem_error *error);
void mem_process_restore(const struct mem_process *before);
/* Bytes of this process on every node, from numa_maps; the sum, or 0 if that cannot be read. */
uint64_t mem_process_nodes(const struct mem_machine *machine, uint64_t node[MEM_NODES_MOST]);

/* "node 2 (HBM) 64.0 MiB, node 0 (DDR) 32.0 MiB; pages of 2M 96.0 MiB". */
void mem_delivered_write(FILE *out, const struct mem_machine *machine, const struct mem_delivered *d);
/* The same as members of a JSON object, without braces. */
void mem_delivered_json(FILE *out, const struct mem_machine *machine, const struct mem_delivered *d);
void mem_delivered_add(struct mem_delivered *sum, const struct mem_delivered *d);

#endif
