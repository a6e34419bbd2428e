/* From raw counters to running totals of links, and differences of samples. */
#include "gm.h"

#include <string.h>
#include <time.h>

double gm_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static size_t cells_of(const struct gm_domain *domain)
{
    return (size_t)domain->link_count * GM_COLUMNS;
}

int gm_domain_prepare(struct hopbyte_gm *gm, struct gm_domain *domain)
{
    domain->now = gm_alloc(cells_of(domain), sizeof *domain->now);
    domain->samples = gm_alloc(cells_of(domain) * (size_t)gm->sample_room, sizeof *domain->samples);
    return domain->now && domain->samples ? 0 : -1;
}

void gm_domain_free(struct gm_domain *domain)
{
    for (int i = 0; domain->paths && i < domain->raw_count; i++)
        gm_free(domain->paths[i]);
    gm_free(domain->paths);
    gm_free(domain->links);
    gm_free(domain->raw);
    gm_free(domain->now);
    gm_free(domain->samples);
}

static uint64_t modulus_mask(int bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* A counter that decreased has wrapped if the increase was possible in the elapsed time; otherwise it was reset. */
static enum gm_why decrease_explain(enum gm_source source, const struct gm_raw *raw, uint64_t value, double seconds)
{
    uint64_t way = (value - raw->last) & modulus_mask(raw->bits);
    if (raw->last > modulus_mask(raw->bits))
        return GM_RESET;
    return (double)way <= gm_source_facts[source].most_per_second * seconds ? GM_WRAP : GM_RESET;
}

static void cell_break(struct gm_cell *cell, enum gm_why why)
{
    cell->breaks++;
    cell->why = (uint8_t)why;
}

static void raw_fold(const struct hopbyte_gm *gm, struct gm_domain *domain, struct gm_raw *raw, uint64_t value,
                     bool valid, double seconds)
{
    if (!raw->bits)
        return;
    struct gm_cell *cell = &domain->now[raw->link * GM_COLUMNS + raw->column];
    if (!valid) {
        cell_break(cell, GM_UNREAD);
        raw->known = false;
        return;
    }
    if (!raw->known) {
        if (gm->sample_count)
            cell_break(cell, GM_UNREAD); /* the increase since the last good read is lost */
    } else if (value >= raw->last) {
        cell->total += value - raw->last;
    } else {
        enum gm_why why = decrease_explain(gm->source, raw, value, seconds);
        if (why == GM_WRAP && gm->unwrap)
            cell->total += (value - raw->last) & modulus_mask(raw->bits);
        else
            cell_break(cell, why);
    }
    raw->last = value;
    raw->known = true;
}

void gm_domain_refresh(struct hopbyte_gm *gm, struct gm_domain *domain)
{
    uint64_t values[domain->raw_count + 1];
    bool valid[domain->raw_count + 1];
    if (gm->source == GM_GPCD)
        gm_tiles_read(gm, domain, values, valid);
    else
        gm_sysfs_read(domain, values, valid);
    double now = gm_seconds(), since = now - domain->read_at;
    for (int i = 0; i < domain->raw_count; i++)
        raw_fold(gm, domain, &domain->raw[i], values[i], valid[i], since);
    domain->read_at = now;
}

int gm_domain_read(struct hopbyte_gm *gm, struct gm_domain *domain)
{
    gm_pvars_lock();
    gm_domain_refresh(gm, domain);
    gm_pvars_unlock();
    size_t cells = cells_of(domain), at = (size_t)(gm->sample_count % (uint64_t)gm->sample_room);
    memcpy(domain->samples + at * cells, domain->now, cells * sizeof *domain->now);
    return 0;
}

void gm_domain_between(const struct hopbyte_gm *gm, const struct gm_domain *domain, int older, int newer,
                       struct gm_delta *out)
{
    size_t cells = cells_of(domain), room = (size_t)gm->sample_room;
    const struct gm_cell *from = domain->samples + (gm->sample_count - 1 - (uint64_t)older) % room * cells;
    const struct gm_cell *to = domain->samples + (gm->sample_count - 1 - (uint64_t)newer) % room * cells;
    for (size_t i = 0; i < cells; i++) {
        bool fine = from[i].breaks == to[i].breaks;
        out[i] = (struct gm_delta){fine ? to[i].total - from[i].total : 0, fine ? GM_FINE : to[i].why};
    }
}
