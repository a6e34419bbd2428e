/* Reductions to all members: choice of the algorithm, and its execution. */
#include "state.h"

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reduce_settings reduce_settings = {.large = -1, .smp = -1, .cutoff = 16384, .forced = -1};

/* --- settings --- */

static bool switch_read(const char *name, int *value)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return true;
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        shmem_say("%s=\"%s\": expected 0 or 1", name, text);
        return false;
    }
    *value = *text - '0';
    return true;
}

bool reduce_settings_read(void)
{
    const char *forced = getenv("HOPBYTE_SHMEM_REDUCE"), *cutoff = getenv("SHMEM_REDUCE_CUTOFF_SIZE");
    const char *sets = getenv("HOPBYTE_SHMEM_ACTIVE_SETS");
    uint64_t bytes = 16384;
    if (!switch_read("SHMEM_USE_LARGE_OPT_REDUCE", &reduce_settings.large) ||
        !switch_read("SHMEM_TEAM_SMP_REDUCE", &reduce_settings.smp))
        return false;
    if (cutoff && *cutoff && !settings_bytes(cutoff, &bytes)) {
        shmem_say("SHMEM_REDUCE_CUTOFF_SIZE=\"%s\": expected bytes, with K, M or G", cutoff);
        return false;
    }
    reduce_settings.cutoff = (size_t)bytes;
    if (sets && *sets && strcmp(sets, "hopbyte") != 0 && strcmp(sets, "library") != 0) {
        shmem_say("HOPBYTE_SHMEM_ACTIVE_SETS=\"%s\": expected hopbyte or library", sets);
        return false;
    }
    reduce_settings.library = sets && strcmp(sets, "library") == 0;
    if (!forced || !*forced || strcmp(forced, "auto") == 0)
        return true;
    for (int i = 0; i < 2 * SCHEDULE_KINDS; i++) {
        struct schedule s = {.kind = i % SCHEDULE_KINDS, .smp = i >= SCHEDULE_KINDS};
        if (strcmp(forced, schedule_name(&s)) == 0) {
            reduce_settings.forced = i;
            return true;
        }
    }
    shmem_say("HOPBYTE_SHMEM_REDUCE=\"%s\": expected auto, doubling, halving, ring, smp-doubling, smp-halving or smp-ring",
              forced);
    return false;
}

/* --- choice --- */

static bool allowed(const struct schedule *s, size_t bytes)
{
    const struct schedule_places *p = s->places;
    bool smp_makes_sense = p->most > 1 && p->nodes > 1;
    if (reduce_settings.forced >= 0)
        return (int)s->kind + SCHEDULE_KINDS * s->smp == reduce_settings.forced;
    if (reduce_settings.smp >= 0 && s->smp != (reduce_settings.smp && smp_makes_sense))
        return false;
    if (s->smp && !smp_makes_sense)
        return false;
    bool large = reduce_settings.large == 1 && bytes >= reduce_settings.cutoff;
    return reduce_settings.large < 0 || large == (s->kind != SCHEDULE_DOUBLING);
}

static void plan_find(struct team *t, size_t element, size_t count, struct plan *best)
{
    *best = (struct plan){.bytes = element * count, .element = element, .seconds = -1};
    for (int i = 0; i < 2 * SCHEDULE_KINDS; i++) {
        struct schedule s = {i % SCHEDULE_KINDS, i >= SCHEDULE_KINDS, count, &t->places};
        if (!allowed(&s, element * count))
            continue;
        double seconds = cost_seconds(&s, element, &hopbyte_shmem.rates);
        if (seconds < 0)
            shmem_fail("no memory to choose a reduction");
        if (best->seconds < 0 || seconds < best->seconds) {
            best->seconds = seconds;
            best->schedule = s;
        }
    }
}

static struct plan *plan_of(struct team *t, size_t element, size_t count)
{
    for (int i = 0; i < PLANS; i++)
        if (t->plans[i].element == element && t->plans[i].bytes == element * count)
            return &t->plans[i];
    if (!team_places(t))
        shmem_fail("no memory for the nodes of %d PEs", t->size);
    struct plan *plan = &t->plans[t->next_plan++ % PLANS];
    plan_find(t, element, count, plan);
    if (hopbyte_shmem.verbose && t->me == 0)
        shmem_say("reduction of %zu bytes, %d PEs on %d nodes: %s, predicted %.3g ms (%s)", element * count, t->size,
                  t->places.nodes, schedule_name(&plan->schedule), 1e3 * plan->seconds, hopbyte_shmem.rates_from);
    return plan;
}

int hopbyte_shmem_explain(shmem_team_t team, size_t element, size_t count, char *text, size_t room)
{
    struct team *t = team_of(team, "hopbyte_shmem_explain");
    size_t used = 0;
    if (!team_places(t))
        return -1;
    struct plan best;
    plan_find(t, element, count, &best);
    for (int i = 0; i < 2 * SCHEDULE_KINDS; i++) {
        struct schedule s = {i % SCHEDULE_KINDS, i >= SCHEDULE_KINDS, count, &t->places};
        bool chosen = s.kind == best.schedule.kind && s.smp == best.schedule.smp;
        if (used < room)
            used += (size_t)snprintf(text + used, room - used, "%s %.9g s, %d rounds%s\n", schedule_name(&s),
                                     cost_seconds(&s, element, &hopbyte_shmem.rates), schedule_rounds(&s),
                                     chosen ? ", chosen" : "");
    }
    return used < room ? 0 : -1;
}

/* --- execution of one block --- */

struct run {
    struct team *team;
    struct schedule schedule;
    const struct fold *fold;
    char *dest;
    size_t half;      /* bytes of a half of the stage; rounds use them in turn */
    int granted;      /* rounds below this one have their permission */
    int waiting[2];   /* round of each half that was granted and not folded yet, -1 none */
};

static bool is_small(const struct run *r, size_t count)
{
    return count * r->fold->size <= CELL_BYTES;
}

/* Permissions ahead of need: the next round of each half of the stage as soon as the half is free. */
static void grant(struct run *r, int rounds)
{
    for (; r->granted < rounds; r->granted++) {
        struct schedule_step step;
        schedule_step(&r->schedule, r->team->me, r->granted, &step);
        if (!step.fold || step.from < 0 || !step.receive_count || is_small(r, step.receive_count))
            continue;
        if (r->waiting[r->granted % 2] >= 0)
            return;
        r->waiting[r->granted % 2] = r->granted;
        channel_grant(team_pe(r->team, step.from));
    }
}

static void send_piece(struct run *r, const struct schedule_step *step, int round)
{
    int pe = team_pe(r->team, step->to);
    char *piece = r->dest + step->send_at * r->fold->size;
    size_t bytes = step->send_count * r->fold->size;
    if (!step->fold)
        channel_send(pe, piece, piece, bytes);
    else if (is_small(r, step->send_count))
        channel_send_cell(pe, piece, bytes);
    else
        channel_send_stage(pe, (size_t)(round % 2) * r->half, piece, bytes);
}

static void receive_piece(struct run *r, const struct schedule_step *step, int round)
{
    int pe = team_pe(r->team, step->from);
    char *piece = r->dest + step->receive_at * r->fold->size;
    if (!step->fold) {
        channel_receive(pe);
    } else if (is_small(r, step->receive_count)) {
        r->fold->apply(piece, channel_receive_cell(pe), step->receive_count);
        channel_free_cell(pe);
    } else {
        channel_receive(pe);
        r->fold->apply(piece, (char *)channel_stage() + (size_t)(round % 2) * r->half, step->receive_count);
        r->waiting[round % 2] = -1;
    }
}

static void run_block(struct run *r)
{
    int rounds = schedule_rounds(&r->schedule);
    r->granted = 0;
    r->waiting[0] = r->waiting[1] = -1;
    for (int round = 0; round < rounds; round++) {
        struct schedule_step step;
        schedule_step(&r->schedule, r->team->me, round, &step);
        grant(r, rounds);
        bool sends = step.to >= 0 && step.send_count, receives = step.from >= 0 && step.receive_count;
        if (sends)
            send_piece(r, &step, round);
        if (receives)
            receive_piece(r, &step, round);
        hopbyte_shmem_counters.rounds += sends || receives;
    }
}

/* The most elements whose pieces fit half of the stage. */
static size_t block_count(const struct run *r, size_t count)
{
    struct schedule s = r->schedule;
    s.count = count;
    while (s.count > 1 && schedule_piece(&s) * r->fold->size > r->half)
        s.count = (s.count + 1) / 2;
    return s.count;
}

int reduce_team(struct team *t, const char *call, void *dest, const void *source, size_t count, const struct fold *fold)
{
    static const char *const names[] = {"nreduce", "the type", "the operation"};
    shmem_enter(call);
    int64_t type = 0, operation = 0;
    memcpy(&type, fold->type, strnlen(fold->type, 8));
    memcpy(&operation, fold->name, strnlen(fold->name, 8));
    check_if_asked(t, call, names, (int64_t[]){(int64_t)count, type, operation}, 3);
    if (dest != source)
        memmove(dest, source, count * fold->size);
    hopbyte_shmem_counters.collectives++;
    if (t->size > 1 && count) {
        struct run r = {.team = t, .fold = fold, .half = hopbyte_shmem.stage_bytes / 128 * 64};
        r.schedule = plan_of(t, fold->size, count)->schedule;
        size_t block = block_count(&r, count);
        for (size_t at = 0; at < count; at += block) {
            r.dest = (char *)dest + at * fold->size;
            r.schedule.count = count - at < block ? count - at : block;
            run_block(&r);
        }
    }
    shmem_leave();
    return 0;
}

int hopbyte_reduce(shmem_team_t team, void *dest, const void *source, size_t count, const struct fold *fold)
{
    if (!team)
        return -1;
    return reduce_team(team_mine(team, "team reduction"), "team reduction", dest, source, count, fold);
}

void hopbyte_reduce_active(void *dest, const void *source, int count, int start, int log_stride, int size, void *work,
                           long *sync, const struct fold *fold, const char *name)
{
    typedef void to_all(void *, const void *, int, int, int, int, void *, long *);
    if (reduce_settings.library || !hopbyte_shmem.on) {
        ((to_all *)shmem_next(name))(dest, source, count, start, log_stride, size, work, sync);
        return;
    }
    if (count < 0)
        shmem_fail("%s: nreduce %d", name, count);
    reduce_team(team_active(start, log_stride, size, name), name, dest, source, (size_t)count, fold);
}
