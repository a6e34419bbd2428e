/* Counts by key: open addressing with linear probing. Memory is bounded: a table at its largest size that fills up
 * is written to the file and emptied; readers add up lines with the same key. */
#include "record.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 256, SLOTS_LARGEST_DEFAULT = 1 << 16 };

static struct {
    struct hopbyte_item *slots; /* key 0 is an empty slot */
    uint64_t room, used, largest;
    int shift;
    bool busy;
} table;

void hopbyte_lock(void)
{
    if (!hopbyte_recorder.threaded)
        return;
    while (__atomic_test_and_set(&table.busy, __ATOMIC_ACQUIRE))
        sched_yield();
}

void hopbyte_unlock(void)
{
    if (hopbyte_recorder.threaded)
        __atomic_clear(&table.busy, __ATOMIC_RELEASE);
}

static struct hopbyte_item *slot_find(uint64_t key)
{
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> table.shift;
    while (table.slots[at].key != key && table.slots[at].key)
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
            *slot_find(old[i].key) = old[i];
    free(old);
    return true;
}

bool hopbyte_table_init(void)
{
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

void hopbyte_table_add(uint64_t key, uint64_t bytes, uint64_t messages)
{
    hopbyte_lock();
    struct hopbyte_item *slot = slot_find(key);
    if (__builtin_expect(!slot->key, 0)) {
        if (table.used >= table.room - table.room / 4) {
            table_make_room();
            slot = slot_find(key);
        }
        slot->key = key;
        table.used++;
    }
    slot->bytes += bytes;
    slot->messages += messages;
    hopbyte_unlock();
}

static int item_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct hopbyte_item *)a)->key, y = ((const struct hopbyte_item *)b)->key;
    return (x > y) - (x < y);
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
