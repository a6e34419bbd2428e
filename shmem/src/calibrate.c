/* Measured rates for the cost model: PE 0 with the first PE of another node, and with the next on its own. */
#include "state.h"

#include <shmem.h>
#include <stdlib.h>
#include <string.h>

enum { PINGS = 20 };

static void ping(int pe, bool first)
{
    char byte = 0;
    if (first)
        channel_send_cell(pe, &byte, 1);
    channel_receive_cell(pe);
    channel_free_cell(pe);
    if (!first)
        channel_send_cell(pe, &byte, 1);
}

/* Seconds from sending `bytes` into the stage of the other PE to its answer. */
static double stream(int pe, bool first, size_t bytes, int times)
{
    char byte = 0;
    double start = shmem_now();
    for (int i = 0; i < times; i++)
        if (first) {
            channel_send_stage(pe, 0, channel_stage(), bytes);
        } else {
            channel_grant(pe);
            channel_receive(pe);
        }
    if (first) {
        channel_receive_cell(pe);
        channel_free_cell(pe);
    } else {
        channel_send_cell(pe, &byte, 1);
    }
    return shmem_now() - start;
}

/* At both PEs; the result counts at the first. Sizes grow until a transfer takes 30 ms or fills the stage, so that a burst
 * that a shaped link lets through at once weighs little. */
static void measure(int pe, bool first, double *latency, double *bandwidth)
{
    double best = 1e9;
    for (int i = 0; i < PINGS; i++) {
        double start = shmem_now();
        ping(pe, first);
        double seconds = (shmem_now() - start) / 2;
        best = seconds < best ? seconds : best;
    }
    size_t most = hopbyte_shmem.stage_bytes;
    double seconds = 0;
    size_t bytes = most < 65536 ? most : 65536;
    for (;; bytes = bytes * 4 < most ? bytes * 4 : most) {
        seconds = stream(pe, first, bytes, 1);
        char enough = seconds > 0.1 || bytes == most;
        if (first) {
            channel_send_cell(pe, &enough, 1);
        } else {
            enough = *(const char *)channel_receive_cell(pe);
            channel_free_cell(pe);
        }
        if (enough)
            break;
    }
    *latency = best;
    seconds -= 2 * best;
    *bandwidth = (double)bytes / (seconds > 1e-9 ? seconds : 1e-9);
}

static double fold_rate(void)
{
    enum { COUNT = 1 << 15 };
    double *a = calloc(2 * COUNT, sizeof *a), best = 1e9;
    if (!a)
        return hopbyte_shmem.rates.fold_bandwidth;
    for (int k = 0; k < 8; k++) {
        double start = shmem_now();
        for (int i = 0; i < COUNT; i++)
            a[i] += a[COUNT + i] * 0.5;
        double seconds = shmem_now() - start;
        best = seconds < best ? seconds : best;
        __asm__ volatile("" : : "r"(a) : "memory");
    }
    free(a);
    return COUNT * sizeof(double) / (best > 1e-9 ? best : 1e-9);
}

void hopbyte_shmem_calibrate(void)
{
    struct cost_rates *r = &hopbyte_shmem.rates;
    int inside = -1, outside = -1, me = hopbyte_shmem.me;
    shmem_enter("hopbyte_shmem_calibrate");
    for (int pe = hopbyte_shmem.pes - 1; pe > 0; pe--)
        *(hopbyte_shmem.node[pe] == hopbyte_shmem.node[0] ? &inside : &outside) = pe;
    if (inside >= 0 && (me == 0 || me == inside))
        measure(me ? 0 : inside, me == 0, &r->node_latency, &r->node_bandwidth);
    if (outside >= 0 && (me == 0 || me == outside))
        measure(me ? 0 : outside, me == 0, &r->network_latency, &r->network_bandwidth);
    if (me == 0)
        r->fold_bandwidth = fold_rate();
    shmem_leave();
    /* The same rates at all PEs, so that all choose alike. */
    struct cost_rates *place = (struct cost_rates *)(void *)channel_board();
    _Static_assert(sizeof *r <= 16 * 4, "fits the board of four PEs");
    if (hopbyte_shmem.pes >= 4) {
        if (me == 0)
            *place = *r;
        shmem_barrier_all();
        hopbyte_broadcastmem(HOPBYTE_TEAM_WORLD, place, place, sizeof *r, 0);
        *r = *place;
    } else {
        for (int pe = 1; pe < hopbyte_shmem.pes; pe++) {
            if (me == 0)
                channel_send_cell(pe, r, sizeof *r);
            else if (me == pe) {
                memcpy(r, channel_receive_cell(0), sizeof *r);
                channel_free_cell(0);
            }
        }
    }
    hopbyte_shmem.rates_from = "calibrated";
    shmem_barrier_all();
    if (me == 0 && hopbyte_shmem.verbose)
        shmem_say("rates: network %.3g s, %.4g B/s; node %.3g s, %.4g B/s; fold %.3g B/s", r->network_latency,
                  r->network_bandwidth, r->node_latency, r->node_bandwidth, r->fold_bandwidth);
}

void hopbyte_shmem_counts_read(struct hopbyte_shmem_counts *counts)
{
    *counts = hopbyte_shmem_counters;
}

void hopbyte_shmem_counts_reset(void)
{
    memset(&hopbyte_shmem_counters, 0, sizeof hopbyte_shmem_counters);
}
