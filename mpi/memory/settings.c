/* What the job asks for: hopbyte's variables, Cray's, and keys of MPI_Info objects. */
#include "../common/hash.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_settings memory_settings;

static const char *const hopbyte_names[] = {"HOPBYTE_ALLOC_MEM_AFFINITY", "HOPBYTE_ALLOC_MEM_POLICY",
                                            "HOPBYTE_ALLOC_MEM_PG_SZ", "HOPBYTE_INTERNAL_MEM_AFFINITY"};
static const char *const cray_names[] = {"MPICH_ALLOC_MEM_AFFINITY", "MPICH_ALLOC_MEM_POLICY",
                                         "MPICH_ALLOC_MEM_PG_SZ", "MPICH_INTERNAL_MEM_AFFINITY"};
static const char *const info_keys[] = {"hopbyte_memory_kind", "hopbyte_memory_policy", "hopbyte_memory_page_size"};
enum { AFFINITY, POLICY, PAGE, INTERNAL, SETTINGS };

/* A variable by hopbyte's name or Cray's. */
static const char *variable(int which, const char **name)
{
    const char *text = getenv(*name = hopbyte_names[which]);
    if (text && *text)
        return text;
    text = memory_settings.cray ? NULL : getenv(*name = cray_names[which]);
    return text && *text ? text : NULL;
}

static bool word_read(int which, const char *text, struct mem_request *request, struct mem_error *error)
{
    if (which == POLICY)
        return mem_policy_read(text, request, error);
    if (which == PAGE)
        return mem_page_read(text, &memory_settings.machine, request, error);
    return mem_kind_read(text, request, error);
}

static bool environment_read(struct memory_settings *s)
{
    for (int which = 0; which < SETTINGS; which++) {
        const char *name, *text = variable(which, &name);
        struct mem_request *request = which == INTERNAL ? &s->internal : &s->alloc;
        struct mem_error error;
        if (!text)
            continue;
        if (!word_read(which, text, request, &error)) {
            mem_fail(&s->error, MEM_BAD_VALUE, "%s=%s", name, error.text);
            return false;
        }
        if (which == POLICY)
            s->cray_policy = name == cray_names[POLICY];
    }
    s->internal.policy = MEM_PREFERRED;
    s->asked = s->alloc.kind != MEM_SYSTEM || s->alloc.page > s->machine.base;
    s->internal_asked = s->internal.kind != MEM_SYSTEM;
    return true;
}

static bool cray_here(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    NEXT(Get_library_version)(text, &length);
    return strstr(text, "CRAY MPICH") != NULL;
}

void memory_settings_read(void)
{
    static bool done;
    struct memory_settings *s = &memory_settings;
    if (done)
        return;
    done = true;
    s->cray = cray_here();
    bool good = mem_machine_read(&s->machine, NULL, &s->error) && environment_read(s);
    __atomic_store_n(&s->idle, good && !s->asked, __ATOMIC_RELEASE);
}

bool memory_policy_void(const struct mem_request *request, bool by_cray)
{
    return by_cray && (request->kind == MEM_SYSTEM || request->kind == MEM_DDR);
}

bool memory_request(MPI_Info info, struct mem_request *request, size_t *align, struct mem_error *error)
{
    bool by_cray = memory_settings.cray_policy;
    *request = memory_settings.alloc;
    *align = 1;
    if (memory_settings.error.what != MEM_FINE) {
        *error = memory_settings.error;
        return false;
    }
    for (int which = 0; info != MPI_INFO_NULL && which <= PAGE; which++) {
        char value[256] = "";
        struct mem_error found;
        int has = 0;
        hopbyte_depth++;
        NEXT(Info_get)(info, info_keys[which], sizeof value - 1, value, &has);
        hopbyte_depth--;
        if (!has)
            continue;
        if (!word_read(which, value, request, &found)) {
            mem_fail(error, MEM_BAD_VALUE, "info key %s=%s", info_keys[which], found.text);
            return false;
        }
        by_cray &= which != POLICY;
    }
    if (info != MPI_INFO_NULL) {
        char value[32] = "";
        int has = 0;
        hopbyte_depth++;
        NEXT(Info_get)(info, "mpi_minimum_memory_alignment", sizeof value - 1, value, &has);
        hopbyte_depth--;
        uint64_t bytes = 0;
        if (has && mem_bytes_read(value, &bytes) && bytes > 0 && (bytes & (bytes - 1)) == 0)
            *align = (size_t)bytes;
    }
    if (memory_policy_void(request, by_cray))
        request->policy = MEM_UNSET;
    if (request->policy == MEM_UNSET)
        request->policy = request->kind == MEM_DDR ? MEM_BOUND : MEM_PREFERRED;
    return true;
}

uint64_t memory_settings_hash(const struct mem_request *request, uint64_t seed)
{
    uint64_t words[] = {request->kind, request->policy, request->page};
    seed = hopbyte_fnv1a(seed, words, sizeof words);
    return request->kind == MEM_LIST ? hopbyte_fnv1a(seed, &request->list, sizeof request->list) : seed;
}
