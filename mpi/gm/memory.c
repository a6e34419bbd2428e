/* Allocation with accounting: rank 0's memory must not grow with the machine, so it is measured. */
#include "gm.h"

#include <stdlib.h>

static size_t held, peak;

struct block {
    size_t bytes;
    max_align_t data[];
};

void *gm_alloc(size_t count, size_t size)
{
    struct block *block = calloc(1, sizeof *block + count * size);
    if (!block) {
        hopbyte_say("out of memory (%zu bytes)", count * size);
        return NULL;
    }
    block->bytes = count * size;
    held += block->bytes;
    if (held > peak)
        peak = held;
    return block->data;
}

static struct block *block_of(void *memory)
{
    return (struct block *)((char *)memory - offsetof(struct block, data));
}

void gm_free(void *memory)
{
    if (!memory)
        return;
    held -= block_of(memory)->bytes;
    free(block_of(memory));
}

void *gm_grow(void *old, size_t count, size_t size)
{
    if (!old)
        return gm_alloc(count, size);
    struct block *block = block_of(old);
    size_t before = block->bytes;
    block = realloc(block, sizeof *block + count * size);
    if (!block) {
        hopbyte_say("out of memory (%zu bytes)", count * size);
        return NULL;
    }
    block->bytes = count * size;
    held += block->bytes - before;
    if (held > peak)
        peak = held;
    return block->data;
}

__attribute__((visibility("default"))) size_t hopbyte_gm_memory_peak(void)
{
    return peak;
}
