/* Sizes of datatypes, cached per thread: a query to the library costs more than the rest of the recording. */
#include "record.h"

enum { CACHE_SLOTS = 16 };

static _Thread_local struct {
    uintptr_t type;
    uint64_t size, generation;
} cache[CACHE_SLOTS];

static uint64_t type_size_ask(MPI_Datatype type)
{
    MPI_Count size = 0;
    if (NEXT(Type_size_x)(type, &size) != MPI_SUCCESS || size < 0) {
        hopbyte_unknown("MPI_Type_size_x", "a datatype whose size the library does not tell");
        return 0;
    }
    return (uint64_t)size;
}

uint64_t hopbyte_type_size(MPI_Datatype type)
{
    uintptr_t handle = (uintptr_t)type;
    unsigned at = (unsigned)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 60) & (CACHE_SLOTS - 1);
    uint64_t generation = __atomic_load_n(&hopbyte_recorder.generation, __ATOMIC_RELAXED);
    if (__builtin_expect(cache[at].type != handle || cache[at].generation != generation, 0)) {
        cache[at].size = type_size_ask(type);
        cache[at].type = handle;
        cache[at].generation = generation;
    }
    return cache[at].size;
}

void hopbyte_type_forget(void)
{
    __atomic_fetch_add(&hopbyte_recorder.generation, 1, __ATOMIC_RELAXED);
}
