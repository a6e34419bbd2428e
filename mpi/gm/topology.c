/* The interconnect: read by rank 0 from `rtr --interconnect`, broadcast to the leaders compressed.
 *
 * A line names one tile's link (paper 000, Fig. 2):
 *   c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)]   LinkType: backplane
 * The lines of a router are contiguous. Sent for each router: its cname and coordinates, the number of its tile
 * pattern (direction and kind of link of each tile; a pattern is sent when first used), and the far end of each
 * direction, which takes no bytes when it is one step away. Cielo's 14 MB become some 110 kB. */
#include "gm.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

const char gm_directions[7][3] = {"X+", "X-", "Y+", "Y-", "Z+", "Z-", "HH"};

/* Mezzanine, backplane, cable and host tiles: 6.25, 5.0, 3.125 and 3.467 GB/s × 3/8. Paper 000, Table II prints them
 * rounded; Fig. 4 needs these. */
enum kind { KIND_MEZZANINE, KIND_BACKPLANE, KIND_CABLE };
static const double tile_gb_per_s[] = {6.25 * 3 / 8, 5.0 * 3 / 8, 3.125 * 3 / 8};

double gm_tile_gb_per_s(int kind)
{
    return tile_gb_per_s[kind];
}

double gm_host_tile_gb_per_s(void)
{
    return 3.467 * 3 / 8;
}

/* --- reading --- */

/* `c0-0c0s0g0` into one number, 0 for any other text; `end` points behind it. */
uint64_t gm_cname_pack(const char *text, const char **end)
{
    unsigned column, row, cage, slot, chip;
    int used = 0;
    if (sscanf(text, "c%u-%uc%us%ug%u%n", &column, &row, &cage, &slot, &chip, &used) != 5 || !used || column > 0xffff ||
        row > 0xff || cage > 0xff || slot > 0xff || chip > 0xff)
        return 0;
    if (end)
        *end = text + used;
    return UINT64_C(1) << 63 | (uint64_t)column << 32 | (uint64_t)row << 24 | cage << 16 | slot << 8 | chip;
}

/* `c0-0c0s0g0l32[(0,0,1)]`; false when it is anything else. */
static bool end_parse(const char **text, uint64_t *cname, int *tile, int16_t at[3])
{
    int row, column, x, y, z, used = 0;
    *text += strspn(*text, " \t");
    *cname = gm_cname_pack(*text, text);
    if (!*cname || sscanf(*text, "l%1d%1d[(%d,%d,%d)]%n", &row, &column, &x, &y, &z, &used) != 5 || !used)
        return false;
    if (row < 0 || row > 5 || column < 0 || column > 7 || x < 0 || y < 0 || z < 0 || x > 0x7fff || y > 0x7fff ||
        z > 0x7fff)
        return false;
    *text += used;
    *tile = row * 8 + column;
    at[0] = (int16_t)x;
    at[1] = (int16_t)y;
    at[2] = (int16_t)z;
    return true;
}

static int direction_parse(const char *word)
{
    for (int i = 0; i < 6; i++)
        if (strcmp(word, gm_directions[i]) == 0)
            return i;
    return -1;
}

static int kind_parse(const char *word)
{
    if (strncmp(word, "mezz", 4) == 0)
        return KIND_MEZZANINE;
    if (strncmp(word, "back", 4) == 0)
        return KIND_BACKPLANE;
    return strncmp(word, "cable", 5) == 0 ? KIND_CABLE : -1;
}

struct tile_line {
    uint64_t cname, far_cname;
    int16_t at[3], remote[3];
    int tile, far_tile, direction, kind;
};

static bool line_parse(const char *text, struct tile_line *line)
{
    char direction[8], arrow[8], label[16], kind[32];
    int used = 0;
    if (!end_parse(&text, &line->cname, &line->tile, line->at) ||
        sscanf(text, "%7s %7s%n", direction, arrow, &used) != 2 || strcmp(arrow, "->") != 0)
        return false;
    text += used;
    line->direction = direction_parse(direction);
    if (line->direction < 0 || !end_parse(&text, &line->far_cname, &line->far_tile, line->remote) ||
        sscanf(text, "%15s %31s", label, kind) != 2)
        return false;
    line->kind = kind_parse(kind);
    return line->kind >= 0;
}

/* --- sending --- */

enum { BLOCK_BYTES = 1 << 16, RECORD_BYTES_MAX = 8 + 6 + 2 + GM_TILES + 1 + 36, PATTERNS_MAX = 0xffff };

struct sender {
    MPI_Comm leaders;
    unsigned char block[BLOCK_BYTES];
    int used;
    uint8_t (*patterns)[GM_TILES];
    int pattern_count, pattern_room;
    uint64_t bytes, blocks, lines, routers;
    void (*take)(void *, const struct gm_router *);
    void *context;
};

static void block_send(struct sender *s)
{
    if (!s->used)
        return;
    NEXT(Bcast)(&s->used, 1, MPI_INT, 0, s->leaders);
    NEXT(Bcast)(s->block, s->used, MPI_BYTE, 0, s->leaders);
    s->bytes += (uint64_t)s->used;
    s->blocks++;
    s->used = 0;
}

static void put(struct sender *s, const void *data, size_t bytes)
{
    memcpy(s->block + s->used, data, bytes);
    s->used += (int)bytes;
}

/* One step along the direction, without wrap-around. */
static void step_along(const struct gm_router *r, int direction, int16_t to[3])
{
    memcpy(to, r->at, 3 * sizeof *to);
    to[direction / 2] = (int16_t)(to[direction / 2] + (direction % 2 ? -1 : 1));
}

static int pattern_number(struct sender *s, const uint8_t tiles[GM_TILES], bool *fresh)
{
    *fresh = false;
    for (int i = 0; i < s->pattern_count; i++)
        if (memcmp(s->patterns[i], tiles, GM_TILES) == 0)
            return i;
    if (s->pattern_count == s->pattern_room) {
        int room = s->pattern_room ? 2 * s->pattern_room : 64;
        uint8_t(*more)[GM_TILES] = gm_grow(s->patterns, (size_t)room, GM_TILES);
        if (!more || s->pattern_count == PATTERNS_MAX)
            return -1;
        s->patterns = more;
        s->pattern_room = room;
    }
    memcpy(s->patterns[s->pattern_count], tiles, GM_TILES);
    *fresh = true;
    return s->pattern_count++;
}

static bool has_direction(const struct gm_router *r, int direction)
{
    for (int t = 0; t < GM_TILES; t++)
        if (r->tiles[t] && (r->tiles[t] - 1) / 8 == direction)
            return true;
    return false;
}

static int router_send(struct sender *s, const struct gm_router *r)
{
    bool fresh;
    int number = pattern_number(s, r->tiles, &fresh);
    if (number < 0)
        return -1;
    s->take(s->context, r);
    s->routers++;
    if (s->used + RECORD_BYTES_MAX > BLOCK_BYTES)
        block_send(s);
    uint16_t pattern = (uint16_t)number;
    uint8_t far = 0;
    for (int d = 0; d < 6; d++) {
        int16_t near[3];
        step_along(r, d, near);
        if (has_direction(r, d) && memcmp(near, r->remote[d], sizeof near) != 0)
            far |= (uint8_t)(1 << d);
    }
    put(s, &r->cname, sizeof r->cname);
    put(s, r->at, sizeof r->at);
    put(s, &pattern, sizeof pattern);
    if (fresh)
        put(s, r->tiles, GM_TILES);
    put(s, &far, 1);
    for (int d = 0; d < 6; d++)
        if (far >> d & 1)
            put(s, r->remote[d], sizeof r->remote[d]);
    return 0;
}

static int lines_send(struct sender *s, FILE *in, const char *path)
{
    struct gm_router r = {0};
    char line[1024];
    int number = 0, status = 0;
    while (status == 0 && fgets(line, sizeof line, in)) {
        struct tile_line t;
        number++;
        if (line[strspn(line, " \t\r\n")] == 0 || *line == '#')
            continue;
        if (!line_parse(line, &t)) {
            line[strcspn(line, "\r\n")] = 0;
            hopbyte_say("%s:%d: found \"%.80s\", expected a line of `rtr --interconnect` such as "
                        "\"c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\"",
                        path, number, line);
            return -1;
        }
        if (t.cname != r.cname) {
            if (r.cname)
                status = router_send(s, &r);
            r = (struct gm_router){.cname = t.cname};
            memcpy(r.at, t.at, sizeof r.at);
        }
        r.tiles[t.tile] = (uint8_t)(t.direction * 8 + t.kind + 1);
        memcpy(r.remote[t.direction], t.remote, sizeof t.remote);
        s->lines++;
    }
    if (status == 0 && r.cname)
        status = router_send(s, &r);
    if (status == 0 && ferror(in)) {
        hopbyte_say("cannot read %s: %s", path, strerror(errno));
        status = -1;
    }
    return status;
}

static int topology_send(struct sender *s, const char *path, bool verbose)
{
    FILE *in = fopen(path, "r");
    int status = -1;
    if (!in) {
        hopbyte_say("cannot open %s: %s", path, strerror(errno));
    } else {
        status = lines_send(s, in, path);
        block_send(s);
    }
    int last = status == 0 ? 0 : -1;
    NEXT(Bcast)(&last, 1, MPI_INT, 0, s->leaders);
    if (verbose && status == 0) {
        long size = ftell(in);
        hopbyte_say("%s: %" PRIu64 " lines, %" PRIu64 " routers; %ld bytes read, %" PRIu64 " sent in %" PRIu64
                    " blocks, %d tile patterns",
                    path, s->lines, s->routers, size, s->bytes, s->blocks, s->pattern_count);
    }
    if (in)
        fclose(in);
    return status;
}

/* --- receiving --- */

static void get(const unsigned char **at, void *data, size_t bytes)
{
    memcpy(data, *at, bytes);
    *at += bytes;
}

static int block_take(struct sender *s)
{
    for (const unsigned char *at = s->block, *end = s->block + s->used; at < end;) {
        struct gm_router r = {0};
        uint16_t pattern;
        uint8_t far;
        bool fresh;
        get(&at, &r.cname, sizeof r.cname);
        get(&at, r.at, sizeof r.at);
        get(&at, &pattern, sizeof pattern);
        if (pattern == s->pattern_count) {
            uint8_t tiles[GM_TILES];
            get(&at, tiles, GM_TILES);
            if (pattern_number(s, tiles, &fresh) < 0)
                return -1;
        }
        memcpy(r.tiles, s->patterns[pattern], GM_TILES);
        get(&at, &far, 1);
        for (int d = 0; d < 6; d++)
            if (far >> d & 1)
                get(&at, r.remote[d], sizeof r.remote[d]);
            else
                step_along(&r, d, r.remote[d]);
        s->take(s->context, &r);
    }
    return 0;
}

/* A leader that runs out of memory still takes part in every broadcast. */
static int topology_receive(struct sender *s)
{
    int status = 0;
    for (;;) {
        NEXT(Bcast)(&s->used, 1, MPI_INT, 0, s->leaders);
        if (s->used <= 0)
            return s->used < 0 ? -1 : status;
        NEXT(Bcast)(s->block, s->used, MPI_BYTE, 0, s->leaders);
        if (status == 0)
            status = block_take(s);
    }
}

int gm_topology_spread(MPI_Comm leaders, const char *path, bool verbose,
                       void (*take)(void *, const struct gm_router *), void *context)
{
    int rank;
    struct sender *s = gm_alloc(1, sizeof *s);
    if (!s)
        return -1;
    s->leaders = leaders;
    s->take = take;
    s->context = context;
    NEXT(Comm_rank)(leaders, &rank);
    int status = rank == 0 ? topology_send(s, path, verbose) : topology_receive(s);
    gm_free(s->patterns);
    gm_free(s);
    return status;
}
