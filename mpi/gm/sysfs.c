/* Sources that are files: InfiniBand, Linux network devices, Slingshot (CXI). One table has the counters' paths. */
#include "gm.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const struct gm_source_facts gm_source_facts[GM_SOURCES] = {
    /* A counter of a tile grows by at most one a cycle of the 800 MHz router. */
    [GM_GPCD] = {"gpcd",
                 {"VC0_PHITS", "VC1_PHITS", "VC0_PKTS", "VC1_PKTS", "INQ_STALLS", "OUTQ_STALLS"},
                 48,
                 800e6},
    [GM_INFINIBAND] = {"infiniband",
                       {"RCV_WORDS", "XMIT_WORDS", "RCV_PKTS", "XMIT_PKTS", "RCV_ERRORS", "XMIT_WAIT"},
                       64,
                       50e9},
    [GM_LINUX] = {"linux", {"RX_BYTES", "TX_BYTES", "RX_PKTS", "TX_PKTS", "RX_DROPPED", "TX_DROPPED"}, 64, 200e9},
    [GM_CXI] = {"cxi", {"RX_BYTES", "TX_BYTES", "RX_PKTS", "TX_PKTS", "RX_PAUSED", "TX_PAUSED"}, 56, 200e9},
};

/* A column is the sum of `count` files, %d running from 0 when it is more than one. */
struct column {
    const char *path;
    int count, bits;
};

static const struct layout {
    const char *devices, *port;
    struct column columns[GM_COLUMNS];
} layouts[GM_SOURCES] = {
    [GM_INFINIBAND] = {"class/infiniband",
                       "ports",
                       {{"counters/port_rcv_data", 1, 64},
                        {"counters/port_xmit_data", 1, 64},
                        {"counters/port_rcv_packets", 1, 64},
                        {"counters/port_xmit_packets", 1, 64},
                        {"counters/port_rcv_errors", 1, 16},
                        {"counters/port_xmit_wait", 1, 32}}},
    [GM_LINUX] = {"class/net",
                  NULL,
                  {{"statistics/rx_bytes", 1, 64},
                   {"statistics/tx_bytes", 1, 64},
                   {"statistics/rx_packets", 1, 64},
                   {"statistics/tx_packets", 1, 64},
                   {"statistics/rx_dropped", 1, 64},
                   {"statistics/tx_dropped", 1, 64}}},
    [GM_CXI] = {"class/cxi",
                NULL,
                {{"device/telemetry/hni_sts_rx_ok_octets", 1, 56},
                 {"device/telemetry/hni_sts_tx_ok_octets", 1, 56},
                 {"device/telemetry/hni_pkts_recv_by_tc_%d", 8, 56},
                 {"device/telemetry/hni_pkts_sent_by_tc_%d", 8, 56},
                 {"device/telemetry/hni_rx_paused_%d", 8, 56},
                 {"device/telemetry/hni_tx_paused_%d", 8, 56}}},
};

static const char *sysfs_root(void)
{
    const char *root = getenv("HOPBYTE_GM_ROOT");
    return root && *root ? root : "/sys";
}

/* Names in a folder, sorted, without dot files and those that the caller excludes. */
static int folder_list(const char *path, bool (*wanted)(const char *), char (**names)[GM_NAME_BYTES], int *count)
{
    struct dirent **entries;
    int found = scandir(path, &entries, NULL, alphasort), status = 0;
    if (found < 0)
        return -1;
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        if (status == 0 && *name != '.' && strlen(name) < GM_NAME_BYTES && (!wanted || wanted(name)))
            status = gm_names_add(names, count, name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static bool not_loopback(const char *name)
{
    return strcmp(name, "lo") != 0 && strcmp(name, "bonding_masters") != 0;
}

static bool text_read(const char *path, char *text, size_t room)
{
    FILE *in = fopen(path, "r");
    bool fine = in && fgets(text, (int)room, in);
    if (in)
        fclose(in);
    if (fine)
        text[strcspn(text, "\r\n")] = 0;
    return fine;
}

/* --- domains: a card is HOST:DEVICE, the interfaces of a host are one domain --- */

int gm_sysfs_domains(enum gm_source source, const char *host, char (**ids)[GM_NAME_BYTES], int *count)
{
    char path[PATH_MAX], id[GM_NAME_BYTES], (*devices)[GM_NAME_BYTES] = NULL;
    int device_count = 0;
    snprintf(path, sizeof path, "%s/%s", sysfs_root(), layouts[source].devices);
    if (folder_list(path, not_loopback, &devices, &device_count) != 0 && source == GM_LINUX) {
        hopbyte_say("cannot list %s: %s", path, strerror(errno));
        return -1;
    }
    int status = 0;
    if (source == GM_LINUX) {
        snprintf(id, sizeof id, "%.63s", host);
        status = device_count ? gm_names_add(ids, count, id) : 0;
    }
    for (int i = 0; source != GM_LINUX && status == 0 && i < device_count; i++) {
        snprintf(id, sizeof id, "%.30s:%.31s", host, devices[i]);
        status = gm_names_add(ids, count, id);
    }
    gm_free(devices);
    return status;
}

/* --- links --- */

/* `100 Gb/sec (4X EDR)`, or Mbit/s as a number; 0 when unknown. */
static double speed_read(const char *folder)
{
    char path[PATH_MAX], text[128];
    double speed;
    snprintf(path, sizeof path, "%s/rate", folder);
    if (text_read(path, text, sizeof text) && sscanf(text, "%lf Gb/sec", &speed) == 1)
        return speed / 8;
    snprintf(path, sizeof path, "%s/speed", folder);
    if (text_read(path, text, sizeof text) && sscanf(text, "%lf", &speed) == 1 && speed > 0)
        return speed / 8000;
    return 0;
}

static int raw_add(struct gm_domain *d, const char *folder, const struct column *column, int number, int which)
{
    struct gm_raw *raw = gm_grow(d->raw, (size_t)d->raw_count + 1, sizeof *raw);
    char **paths = gm_grow(d->paths, (size_t)d->raw_count + 1, sizeof *paths), file[PATH_MAX], leaf[128];
    if (raw)
        d->raw = raw;
    if (paths)
        d->paths = paths;
    if (!raw || !paths)
        return -1;
    snprintf(leaf, sizeof leaf, column->path, which);
    size_t length = (size_t)snprintf(file, sizeof file, "%s/%s", folder, leaf);
    if (length >= sizeof file || !(paths[d->raw_count] = gm_alloc(length + 1, 1)))
        return -1;
    memcpy(paths[d->raw_count], file, length + 1);
    raw[d->raw_count] = (struct gm_raw){
        .link = (uint8_t)(d->link_count - 1), .column = (uint8_t)number, .bits = (uint8_t)column->bits};
    d->raw_count++;
    return 0;
}

static int link_add(const struct layout *layout, struct gm_domain *d, const char *name, const char *folder)
{
    if (d->link_count == 255)
        return 0; /* a host with more interfaces than that is not a compute node */
    struct gm_link *links = gm_grow(d->links, (size_t)d->link_count + 1, sizeof *links);
    if (!links)
        return -1;
    d->links = links;
    links[d->link_count] = (struct gm_link){.remote = "-", .gb_per_s = speed_read(folder)};
    snprintf(links[d->link_count++].direction, GM_DIRECTION_BYTES, "%.15s", name);
    for (int i = 0; i < GM_COLUMNS; i++)
        for (int k = 0; k < layout->columns[i].count; k++)
            if (raw_add(d, folder, &layout->columns[i], i, k) != 0)
                return -1;
    return 0;
}

/* All interfaces of this host, or all ports of one card, or the card itself. */
static int domain_open(struct hopbyte_gm *gm, struct gm_domain *d)
{
    const struct layout *layout = &layouts[gm->source];
    const char *device = strchr(d->id, ':');
    char base[PATH_MAX], folder[2 * PATH_MAX], (*names)[GM_NAME_BYTES] = NULL;
    int count = 0, status = 0;
    snprintf(d->title, sizeof d->title, "%s", d->id);
    if (gm->source == GM_CXI) {
        snprintf(folder, sizeof folder, "%s/%s/%s", sysfs_root(), layout->devices, device + 1);
        status = link_add(layout, d, device + 1, folder);
        return status == 0 ? gm_domain_prepare(gm, d) : -1;
    }
    if (layout->port)
        snprintf(base, sizeof base, "%s/%s/%s/%s", sysfs_root(), layout->devices, device + 1, layout->port);
    else
        snprintf(base, sizeof base, "%s/%s", sysfs_root(), layout->devices);
    if (folder_list(base, not_loopback, &names, &count) != 0) {
        hopbyte_say("cannot list %s: %s", base, strerror(errno));
        status = -1;
    }
    for (int i = 0; status == 0 && i < count; i++) {
        snprintf(folder, sizeof folder, "%s/%s", base, names[i]);
        status = link_add(layout, d, names[i], folder);
    }
    gm_free(names);
    return status == 0 ? gm_domain_prepare(gm, d) : -1;
}

int gm_sysfs_open(struct hopbyte_gm *gm)
{
    for (int i = 0; i < gm->domain_count; i++)
        if (domain_open(gm, &gm->domains[i]) != 0)
            return -1;
    return 0;
}

/* CXI writes `value@time`; the others write the value alone. */
static bool value_read(const char *path, uint64_t *value)
{
    char text[64], *end;
    if (!text_read(path, text, sizeof text) || !isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && (*end == 0 || *end == '@');
}

static bool raw_sticks(const struct gm_raw *raw)
{
    return raw->bits == 16 || raw->bits == 32; /* the narrow InfiniBand counters stick at their largest value */
}

void gm_sysfs_read(struct gm_domain *d, uint64_t *values, bool *valid)
{
    for (int i = 0; i < d->raw_count; i++) {
        valid[i] = value_read(d->paths[i], &values[i]);
        if (raw_sticks(&d->raw[i]) && values[i] >= (UINT64_C(1) << d->raw[i].bits) - 1)
            valid[i] = false;
    }
}
