/* Internals of the gm library. A *domain* owns counters (a Gemini, a network card, a host); a *link* is a direction of
 * a router or a port; each link has six *columns*; a column is the sum of one or more *raw* hardware counters. */
#ifndef HOPBYTE_GM_INTERNAL_H
#define HOPBYTE_GM_INTERNAL_H

#include "../common/deep.h"
#include "../include/hopbyte_gm.h"

#include <inttypes.h>
#include <stdio.h>

enum { GM_COLUMNS = 6, GM_NAME_BYTES = 64, GM_DIRECTION_BYTES = 16, GM_REMOTE_BYTES = 32, GM_TILES = 48 };

enum gm_source { GM_GPCD, GM_INFINIBAND, GM_LINUX, GM_CXI, GM_SOURCES };

/* Why a difference is missing; GM_FINE when it is not. */
enum gm_why { GM_FINE, GM_WRAP, GM_RESET, GM_UNREAD };

/* Properties of a source: its columns' titles and the width of its counters. */
struct gm_source_facts {
    const char *name, *titles[GM_COLUMNS];
    int bits;
    double most_per_second; /* maximum rate of any counter of this source: distinguishes a wrap from a reset */
};
extern const struct gm_source_facts gm_source_facts[GM_SOURCES];

struct gm_link {
    char direction[GM_DIRECTION_BYTES], remote[GM_REMOTE_BYTES];
    double gb_per_s; /* 0 when unknown */
};

struct gm_raw {
    uint64_t last;
    uint8_t link, column, bits;
    bool known;
};

/* A column's running total and its number of breaks (wrap, reset, failed read). A difference of two samples is valid if
 * no break lies between them. */
struct gm_cell {
    uint64_t total;
    uint32_t breaks;
    uint8_t why; /* of the last break */
};

struct gm_domain {
    char id[GM_NAME_BYTES];    /* identity common to all ranks: `c0-0c0s0g0`, a GUID, a host name */
    char title[GM_NAME_BYTES]; /* printed name: `(0, 1, 1)` */
    int link_count, raw_count;
    struct gm_link *links;
    struct gm_raw *raw;
    char **paths;        /* of raw counters that are files */
    uint32_t nic_addr;   /* of a Gemini */
    struct gm_cell *now; /* link_count * GM_COLUMNS running totals */
    struct gm_cell *samples;
    double read_at; /* seconds, of the last read */
};

/* Differences ready to print: cell i of a domain's links in order. */
struct gm_delta {
    uint64_t value;
    uint8_t why;
};

struct gm_region;

struct hopbyte_gm {
    enum gm_source source;
    MPI_Comm leaders; /* the leaders and rank 0, MPI_COMM_NULL elsewhere */
    int rank;         /* in the communicator of the calls */
    bool unwrap, titles, verbose;
    struct gm_domain *domains; /* this process is a leader */
    int domain_count;
    int sample_room;
    uint64_t sample_count;
    struct gm_region *regions;
    int region_count;
    struct gm_tiles *tiles; /* of the Gemini source */
};

/* --- memory.c: allocation with accounting; NULL after a message when memory is exhausted --- */
void *gm_alloc(size_t count, size_t size);
void *gm_grow(void *old, size_t count, size_t size);
void gm_free(void *memory);

/* --- sources --- */

/* Lists the domains this rank can read: `*ids` is an array of *count names to be freed with gm_free. -1 after a
 * message. */
int gm_tiles_domains(int rank, const char *host, char (**ids)[GM_NAME_BYTES], int *count);
int gm_sysfs_domains(enum gm_source source, const char *host, char (**ids)[GM_NAME_BYTES], int *count);
int gm_names_add(char (**ids)[GM_NAME_BYTES], int *count, const char *id);

/* Prepares the domains' links and raw counters. Collective over gm->leaders. */
int gm_tiles_open(struct hopbyte_gm *gm);
int gm_sysfs_open(struct hopbyte_gm *gm);
/* Reads a domain's raw counters in order; `valid[i]` is false when a read failed. */
void gm_tiles_read(struct hopbyte_gm *gm, struct gm_domain *domain, uint64_t *values, bool *valid);
void gm_sysfs_read(struct gm_domain *domain, uint64_t *values, bool *valid);
void gm_tiles_close(struct hopbyte_gm *gm);

/* --- topology.c: tile to link, from `rtr --interconnect` --- */

struct gm_router {
    uint64_t cname;         /* packed, 0 for none */
    int16_t at[3], remote[6][3];
    uint8_t tiles[GM_TILES]; /* direction * 8 + kind + 1 of each tile, 0 for a host tile */
};
/* Broadcasts the interconnect from rank 0 to all leaders; calls `take` with every router on every leader. */
int gm_topology_spread(MPI_Comm leaders, const char *path, bool verbose,
                       void (*take)(void *context, const struct gm_router *router), void *context);
uint64_t gm_cname_pack(const char *text, const char **end);
extern const char gm_directions[7][3];
double gm_tile_gb_per_s(int kind);
double gm_host_tile_gb_per_s(void);

/* --- leaders.c --- */

/* Elects one leader for every domain listed by any rank of comm; keeps in `ids` the domains that this rank
 * leads. */
int gm_leaders_choose(MPI_Comm comm, char (*ids)[GM_NAME_BYTES], int *count);

/* --- samples.c --- */

int gm_domain_prepare(struct hopbyte_gm *gm, struct gm_domain *domain);
void gm_domain_free(struct gm_domain *domain);
/* Brings the running totals up to date; and takes a sample of them too. */
void gm_domain_refresh(struct hopbyte_gm *gm, struct gm_domain *domain);
int gm_domain_read(struct hopbyte_gm *gm, struct gm_domain *domain);
/* Difference of two samples, numbered back from the last one; both must still be stored. */
void gm_domain_between(const struct hopbyte_gm *gm, const struct gm_domain *domain, int older, int newer,
                       struct gm_delta *out);
double gm_seconds(void);

/* --- print.c --- */

typedef void (*gm_difference)(const struct hopbyte_gm *gm, int domain, const void *context, struct gm_delta *out);
/* Gathers every domain's differences to rank 0, a few at a time, and prints them. `region` may be NULL. */
int gm_print(struct hopbyte_gm *gm, const char *region, gm_difference difference, const void *context);

/* --- variables.c: links as performance variables --- */

/* Offers the links of the domains that this rank reads, and withdraws their values. */
void gm_pvars_add(struct hopbyte_gm *gm);
void gm_pvars_remove(struct hopbyte_gm *gm);
/* Running totals may be read by a tool's thread. */
void gm_pvars_lock(void);
void gm_pvars_unlock(void);

/* --- regions.c: without relinking --- */
void gm_regions_free(struct hopbyte_gm *gm);

#endif
