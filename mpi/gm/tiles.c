/* The Gemini source: router tiles read through the gpcd library, summed to logical links (paper 000, II and III). */
#include "gm.h"

#include "../include/gpcd.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = GM_TILES * GM_COLUMNS, LINK_HOST = 6, LINKS = 7 };

struct key {
    uint64_t key;
    int domain;
};

struct gm_tiles {
    gpcd_context_t *context;
    gpcd_mmr_list_t *entries[REGISTERS]; /* by tile and counter */
    gpcd_context_t *(*create_context)(void);
    int (*remove_context)(gpcd_context_t *);
    gpcd_mmr_desc_t *(*lookup_mmr_byname)(char *);
    int (*context_add_mmr)(gpcd_context_t *, const gpcd_mmr_desc_t *);
    int (*context_read_mmr_vals)(gpcd_context_t *);
    void (*context_set_nic_addr)(gpcd_context_t *, uint32_t);
    uint32_t (*nic_addr)(const char *); /* hopbyte's replay only: any process can read any router */
    /* while opening */
    struct gm_router *found; /* by domain */
    struct key *keys;
    int key_count;
};

/* --- which routers a rank can read --- */

int gm_names_add(char (**ids)[GM_NAME_BYTES], int *count, const char *id)
{
    char(*more)[GM_NAME_BYTES] = gm_grow(*ids, (size_t)*count + 1, GM_NAME_BYTES);
    if (!more)
        return -1;
    *ids = more;
    snprintf(more[(*count)++], GM_NAME_BYTES, "%s", id);
    return 0;
}

/* `(x,y,z)` into a key, or 0. */
static uint64_t coordinates_pack(const char *text)
{
    int x, y, z, used = 0;
    if (sscanf(text, "(%d,%d,%d)%n", &x, &y, &z, &used) != 3 || text[used] || x < 0 || y < 0 || z < 0 || x > 0xffff ||
        y > 0xffff || z > 0xffff)
        return 0;
    return UINT64_C(1) << 62 | (uint64_t)x << 32 | (uint64_t)y << 16 | (uint64_t)z;
}

static uint64_t domain_key(const char *id)
{
    const char *end = id;
    uint64_t key = gm_cname_pack(id, &end);
    return key && *end == 0 ? key : coordinates_pack(id);
}

static bool word_is_rank(const char *word, int rank)
{
    char *end;
    long number = strtol(word, &end, 10);
    return *end == 0 && number == rank;
}

/* The file has a line `RANK DOMAIN` or `HOST DOMAIN` for each. */
static int domains_from_map(const char *path, int rank, const char *host, char (**ids)[GM_NAME_BYTES], int *count)
{
    FILE *in = fopen(path, "r");
    char line[512], who[256], id[GM_NAME_BYTES];
    int status = 0;
    if (!in) {
        hopbyte_say("cannot open HOPBYTE_GM_DOMAINS=%s: %s", path, strerror(errno));
        return -1;
    }
    for (int number = 1; status == 0 && fgets(line, sizeof line, in); number++) {
        line[strcspn(line, "#")] = 0;
        int words = sscanf(line, "%255s %63s", who, id);
        if (words <= 0)
            continue;
        if (words != 2 || !domain_key(id)) {
            hopbyte_say("%s:%d: expected `RANK DOMAIN` or `HOST DOMAIN`, a domain being c0-0c0s0g0 or (0,1,1)", path,
                        number);
            status = -1;
        } else if (word_is_rank(who, rank) || strcmp(who, host) == 0) {
            status = gm_names_add(ids, count, id);
        }
    }
    fclose(in);
    return status;
}

/* A node's own name, c0-0c0s0n2: two nodes share a Gemini. */
static int domains_from_cname(char (**ids)[GM_NAME_BYTES], int *count)
{
    const char *root = getenv("HOPBYTE_GM_ROOT");
    char path[PATH_MAX], node[128] = "", id[GM_NAME_BYTES];
    snprintf(path, sizeof path, "%s/proc/cray_xt/cname", root ? root : "");
    FILE *in = fopen(path, "r");
    unsigned number;
    int stem = 0;
    if (!in || !fgets(node, sizeof node, in) || sscanf(node, "c%*u-%*uc%*us%*u%nn%u", &stem, &number) != 1) {
        hopbyte_say("%s does not name this node; set HOPBYTE_GM_DOMAINS to a file of `RANK DOMAIN` lines", path);
        if (in)
            fclose(in);
        return -1;
    }
    fclose(in);
    snprintf(id, sizeof id, "%.*sg%u", stem, node, number / 2);
    return gm_names_add(ids, count, id);
}

int gm_tiles_domains(int rank, const char *host, char (**ids)[GM_NAME_BYTES], int *count)
{
    const char *map = getenv("HOPBYTE_GM_DOMAINS");
    return map && *map ? domains_from_map(map, rank, host, ids, count) : domains_from_cname(ids, count);
}

/* --- the gpcd library --- */

static void *gpcd_open(void)
{
    const char *path = getenv("HOPBYTE_GM_GPCD"), *replay = getenv("HOPBYTE_GPCD_FILE");
    char sibling[PATH_MAX + 16] = "";
    Dl_info self;
    if (path && *path)
        return dlopen(path, RTLD_NOW);
    if (dladdr((void *)(uintptr_t)gm_tiles_open, &self) && strrchr(self.dli_fname, '/'))
        snprintf(sibling, sizeof sibling, "%.*s/libgpcd.so", (int)(strrchr(self.dli_fname, '/') - self.dli_fname),
                 self.dli_fname);
    void *handle = replay && *replay && *sibling ? dlopen(sibling, RTLD_NOW) : NULL;
    if (!handle)
        handle = dlopen("libgpcd.so", RTLD_NOW);
    return handle || !*sibling ? handle : dlopen(sibling, RTLD_NOW);
}

static int gpcd_bind(struct gm_tiles *t)
{
    void *handle = gpcd_open();
    if (!handle) {
        hopbyte_say("cannot load libgpcd.so: %s", dlerror());
        return -1;
    }
    const struct {
        void **to;
        const char *name;
    } table[] = {{(void **)&t->create_context, "gpcd_create_context"},
                 {(void **)&t->remove_context, "gpcd_remove_context"},
                 {(void **)&t->lookup_mmr_byname, "gpcd_lookup_mmr_byname"},
                 {(void **)&t->context_add_mmr, "gpcd_context_add_mmr"},
                 {(void **)&t->context_read_mmr_vals, "gpcd_context_read_mmr_vals"},
                 {(void **)&t->context_set_nic_addr, "gpcd_context_set_nic_addr"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!(*table[i].to = dlsym(handle, table[i].name))) {
            hopbyte_say("libgpcd.so lacks %s", table[i].name);
            return -1;
        }
    *(void **)&t->nic_addr = dlsym(handle, "hopbyte_gpcd_nic_addr");
    return 0;
}

/* The context holds all six counters of all 48 tiles; entries are identified by name, because the order of the
 * library's list is not specified. */
static int context_fill(struct gm_tiles *t)
{
    char name[64];
    int row, column, counter;
    t->context = t->create_context();
    for (int i = 0; t->context && i < REGISTERS; i++) {
        snprintf(name, sizeof name, "GM_%d_%d_TILE_PERFORMANCE_COUNTERS_%d", i / GM_COLUMNS / 8, i / GM_COLUMNS % 8,
                 i % GM_COLUMNS);
        gpcd_mmr_desc_t *desc = t->lookup_mmr_byname(name);
        if (!desc || t->context_add_mmr(t->context, desc) != 0) {
            hopbyte_say("gpcd does not know the register %s", name);
            return -1;
        }
    }
    if (!t->context)
        return -1;
    for (gpcd_mmr_list_t *p = t->context->list; p; p = p->next)
        if (sscanf(p->item->name, "GM_%d_%d_TILE_PERFORMANCE_COUNTERS_%d", &row, &column, &counter) == 3)
            t->entries[(row * 8 + column) * GM_COLUMNS + counter] = p;
    return 0;
}

/* --- links of a router --- */

static int key_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct key *)a)->key, y = ((const struct key *)b)->key;
    return (x > y) - (x < y);
}

static void router_keep(struct gm_tiles *t, uint64_t key, const struct gm_router *r)
{
    const struct key *k = bsearch(&(struct key){key, 0}, t->keys, (size_t)t->key_count, sizeof *t->keys, key_compare);
    if (!k)
        return;
    struct gm_router *mine = &t->found[k->domain];
    if (!mine->cname) {
        *mine = *r;
        return;
    }
    for (int i = 0; i < GM_TILES; i++) /* a router's lines may not be contiguous in the file */
        if (r->tiles[i]) {
            int direction = (r->tiles[i] - 1) / 8;
            mine->tiles[i] = r->tiles[i];
            memcpy(mine->remote[direction], r->remote[direction], sizeof r->remote[direction]);
        }
}

/* Keeps a router of this leader, found by cname or coordinates; ignores all others. */
static void router_take(void *context, const struct gm_router *r)
{
    struct gm_tiles *t = context;
    router_keep(t, r->cname, r);
    router_keep(t, UINT64_C(1) << 62 | (uint64_t)r->at[0] << 32 | (uint64_t)r->at[1] << 16 | (uint64_t)r->at[2], r);
}

/* Paper 000, Fig. 3: the eight tiles in the middle serve the host. */
static bool tile_is_host(int tile)
{
    int row = tile / 8, column = tile % 8;
    return row >= 2 && (column == 3 || column == 4);
}

/* Link of a tile, -1 for a tile without one. */
static int tile_link(const struct gm_router *r, int tile)
{
    if (r->tiles[tile])
        return (r->tiles[tile] - 1) / 8;
    return tile_is_host(tile) ? LINK_HOST : -1;
}

static void coordinates_print(char *text, size_t room, const int16_t at[3])
{
    snprintf(text, room, "(%d, %d, %d)", at[0], at[1], at[2]);
}

/* Compacts the directions that have tiles; `place[link]` is the new index of each. */
static int links_lay(struct gm_domain *d, const struct gm_router *r, int place[LINKS])
{
    double speed[LINKS] = {0};
    int tiles[LINKS] = {0};
    for (int tile = 0; tile < GM_TILES; tile++) {
        int link = tile_link(r, tile);
        if (link >= 0) {
            speed[link] += link == LINK_HOST ? gm_host_tile_gb_per_s() : gm_tile_gb_per_s((r->tiles[tile] - 1) % 8);
            tiles[link]++;
        }
    }
    d->links = gm_alloc(LINKS, sizeof *d->links);
    for (int link = 0; d->links && link < LINKS; link++) {
        place[link] = -1;
        if (!tiles[link])
            continue;
        struct gm_link *l = &d->links[d->link_count];
        place[link] = d->link_count++;
        snprintf(l->direction, sizeof l->direction, "%s", gm_directions[link]);
        coordinates_print(l->remote, sizeof l->remote, link == LINK_HOST ? r->at : r->remote[link]);
        l->gb_per_s = speed[link];
    }
    return d->links ? 0 : -1;
}

static int domain_open(struct hopbyte_gm *gm, struct gm_domain *d, const struct gm_router *r)
{
    int place[LINKS];
    if (!r->cname) {
        hopbyte_say("router %s is not in HOPBYTE_GM_INTERCONNECT", d->id);
        return -1;
    }
    coordinates_print(d->title, sizeof d->title, r->at);
    if (gm->tiles->nic_addr)
        d->nic_addr = gm->tiles->nic_addr(d->id);
    d->raw = gm_alloc(REGISTERS, sizeof *d->raw);
    if (!d->raw || links_lay(d, r, place) != 0)
        return -1;
    int bits = (int)hopbyte_env_number("HOPBYTE_GM_BITS", gm_source_facts[GM_GPCD].bits, 8);
    for (int i = 0; i < REGISTERS; i++) {
        int link = tile_link(r, i / GM_COLUMNS);
        if (link >= 0)
            d->raw[i] = (struct gm_raw){.link = (uint8_t)place[link], .column = i % GM_COLUMNS, .bits = (uint8_t)bits};
        else
            d->raw[i].bits = 0; /* no link */
    }
    d->raw_count = REGISTERS;
    return gm_domain_prepare(gm, d);
}

static int keys_make(struct hopbyte_gm *gm)
{
    struct gm_tiles *t = gm->tiles;
    t->found = gm_alloc((size_t)gm->domain_count + 1, sizeof *t->found);
    t->keys = gm_alloc((size_t)gm->domain_count + 1, sizeof *t->keys);
    if (!t->found || !t->keys)
        return -1;
    for (int i = 0; i < gm->domain_count; i++)
        t->keys[i] = (struct key){domain_key(gm->domains[i].id), i};
    t->key_count = gm->domain_count;
    qsort(t->keys, (size_t)t->key_count, sizeof *t->keys, key_compare);
    return 0;
}

int gm_tiles_open(struct hopbyte_gm *gm)
{
    const char *path = getenv("HOPBYTE_GM_INTERCONNECT");
    int status = 0;
    gm->tiles = gm_alloc(1, sizeof *gm->tiles);
    if (!gm->tiles || keys_make(gm) != 0)
        return -1;
    status = gm_topology_spread(gm->leaders, path && *path ? path : "interconnect.txt", gm->verbose, router_take,
                                gm->tiles);
    if (status == 0 && gm->domain_count)
        status = gpcd_bind(gm->tiles) != 0 || context_fill(gm->tiles) != 0 ? -1 : 0;
    for (int i = 0; status == 0 && i < gm->domain_count; i++)
        status = domain_open(gm, &gm->domains[i], &gm->tiles->found[i]);
    gm_free(gm->tiles->found);
    gm_free(gm->tiles->keys);
    gm->tiles->found = NULL;
    gm->tiles->keys = NULL;
    return status;
}

void gm_tiles_read(struct hopbyte_gm *gm, struct gm_domain *d, uint64_t *values, bool *valid)
{
    struct gm_tiles *t = gm->tiles;
    if (t->nic_addr)
        t->context_set_nic_addr(t->context, d->nic_addr);
    bool fine = t->context_read_mmr_vals(t->context) == 0;
    for (int i = 0; i < REGISTERS; i++) {
        valid[i] = fine && t->entries[i];
        values[i] = valid[i] ? t->entries[i]->value : 0;
    }
}

void gm_tiles_close(struct hopbyte_gm *gm)
{
    if (gm->tiles && gm->tiles->context)
        gm->tiles->remove_context(gm->tiles->context);
    gm_free(gm->tiles);
}
