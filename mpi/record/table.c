/* Counts by key: open addressing with linear probing. Memory is bounded: a table that fills up at its largest size is
 * written to the file and emptied; readers add up lines with the same key.
 *
 * In front of it every thread has a direct-mapped cache of a few slots, so that a repeated call takes no lock. A slot
 * is flushed to the table when another key replaces it, when the thread ends, and at the end. */
#include "record.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 256, SLOTS_LARGEST_DEFAULT = 1 << 16 };

static struct {
    struct hopbyte_item *slots; /* key 0 is an empty slot */
    uint64_t room, used, largest;
    uint64_t sizes;   /* entries of collective calls so far, at most `largest` with their exact size */
    uint64_t rounded; /* calls counted under rounded sizes */
    int shift;
    bool busy; /* taken under any level of thread support: it is seldom contended */
} table;

_Thread_local struct hopbyte_tally hopbyte_tally;
static struct hopbyte_tally *tallies; /* of all threads */
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

static bool table_resize(uint64_t room)
{
    struct hopbyte_item *fresh = calloc(room, sizeof *fresh), *old = table.slots;
    if (!fresh)
        return false;
    uint64_t old_room = table.room;
    table.slots = fresh;
    table.room = room;
    table.shift = 64 - __builtin_ctzll(room);
    for (uint64_t i = 0; i < old_room; i++)
        if (old[i].key)
            *slot_find(old[i].key, old[i].size) = old[i];
    free(old);
    return true;
}

static void tally_leave(void *tally);

bool hopbyte_table_init(void)
{
    if (pthread_key_create(&thread_end, tally_leave) != 0)
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
    if (!item->size || table.sizes < table.largest || slot_find(item->key, item->size)->key)
        return item->size;
    table.rounded += item->messages;
    return SIZE_ROUNDED | UINT64_C(1) << (63 - __builtin_clzll(item->size));
}

/* The lock is held. */
static void table_put(const struct hopbyte_item *item)
{
    uint64_t size = size_bounded(item);
    struct hopbyte_item *slot = slot_find(item->key, size);
    if (!slot->key) {
        if (table.used >= table.room - table.room / 4) {
            table_make_room();
            slot = slot_find(item->key, size);
        }
        slot->key = item->key;
        slot->size = size;
        table.used++;
        table.sizes += size != 0;
    }
    slot->bytes += item->bytes;
    slot->messages += item->messages;
}

/* The lock is held. */
static void tally_empty(struct hopbyte_tally *tally)
{
    for (int i = 0; i < 1 << TALLY_BITS; i++)
        if (tally->slots[i].key) {
            table_put(&tally->slots[i]);
            tally->slots[i] = (struct hopbyte_item){0};
        }
}

static void tally_leave(void *tally)
{
    hopbyte_lock();
    for (struct hopbyte_tally **at = &tallies; *at; at = &(*at)->next)
        if (*at == tally) {
            *at = (*at)->next;
            break;
        }
    tally_empty(tally);
    hopbyte_unlock();
    hopbyte_tally.listed = false; /* until a later destructor of this thread sends something */
}

void hopbyte_tally_turn(struct hopbyte_item *slot, uint64_t key, uint64_t size)
{
    hopbyte_lock();
    if (!hopbyte_tally.listed) {
        hopbyte_tally.listed = true;
        hopbyte_tally.next = tallies;
        tallies = &hopbyte_tally;
        pthread_setspecific(thread_end, &hopbyte_tally);
    }
    if (slot->key)
        table_put(slot);
    *slot = (struct hopbyte_item){.key = key, .size = size};
    hopbyte_unlock();
}

void hopbyte_tallies_gather(void)
{
    for (struct hopbyte_tally *tally = tallies; tally; tally = tally->next)
        tally_empty(tally);
}

uint64_t hopbyte_table_rounded(void)
{
    return table.rounded;
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
    for (uint64_t i = 0; i < table.room; i++)
        if (table.slots[i].key)
            table.slots[count++] = table.slots[i];
    qsort(table.slots, count, sizeof *table.slots, item_compare);
    for (uint64_t i = 0; i < count; i++)
        visit(&table.slots[i]);
    memset(table.slots, 0, table.room * sizeof *table.slots);
    table.used = 0;
}
