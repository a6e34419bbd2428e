/* Ordered messages between PEs: the payload, then a count that the receiver waits for.
 *
 * Every pair has its own counts, so that any number of teams and active sets need no other agreement than the order of
 * the calls that two PEs share. Memory per PE: 24 bytes and two cells for every PE of the job, and one stage. */
#define _GNU_SOURCE
#include "state.h"

#include <dlfcn.h>
#include <sched.h>
#include <shmem.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Symmetric; the element of a PE is written by that PE alone. */
static struct {
    uint64_t *arrived; /* messages from that PE */
    uint64_t *freed;   /* cells that it has emptied */
    uint64_t *granted; /* pieces that it allows into its stage */
    char *cells;
    uint64_t *board;
    char *stage;
} shared;

/* Of this PE: messages by peer. */
static struct {
    uint64_t *sent, *got, *cells_sent, *cells_got, *staged, *granted;
    bool *in_flight; /* the last message went through the library, which completes it later */
} local;

struct hopbyte_shmem_counts hopbyte_shmem_counters;

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t channel_symmetric_bytes(int pes, size_t stage)
{
    size_t n = (size_t)pes;
    return 3 * rounded(8 * n) + CELLS * CELL_BYTES * n + rounded(16 * n) + rounded(stage) + 4096;
}

void *channel_stage(void)
{
    return shared.stage;
}

uint64_t *channel_board(void)
{
    return shared.board;
}

void channel_open(void)
{
    size_t n = (size_t)hopbyte_shmem.pes, bytes = channel_symmetric_bytes(hopbyte_shmem.pes, hopbyte_shmem.stage_bytes);
    char *block = shmem_align(64, bytes);
    if (!block)
        shmem_fail("no %zu bytes of symmetric memory for messages between %zu PEs: raise SHMEM_SYMMETRIC_SIZE", bytes, n);
    memset(block, 0, bytes - hopbyte_shmem.stage_bytes);
    shared.arrived = (void *)block;
    shared.freed = (void *)(block += rounded(8 * n));
    shared.granted = (void *)(block += rounded(8 * n));
    shared.cells = block += rounded(8 * n);
    shared.board = (void *)(block += CELLS * CELL_BYTES * n);
    shared.stage = block + rounded(16 * n);
    uint64_t *counts = calloc(6 * n, sizeof *counts);
    local.in_flight = calloc(n, sizeof *local.in_flight);
    if (!counts || !local.in_flight)
        shmem_fail("no memory for %zu PEs", n);
    local.sent = counts;
    local.got = counts + n;
    local.cells_sent = counts + 2 * n;
    local.cells_got = counts + 3 * n;
    local.staged = counts + 4 * n;
    local.granted = counts + 5 * n;
    shmem_barrier_all();
}

/* --- waiting --- */

/* Open MPI's shmem_test makes no progress where a transport emulates puts and gets by messages, and its shmem_quiet none
 * for those of other PEs: without progress here, two PEs wait for each other. */
static void progress(void)
{
    static void (*own)(void);
    static bool looked;
    if (!looked) {
        looked = true;
        own = (void (*)(void))dlsym(RTLD_DEFAULT, "opal_progress");
    }
    if (own)
        own();
    else
        shmem_quiet();
}

/* The library may need calls to make progress; PEs may outnumber cores. */
static void wait_for(uint64_t *word, uint64_t value, int pe, const char *reason)
{
    double limit = 0;
    for (unsigned spins = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; spins++) {
        if (spins % 16 != 15)
            continue;
        if (shmem_uint64_test(word, SHMEM_CMP_GE, value))
            continue;
        if (spins % 64 == 63)
            progress();
        if (spins >= 255)
            sched_yield();
        if (hopbyte_shmem.timeout > 0 && spins % 4096 == 4095) {
            double now = shmem_now();
            limit = limit > 0 ? limit : now + hopbyte_shmem.timeout;
            if (now > limit)
                shmem_fail("no %s from PE %d within %g s (HOPBYTE_SHMEM_TIMEOUT): do all members make the same calls "
                           "with the same arguments?",
                           reason, pe, hopbyte_shmem.timeout);
        }
    }
}

/* --- sending --- */

/* Payload and word of one message take the same way, directly or through the library, and a message does not overtake
 * an earlier one to the same PE. */
static void message(int pe, uint64_t *word, uint64_t value, void *to, const void *from, size_t bytes)
{
    uint64_t *there = shmem_ptr(word, pe);
    void *target = bytes && there ? shmem_ptr(to, pe) : NULL;
    if (there && (target || !bytes)) {
        if (local.in_flight[pe]) {
            shmem_quiet();
            memset(local.in_flight, 0, (size_t)hopbyte_shmem.pes * sizeof *local.in_flight);
        }
        if (bytes)
            memmove(target, from, bytes);
        __atomic_store_n(there, value, __ATOMIC_RELEASE);
        return;
    }
    if (bytes) {
        shmem_putmem(to, from, bytes, pe);
        shmem_fence();
    }
    shmem_uint64_p(word, value, pe);
    local.in_flight[pe] = true;
}

static void count(int pe, size_t bytes)
{
    hopbyte_shmem_counters.messages++;
    hopbyte_shmem_counters.bytes += bytes;
    if (hopbyte_shmem.node[pe] != hopbyte_shmem.node[hopbyte_shmem.me]) {
        hopbyte_shmem_counters.messages_off_node++;
        hopbyte_shmem_counters.bytes_off_node += bytes;
    }
}

void channel_send(int pe, void *to, const void *from, size_t bytes)
{
    count(pe, bytes);
    message(pe, &shared.arrived[hopbyte_shmem.me], ++local.sent[pe], to, from, bytes);
}

void channel_receive(int pe)
{
    wait_for(&shared.arrived[pe], ++local.got[pe], pe, "message");
}

static char *cell(int of, uint64_t number)
{
    return shared.cells + ((size_t)of * CELLS + number % CELLS) * CELL_BYTES;
}

void channel_send_cell(int pe, const void *from, size_t bytes)
{
    uint64_t number = local.cells_sent[pe]++;
    if (number >= CELLS)
        wait_for(&shared.freed[pe], number - CELLS + 1, pe, "free cell");
    hopbyte_shmem_counters.small++;
    channel_send(pe, cell(hopbyte_shmem.me, number), from, bytes);
}

const void *channel_receive_cell(int pe)
{
    channel_receive(pe);
    return cell(pe, local.cells_got[pe]);
}

void channel_free_cell(int pe)
{
    hopbyte_shmem_counters.credits++;
    message(pe, &shared.freed[hopbyte_shmem.me], ++local.cells_got[pe], NULL, NULL, 0);
}

void channel_grant(int pe)
{
    hopbyte_shmem_counters.credits++;
    message(pe, &shared.granted[hopbyte_shmem.me], ++local.granted[pe], NULL, NULL, 0);
}

void channel_send_stage(int pe, size_t offset, const void *from, size_t bytes)
{
    wait_for(&shared.granted[pe], ++local.staged[pe], pe, "permission to send");
    channel_send(pe, shared.stage + offset, from, bytes);
}
