/* Counts by key: open addressing with linear probing. Memory is bounded: a table that fills up at its largest size is
 * written to the file and emptied; readers add up lines with the same key.
 *
 * In front of it every thread has a direct-mapped cache of a few slots, so that a repeated call takes no lock. A slot
 * is flushed to the table when another key replaces it, when the thread ends, and at the end.
 *
 * Table and slots lie in the file of live.c. Every change that takes more than one store is written so that a process
 * that is killed in the middle of it has counted nothing twice and lost nothing. */
#include "record.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 256, SLOTS_LARGEST_DEFAULT = 1 << 16 };

static struct {
    struct hopbyte_item *slots; /* key 0 is an empty slot */
    uint64_t offset, room, used, largest;
    uint64_t sizes; /* entries of collective calls so far, at most `largest` with their exact size */
    int shift;
    bool busy; /* taken under any level of thread support: it is seldom contended */
} table;

/* Slots of one thread. */
struct block {
    struct hopbyte_item *slots;
    uint64_t offset;
    struct block *next;
};
static struct hopbyte_item slots_none[TALLY_SLOTS]; /* never written */
_Thread_local struct hopbyte_item *hopbyte_slots = slots_none;
static _Thread_local struct block *own;
static struct block *used, *spare; /* of all threads, and of threads that have ended */
static pthread_key_t thread_end;

void hopbyte_lock(void)
{
    while (__atomic_test_and_set(&table.busy, __ATOMIC_ACQUIRE))
        sched_yield();
}

void hopbyte_unlock(void)
{
    __atomic_clear(&table.busy, __ATOMIC_RELEASE);
}

static struct hopbyte_item *slot_find(uint64_t key, uint64_t size)
{
    uint64_t at = hopbyte_key_hash(key, size) >> table.shift;
    while ((table.slots[at].key != key || table.slots[at].size != size) && table.slots[at].key)
        at = (at + 1) & (table.room - 1);
    return &table.slots[at];
}

/* The old table stays in the file, where nothing refers to it after the commit. */
static bool table_resize(uint64_t room)
{
    struct hopbyte_live_state state = hopbyte_live_state();
    uint64_t offset = 0, old_room = table.room, old_offset = table.offset;
    struct hopbyte_item *old = table.slots, *fresh;
    fresh = state.table || !old ? hopbyte_live_take(room * sizeof *fresh, &offset) : NULL;
    if (!fresh && !state.table)
        fresh = calloc(room, sizeof *fresh);
    if (!fresh)
        return false;
    table.slots = fresh;
    table.offset = offset;
    table.room = room;
    table.shift = 64 - __builtin_ctzll(room);
    for (uint64_t i = 0; i < old_room; i++)
        if (old[i].key)
            *slot_find(old[i].key, old[i].size) = old[i];
    state.table = offset;
    state.room = room;
    hopbyte_live_commit(state);
    if (!old_offset)
        free(old);
    return true;
}

static void thread_leave(void *left);

bool hopbyte_table_init(void)
{
    if (pthread_key_create(&thread_end, thread_leave) != 0)
        return false;
    table.largest = SLOTS_FIRST;
    uint64_t wanted = (uint64_t)hopbyte_env_number("HOPBYTE_RECORD_TABLE", SLOTS_LARGEST_DEFAULT, SLOTS_FIRST);
    while (table.largest < wanted)
        table.largest *= 2;
    return table_resize(SLOTS_FIRST);
}

/* Makes space for one more entry when the table is three quarters full: grows, or spills at the largest size. */
static void table_make_room(void)
{
    if (table.room < table.largest && table_resize(table.room * 2))
        return;
    hopbyte_file_spill();
}

/* The size to count under: rounded to a power of two after so many sizes that the file would grow without bound. */
static uint64_t size_bounded(const struct hopbyte_item *item)
{
    uint64_t size = item->size & ~HOW_BITS;
    if (!size || table.sizes < table.largest || slot_find(item->key, item->size)->key)
        return item->size;
    hopbyte_live->rounded += item->messages;
    return SIZE_ROUNDED | (item->size & HOW_BITS) | UINT64_C(1) << (63 - __builtin_clzll(size));
}

/* The entry of a slot's counts. The lock is held. */
static struct hopbyte_item *entry_find(uint64_t key, uint64_t size)
{
    struct hopbyte_item *entry = slot_find(key, size);
    if (!entry->key && table.used >= table.room - table.room / 4) {
        table_make_room();
        entry = slot_find(key, size);
    }
    return entry;
}

/* Moves a slot's counts to the table and gives it to another key, 0 for none. The lock is held. */
static void slot_turn(struct block *block, unsigned at, uint64_t key, uint64_t size)
{
    struct hopbyte_item *slot = &block->slots[at];
    struct hopbyte_live_move *move = &hopbyte_live->move;
    if (!slot->key) {
        slot->size = size;
        hopbyte_live_order();
        slot->key = key;
        return;
    }
    uint64_t under = size_bounded(slot);
    struct hopbyte_item *entry = entry_find(slot->key, under);
    table.used += !entry->key;
    table.sizes += !entry->key && under;
    move->item = (struct hopbyte_item){slot->key, under, entry->bytes + slot->bytes, entry->messages + slot->messages};
    move->entry = table.offset ? table.offset + (uint64_t)(entry - table.slots) * sizeof *entry : 0;
    move->slot = block->offset ? block->offset + at * sizeof *slot : 0;
    move->key = key;
    move->size = size;
    hopbyte_live_order();
    __atomic_store_n(&move->valid, 1, __ATOMIC_RELAXED);
    hopbyte_live_order();
    *entry = move->item;
    *slot = (struct hopbyte_item){.key = key, .size = size};
    hopbyte_live_order();
    __atomic_store_n(&move->valid, 0, __ATOMIC_RELAXED);
}

/* The lock is held. */
static void block_empty(struct block *block)
{
    for (unsigned at = 0; at < TALLY_SLOTS; at++)
        if (block->slots[at].key)
            slot_turn(block, at, 0, 0);
}

static void thread_leave(void *left)
{
    struct block *block = left;
    hopbyte_lock();
    for (struct block **at = &used; *at; at = &(*at)->next)
        if (*at == block) {
            *at = block->next;
            break;
        }
    block_empty(block);
    block->next = spare;
    spare = block;
    hopbyte_unlock();
    hopbyte_slots = slots_none; /* until a later destructor of this thread sends something */
    own = NULL;
}

/* Adds `count` blocks to the spare ones: in the file, else in memory that is lost with the process. */
static void blocks_add(unsigned count)
{
    static int pieces;
    uint64_t offset = 0;
    struct hopbyte_item *slots = NULL;
    if (pieces < LIVE_PIECES)
        slots = hopbyte_live_take(count * TALLY_SLOTS * sizeof *slots, &offset);
    if (slots) {
        hopbyte_live->tallies[pieces].offset = offset;
        hopbyte_live->tallies[pieces++].blocks = count;
    } else {
        slots = calloc(count, TALLY_SLOTS * sizeof *slots);
    }
    for (unsigned i = 0; slots && i < count; i++) {
        struct block *block = calloc(1, sizeof *block);
        if (!block)
            return;
        *block = (struct block){slots + i * TALLY_SLOTS, offset ? offset + i * TALLY_SLOTS * sizeof *slots : 0, spare};
        spare = block;
    }
}

/* Gives this thread a block of its own. The lock is held. */
static bool thread_join(void)
{
    static unsigned count = 2; /* as many as there were, so that few pieces hold the blocks of any number of threads */
    if (!spare) {
        blocks_add(count);
        count *= 2;
    }
    if (!spare)
        return false;
    own = spare;
    spare = own->next;
    own->next = used;
    used = own;
    hopbyte_slots = own->slots;
    pthread_setspecific(thread_end, own);
    return true;
}

struct hopbyte_item *hopbyte_tally_turn(unsigned at, uint64_t key, uint64_t size)
{
    static struct hopbyte_item lost; /* without memory for a block */
    hopbyte_lock();
    if (own || thread_join())
        slot_turn(own, at, key, size);
    hopbyte_unlock();
    return own ? &own->slots[at] : &lost;
}

static struct hopbyte_totals drained; /* of entries that were written out */

static void totals_add(struct hopbyte_totals *totals, uint64_t key, uint64_t bytes, uint64_t messages)
{
    switch (hopbyte_key_class(key)) {
    case CLASS_POINT:
        totals->messages += messages;
        totals->bytes += bytes;
        break;
    case CLASS_CALL:
    case CLASS_DIRECT:
        totals->collectives += messages;
        totals->collective_bytes += bytes;
        break;
    case CLASS_PUT:
    case CLASS_GET:
        totals->one_sided += messages;
        totals->one_sided_bytes += bytes;
        break;
    default: /* CLASS_PAIR: parts of calls that are counted */
        break;
    }
}

void hopbyte_totals_read(struct hopbyte_totals *totals)
{
    hopbyte_lock();
    *totals = drained;
    for (uint64_t i = 0; i < table.room; i++)
        if (table.slots[i].key)
            totals_add(totals, table.slots[i].key, table.slots[i].bytes, table.slots[i].messages);
    /* Their threads add to these without the lock. */
    for (struct block *block = used; block; block = block->next)
        for (unsigned at = 0; at < TALLY_SLOTS; at++) {
            const struct hopbyte_item *slot = &block->slots[at];
            uint64_t bytes = __atomic_load_n(&slot->bytes, __ATOMIC_RELAXED);
            uint64_t messages = __atomic_load_n(&slot->messages, __ATOMIC_RELAXED);
            if (slot->key)
                totals_add(totals, slot->key, bytes, messages);
        }
    hopbyte_unlock();
}

void hopbyte_tallies_gather(void)
{
    for (struct block *block = used; block; block = block->next)
        block_empty(block);
}

static int item_compare(const void *a, const void *b)
{
    const struct hopbyte_item *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? 1 : -1;
    return (x->size > y->size) - (x->size < y->size);
}

void hopbyte_table_drain(void (*visit)(const struct hopbyte_item *))
{
    uint64_t count = 0;
    struct hopbyte_item *sorted = malloc((table.used + 1) * sizeof *sorted);
    for (uint64_t i = 0; i < table.room; i++)
        if (table.slots[i].key)
            totals_add(&drained, table.slots[i].key, table.slots[i].bytes, table.slots[i].messages);
    for (uint64_t i = 0; i < table.room; i++)
        if (table.slots[i].key) {
            if (sorted)
                sorted[count++] = table.slots[i];
            else
                visit(&table.slots[i]); /* in any order: the lines add up */
        }
    if (sorted)
        qsort(sorted, count, sizeof *sorted, item_compare);
    for (uint64_t i = 0; i < count; i++)
        visit(&sorted[i]);
    free(sorted);
    struct hopbyte_live_state state = hopbyte_live_state();
    state.text = hopbyte_file_flush();
    state.emptied = 1;
    hopbyte_live_commit(state);
    memset(table.slots, 0, table.room * sizeof *table.slots);
    state.emptied = 0;
    hopbyte_live_commit(state);
    table.used = 0;
}

void hopbyte_table_leave(void)
{
    own = NULL;
    used = spare = NULL;
    hopbyte_slots = slots_none;
    pthread_setspecific(thread_end, NULL);
    hopbyte_unlock(); /* another thread may have held it */
}
