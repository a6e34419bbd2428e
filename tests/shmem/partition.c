/* partition CASE: objects of memory partitions. Prints numa_maps, offsets at all PEs, and "reached" where the job goes on. */
#include "../numamaps.h"

#include <hopbyte_shmem.h>
#include <unistd.h>

static int me, pes;

/* Whether a value is equal at all PEs. */
static void check_same(const char *what, long value)
{
    static long mine, other;
    mine = value;
    shmem_barrier_all();
    shmem_long_get(&other, &mine, 1, 0);
    if (other != value)
        printf("BAD %s: %ld at PE %d, %ld at PE 0\n", what, value, me, other);
    shmem_barrier_all();
}

static void use(char *object, size_t bytes)
{
    unsigned char byte = (unsigned char)(me + 1);
    memset(object, 0, bytes);
    shmem_barrier_all();
    shmem_putmem(object + bytes - 1, &byte, 1, (me + 1) % pes);
    shmem_barrier_all();
    if ((unsigned char)object[bytes - 1] != (me + pes - 1) % pes + 1)
        printf("BAD data at PE %d\n", me);
    long *counter = (long *)object;
    shmem_barrier_all();
    shmem_long_atomic_add(counter, 1, 0);
    shmem_barrier_all();
    if (me == 0 && *counter != pes)
        printf("BAD atomic: %ld\n", *counter);
    shmem_barrier_all();
}

/* 400 allocations and frees by a generator with the same seed at every PE: pieces do not overlap, offsets are equal. */
static void churn(int id)
{
    enum { SLOTS = 24 };
    char *object[SLOTS] = {0};
    size_t bytes[SLOTS] = {0};
    uint32_t state = 1;
    char *first = shmem_kind_malloc(1, id);
    for (int step = 0; step < 400; step++) {
        state = state * 1664525 + 1013904223;
        int slot = (int)(state >> 8) % SLOTS;
        if (object[slot]) {
            for (size_t i = 0; i < bytes[slot]; i += 97)
                if (object[slot][i] != (char)slot)
                    printf("BAD overlap\n");
            if (state & 1 << 30) {
                shmem_free(object[slot]);
                object[slot] = NULL;
                continue;
            }
            size_t more = (state >> 12) % 90000 + 1, least = more < bytes[slot] ? more : bytes[slot];
            char *moved = shmem_realloc(object[slot], more);
            if (!moved)
                continue;
            for (size_t i = 0; i < least; i += 97)
                if (moved[i] != (char)slot)
                    printf("BAD realloc\n");
            object[slot] = moved;
            bytes[slot] = more;
        } else {
            size_t align = (size_t)1 << (state >> 4) % 13;
            bytes[slot] = (state >> 12) % 90000 + 1;
            object[slot] = align < 8 ? shmem_kind_malloc(bytes[slot], id) : shmem_kind_align(align, bytes[slot], id);
            if (object[slot] && ((uintptr_t)object[slot] & (align - 1)) != 0)
                printf("BAD alignment\n");
        }
        if (object[slot]) {
            memset(object[slot], slot, bytes[slot]);
            check_same("offset", object[slot] - first);
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (object[slot])
            shmem_free(object[slot]);
    shmem_free(first);
}

int main(int count, char **words)
{
    const char *name = count > 1 ? words[1] : "use";
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    if (strcmp(name, "use") == 0) {
        for (int i = 2; i + 1 < count; i += 2) {
            int id = atoi(words[i]);
            size_t bytes = (size_t)atoll(words[i + 1]);
            char *object = shmem_kind_malloc(bytes, id), *usual = shmem_malloc(100000);
            if (!object || !usual) {
                printf("PE %d partition %d NULL\n", me, id);
                continue;
            }
            use(object, bytes);
            use(usual, 100000);
            check_same("distance", object - usual);
            char maps[1024];
            printf("PE %d partition %d %s\n", me, id, numa_maps_text(object, maps, sizeof maps));
            fflush(stdout);
            shmem_free(usual);
            shmem_free(object);
        }
    } else if (strcmp(name, "churn") == 0) {
        churn(1);
    } else if (strcmp(name, "full") == 0) {
        char *half = shmemx_kind_malloc(1 << 19, 1), *other = shmemx_kind_align(4096, 1 << 19, 1);
        char *none = shmem_kind_malloc(1, 1), *empty = shmem_kind_malloc(0, 1), *huge = shmem_kind_malloc((size_t)1 << 60, 1);
        printf("%s\n", half && other && !none && !empty && !huge ? "right" : "BAD");
        shmem_free(half);
        half = shmem_realloc(other, 1 << 18);
        printf("%s\n", half && !shmem_realloc(half, 0) ? "right" : "BAD");
    } else if (strcmp(name, "undefined") == 0) {
        shmem_kind_malloc(64, 9);
    } else if (strcmp(name, "unequal_size") == 0) {
        shmem_kind_malloc(me == pes - 1 ? 128 : 64, 1);
    } else if (strcmp(name, "unequal_id") == 0) {
        shmem_kind_malloc(64, me == 0 ? 1 : 2);
    } else if (strcmp(name, "alignment") == 0) {
        shmem_kind_align(48, 64, 1);
    } else if (strcmp(name, "freed_twice") == 0) {
        char *object = shmem_kind_malloc(64, 1);
        shmem_free(object);
        shmem_free(object);
    } else if (strcmp(name, "inside") == 0) {
        char *object = shmem_kind_malloc(64, 1);
        shmem_free(object + 8);
    }
    printf("reached\n");
    fflush(stdout);
    shmem_finalize();
    return 0;
}
