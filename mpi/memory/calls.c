/* MPI_Alloc_mem, MPI_Win_allocate, MPI_Win_allocate_shared, and start and end of the library. */
#include "../common/hash.h"
#include "memory.h"

#include <limits.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char hopbyte_tool[] = "memory";

enum { EXIT_INPUT = 2, SECONDS_TO_DIE = 30 };

/* Memory mapped here, by address, and windows placed here, by handle. */
struct block {
    struct mem_region region;
};
struct window {
    MPI_Win win;
    struct mem_region region;
    bool own; /* mapped here; otherwise the library's, with a policy */
};
static void *blocks, *windows;
static long block_count, window_count;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER, place_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static pid_t process;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct block *)a)->region.at, y = (uintptr_t)((const struct block *)b)->region.at;
    return (x > y) - (x < y);
}

static int by_window(const void *a, const void *b)
{
    return memcmp(&((const struct window *)a)->win, &((const struct window *)b)->win, sizeof(MPI_Win));
}

/* --- start and end --- */

static void agree_on_settings(void)
{
    struct memory_settings *s = &memory_settings;
    int rank;
    uint64_t own[3], all[3];
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    own[0] = memory_settings_hash(&s->internal, memory_settings_hash(&s->alloc, HOPBYTE_FNV_BASIS));
    own[1] = ~own[0];
    own[2] = s->error.what == MEM_FINE ? UINT64_MAX : (uint64_t)rank;
    NEXT(Allreduce)(own, all, 3, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    bool bad = all[2] != UINT64_MAX, differ = all[0] != ~all[1];
    if (bad && all[2] == (uint64_t)rank)
        hopbyte_say("%s", s->error.text);
    else if (!bad && differ && rank == 0)
        hopbyte_say("ranks have different HOPBYTE_ or MPICH_ memory variables in their environments; pass the same to all");
    if (bad || differ) {
        /* One rank ends the job; launchers may lose output that is still in their pipes, hence the delay. */
        if (bad ? all[2] == (uint64_t)rank : rank == 0) {
            sleep(1);
            NEXT(Abort)(MPI_COMM_WORLD, EXIT_INPUT);
        }
        sleep(SECONDS_TO_DIE);
        _exit(EXIT_INPUT);
    }
    if (memory_policy_void(&s->alloc, s->cray_policy) && rank == 0)
        hopbyte_say("MPICH_ALLOC_MEM_POLICY has no effect with %s; HOPBYTE_ALLOC_MEM_POLICY has with every kind",
                    mem_kind_name(s->alloc.kind));
    if (s->cray && rank == 0 && (getenv("MPICH_ALLOC_MEM_AFFINITY") || getenv("MPICH_ALLOC_MEM_PG_SZ")))
        hopbyte_say("MPICH_ALLOC_MEM_ variables are applied by this Cray MPICH itself; HOPBYTE_ALLOC_MEM_ ones are applied here");
}

struct inside {
    struct mem_process before;
    uint64_t node[MEM_NODES_MOST];
    bool on;
};

/* Memory that the library touches while it starts: mailboxes and shared segments. */
static void inside_begin(struct inside *inside)
{
    struct memory_settings *s = &memory_settings;
    struct mem_error error = {0};
    inside->on = false;
    pthread_once(&settings_once, memory_settings_read);
    if (s->error.what != MEM_FINE || !s->internal_asked)
        return;
    mem_process_nodes(&s->machine, inside->node);
    inside->on = mem_process_prefer(&s->machine, &s->internal, &inside->before, &error);
    if (!inside->on) {
        struct mem_delivered none = {0};
        memcpy(none.reason, error.text, sizeof none.reason);
        memory_note(CALL_INTERNAL, &s->internal, 0, &none);
    }
}

static void inside_end(const struct inside *inside)
{
    struct memory_settings *s = &memory_settings;
    struct mem_delivered *d = inside->on ? calloc(1, sizeof *d) : NULL;
    struct mem_mask mask;
    struct mem_error error;
    char bytes[32], list[128];
    if (inside->on)
        mem_process_restore(&inside->before);
    if (!d)
        return;
    mem_process_nodes(&s->machine, d->node);
    bool known = mem_nodes_of(&s->machine, &s->internal, &mask, &error);
    for (int id = 0; id < MEM_NODES_MOST; id++) {
        d->node[id] -= d->node[id] > inside->node[id] ? inside->node[id] : d->node[id];
        d->bytes += d->node[id];
        d->elsewhere += known && !mem_mask_has(&mask, id) ? d->node[id] : 0;
    }
    if (d->elsewhere)
        snprintf(d->reason, sizeof d->reason, "%s not on node %s (programs' files and memory of other processes included)",
                 mem_bytes_text(d->elsewhere, bytes), mem_list_text(&mask, list, sizeof list));
    memory_note(CALL_INTERNAL, &s->internal, 0, d);
    free(d);
}

static void world_begin(const struct inside *inside)
{
    process = getpid();
    hopbyte_depth++;
    inside_end(inside);
    agree_on_settings();
    hopbyte_depth--;
}

HOPBYTE_DEFINE(int, Init, (int *argc, char ***argv))
{
    struct inside inside;
    inside_begin(&inside);
    int rc = NEXT(Init)(argc, argv);
    if (rc == MPI_SUCCESS)
        world_begin(&inside);
    return rc;
}

HOPBYTE_DEFINE(int, Init_thread, (int *argc, char ***argv, int required, int *provided))
{
    struct inside inside;
    inside_begin(&inside);
    int rc = NEXT(Init_thread)(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        world_begin(&inside);
    return rc;
}

HOPBYTE_DEFINE(int, Finalize, (void))
{
    hopbyte_depth++;
    memory_report();
    int rc = NEXT(Finalize)();
    hopbyte_depth--;
    return rc;
}

__attribute__((destructor)) static void memory_stop(void)
{
    if (process == 0 || process == getpid())
        memory_report_own();
}

/* --- errors --- */

/* The class of a failure; the reason has been printed. */
static int class_of(const struct mem_error *error)
{
    return error->what == MEM_BAD_VALUE ? MPI_ERR_INFO_VALUE : MPI_ERR_NO_MEM;
}

/* Errors without a communicator: MPI 4 raises them on MPI_COMM_SELF, MPI 3 on MPI_COMM_WORLD. */
static int error_raise(MPI_Comm comm, int code)
{
    int version = 0, minor = 0;
    if (comm == MPI_COMM_NULL) {
        NEXT(Get_version)(&version, &minor);
        comm = version >= 4 ? MPI_COMM_SELF : MPI_COMM_WORLD;
    }
    NEXT(Comm_call_errhandler)(comm, code);
    return code;
}

static void failure_say(enum memory_call call, const struct mem_request *request, const struct mem_error *error)
{
    char text[256];
    if (error->what == MEM_BAD_VALUE)
        hopbyte_say("%s: %s", memory_call_names[call], error->text);
    else
        hopbyte_say("%s (%s): %s", memory_call_names[call], memory_request_text(request, text, sizeof text), error->text);
}

/* --- MPI_Alloc_mem --- */

/* Apart from MPI_Alloc_mem, which then needs no room on the stack where nothing is asked for. */
__attribute__((noinline)) static int alloc_place(MPI_Aint size, MPI_Info info, void *baseptr)
{
    struct mem_request request;
    struct mem_error error = {0};
    struct block *block = NULL;
    size_t align;
    pthread_once(&settings_once, memory_settings_read);
    bool good = memory_request(info, &request, &align, &error);
    if (good && request.kind == MEM_SYSTEM && request.page <= memory_settings.machine.base)
        return NEXT(Alloc_mem)(size, info, baseptr);
    struct mem_delivered *delivered = calloc(1, sizeof *delivered);
    block = calloc(1, sizeof *block);
    if (good && (!delivered || !block)) {
        mem_fail(&error, MEM_NO_ROOM, "no memory for the table of allocations");
        good = false;
    }
    if (good) {
        pthread_mutex_lock(&place_lock);
        good = mem_map(&memory_settings.machine, &request, (size_t)size, align, &block->region, delivered, &error);
        pthread_mutex_unlock(&place_lock);
    }
    if (good) {
        pthread_mutex_lock(&table_lock);
        good = tsearch(block, &blocks, by_address) != NULL;
        pthread_mutex_unlock(&table_lock);
        if (!good) {
            mem_unmap(&block->region);
            mem_fail(&error, MEM_NO_ROOM, "no memory for the table of allocations");
        }
    }
    if (!good) {
        failure_say(CALL_ALLOC_MEM, &request, &error);
        memory_note_failed(CALL_ALLOC_MEM, &request, (uint64_t)size);
        free(block);
        free(delivered);
        return error_raise(MPI_COMM_NULL, class_of(&error));
    }
    __atomic_fetch_add(&block_count, 1, __ATOMIC_RELAXED);
    memory_note(CALL_ALLOC_MEM, &request, (uint64_t)size, delivered);
    free(delivered);
    memcpy(baseptr, &block->region.at, sizeof(void *));
    return MPI_SUCCESS;
}

HOPBYTE_STRAIGHT(int, MPI, Alloc_mem, (MPI_Aint size, MPI_Info info, void *baseptr), (size, info, baseptr))
/* The info object of calls that ask for nothing, or no object at all while variables ask for something. */
#define NO_INFO ((MPI_Info)(intptr_t)-1)
static MPI_Info info_of_idle = NO_INFO;

__attribute__((noinline)) static int alloc_look(MPI_Aint size, MPI_Info info, void *baseptr)
{
    bool idle = __atomic_load_n(&memory_settings.idle, __ATOMIC_ACQUIRE);
    if (idle)
        __atomic_store_n(&info_of_idle, MPI_INFO_NULL, __ATOMIC_RELAXED);
    if ((idle && info == MPI_INFO_NULL) || hopbyte_depth || size <= 0)
        return NEXT(Alloc_mem)(size, info, baseptr);
    return alloc_place(size, info, baseptr);
}

HOPBYTE_DEFINE(int, Alloc_mem, (MPI_Aint size, MPI_Info info, void *baseptr))
{
    if (__builtin_expect(info != __atomic_load_n(&info_of_idle, __ATOMIC_RELAXED), 0))
        return alloc_look(size, info, baseptr);
    return HOPBYTE_STRAIGHT_CALL(Alloc_mem)(size, info, baseptr);
}

__attribute__((noinline)) static int free_placed(void *base)
{
    struct block key = {.region.at = base}, *found = NULL;
    pthread_mutex_lock(&table_lock);
    struct block **node = tfind(&key, &blocks, by_address);
    if (node) {
        found = *node;
        tdelete(found, &blocks, by_address);
    }
    pthread_mutex_unlock(&table_lock);
    if (!found)
        return NEXT(Free_mem)(base);
    __atomic_fetch_sub(&block_count, 1, __ATOMIC_RELAXED);
    mem_unmap(&found->region);
    free(found);
    return MPI_SUCCESS;
}

HOPBYTE_STRAIGHT(int, MPI, Free_mem, (void *base), (base))
HOPBYTE_DEFINE(int, Free_mem, (void *base))
{
    if (__builtin_expect(__atomic_load_n(&block_count, __ATOMIC_RELAXED) != 0, 0))
        return free_placed(base);
    return HOPBYTE_STRAIGHT_CALL(Free_mem)(base);
}

/* --- windows --- */

int MPI_Win_allocate_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win);
int PMPI_Win_allocate_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win);
int MPI_Win_allocate_shared_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win);
int PMPI_Win_allocate_shared_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win);
int PMPI_Win_create_c(void *base, MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, MPI_Win *win);

struct call {
    enum memory_call which;
    bool large; /* the function with _c */
    MPI_Aint size, unit;
    MPI_Info info;
    MPI_Comm comm;
    void *base;
    MPI_Win *win;
};

static int library_call(const struct call *c)
{
    int rc, unit = (int)c->unit;
    hopbyte_depth++;
    if (c->which == CALL_WIN_ALLOCATE && c->large)
        rc = NEXT(Win_allocate_c)(c->size, c->unit, c->info, c->comm, c->base, c->win);
    else if (c->which == CALL_WIN_ALLOCATE)
        rc = NEXT(Win_allocate)(c->size, unit, c->info, c->comm, c->base, c->win);
    else if (c->large)
        rc = NEXT(Win_allocate_shared_c)(c->size, c->unit, c->info, c->comm, c->base, c->win);
    else
        rc = NEXT(Win_allocate_shared)(c->size, unit, c->info, c->comm, c->base, c->win);
    hopbyte_depth--;
    return rc;
}

static int library_create(const struct call *c, void *at)
{
    hopbyte_depth++;
    int rc = c->large ? NEXT(Win_create_c)(at, c->size, c->unit, c->info, c->comm, c->win)
                      : NEXT(Win_create)(at, c->size, (int)c->unit, c->info, c->comm, c->win);
    hopbyte_depth--;
    return rc;
}

/* Whether a window of this size fails at any rank; the lowest rank that fails prints its reason. Collective. */
static int agree(const struct call *c, int code, const struct mem_request *request, const struct mem_error *error)
{
    int rank, own[2], all[2];
    NEXT(Comm_rank)(c->comm, &rank);
    own[0] = code;
    own[1] = code == MPI_SUCCESS ? INT_MIN : -rank;
    NEXT(Allreduce)(own, all, 2, MPI_INT, MPI_MAX, c->comm);
    if (all[0] != MPI_SUCCESS && all[1] == -rank)
        failure_say(c->which, request, error);
    return all[0];
}

static bool window_keep(const struct call *c, const struct mem_region *region, bool own)
{
    struct window *window = calloc(1, sizeof *window);
    if (!window)
        return false;
    window->win = *c->win;
    window->region = *region;
    window->own = own;
    pthread_mutex_lock(&table_lock);
    bool good = tsearch(window, &windows, by_window) != NULL;
    pthread_mutex_unlock(&table_lock);
    if (good)
        __atomic_fetch_add(&window_count, 1, __ATOMIC_RELAXED);
    else
        free(window);
    return good;
}

/* A window on reserved huge pages, which the library's segments cannot have. MPI_SUCCESS without a window, if the pages are
 * not there at every rank and the policy allows others. */
static int window_on_huge_pages(const struct call *c, const struct mem_request *request, size_t align,
                                struct mem_delivered *d, struct mem_error *error, bool *made)
{
    struct mem_region region = {0};
    bool good = true;
    *made = false;
    if (c->size > 0) {
        pthread_mutex_lock(&place_lock);
        good = mem_map(&memory_settings.machine, request, (size_t)c->size, align, &region, d, error);
        pthread_mutex_unlock(&place_lock);
        if (good && d->huge < d->bytes) {
            mem_unmap(&region);
            region.at = NULL;
            mem_fail(error, MEM_NO_PAGES, "%s", d->reason);
            good = false;
        }
    }
    int least, mine = good;
    NEXT(Allreduce)(&mine, &least, 1, MPI_INT, MPI_MIN, c->comm);
    if (least) {
        int rc = library_create(c, region.at);
        *made = rc == MPI_SUCCESS;
        if (rc != MPI_SUCCESS && region.at)
            mem_unmap(&region);
        if (rc == MPI_SUCCESS) {
            memcpy(c->base, &region.at, sizeof(void *));
            if (!window_keep(c, &region, true))
                hopbyte_say("no memory for the table of windows: memory of this window is not freed");
        }
        return rc;
    }
    if (good && region.at)
        mem_unmap(&region);
    if (request->policy != MEM_MANDATORY)
        return MPI_SUCCESS;
    int code = agree(c, good ? MPI_SUCCESS : class_of(error), request, error);
    return error_raise(c->comm, code);
}

/* The library's own segment, placed: other processes of the node have it mapped, so it stays where it is. */
static int window_on_library(const struct call *c, const struct mem_request *request, struct mem_delivered *d,
                             struct mem_error *error)
{
    struct mem_region region = {.bytes = (size_t)c->size};
    bool good = c->size == 0 || mem_check(&memory_settings.machine, request, (size_t)c->size, error);
    int code = agree(c, good ? MPI_SUCCESS : class_of(error), request, error);
    if (code != MPI_SUCCESS)
        return error_raise(c->comm, code);
    int rc = library_call(c);
    if (rc != MPI_SUCCESS)
        return rc;
    memcpy(&region.at, c->base, sizeof(void *));
    if (c->size > 0) {
        pthread_mutex_lock(&place_lock);
        good = mem_bind(&memory_settings.machine, request, region.at, region.bytes, d, error);
        pthread_mutex_unlock(&place_lock);
    }
    /* A failure for lack of memory is an error under any policy: pages are missing. */
    code = agree(c, good ? MPI_SUCCESS : class_of(error), request, error);
    if (code == MPI_SUCCESS) {
        if (c->size > 0)
            window_keep(c, &region, false);
        return MPI_SUCCESS;
    }
    if (c->size > 0)
        mem_unbind(&memory_settings.machine, region.at, region.bytes);
    hopbyte_depth++;
    NEXT(Win_free)(c->win);
    hopbyte_depth--;
    return error_raise(c->comm, code);
}

/* Whether the call is placed here. Collective: keys of the info object may be missing at some ranks. */
static int window_wanted(const struct call *c, struct mem_request *request, size_t *align, bool *wanted)
{
    struct mem_error error = {0};
    bool good = memory_request(c->info, request, align, &error);
    bool asks = good && (request->kind != MEM_SYSTEM || request->page > memory_settings.machine.base);
    uint64_t hash = memory_settings_hash(request, HOPBYTE_FNV_BASIS);
    uint64_t own[4] = {hash, ~hash, good, !asks}, all[4];
    NEXT(Allreduce)(own, all, 4, MPI_UINT64_T, MPI_MIN, c->comm);
    *wanted = all[3] == 0;
    if (all[2] == 0)
        return error_raise(c->comm, agree(c, good ? MPI_SUCCESS : MPI_ERR_INFO_VALUE, request, &error));
    if (all[0] == ~all[1])
        return MPI_SUCCESS;
    mem_fail(&error, MEM_BAD_VALUE, "ranks ask for different memory: the hopbyte_memory_ keys of the info object must be equal "
                                    "at all ranks");
    return error_raise(c->comm, agree(c, MPI_ERR_INFO_VALUE, request, &error));
}

static int window_place(const struct call *c)
{
    struct mem_request request;
    size_t align;
    bool wanted, made = false;
    if (c->comm == MPI_COMM_NULL || c->size < 0)
        return library_call(c);
    pthread_once(&settings_once, memory_settings_read);
    int rc = window_wanted(c, &request, &align, &wanted);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!wanted)
        return library_call(c);
    struct mem_error error = {0};
    struct mem_delivered *d = calloc(2, sizeof *d);
    if (!d)
        hopbyte_say("no memory for the report of a window; the job ends"), _exit(3);
    if (request.page > memory_settings.machine.base && c->which == CALL_WIN_ALLOCATE)
        rc = window_on_huge_pages(c, &request, align, &d[0], &error, &made);
    if (rc == MPI_SUCCESS && !made) {
        rc = window_on_library(c, &request, &d[1], &error);
        if (*d[0].reason)
            memcpy(d[1].reason, d[0].reason, sizeof d[1].reason);
        else if (*error.text && !*d[1].reason)
            memcpy(d[1].reason, error.text, sizeof d[1].reason);
    }
    if (rc == MPI_SUCCESS && c->size > 0)
        memory_note(c->which, &request, (uint64_t)c->size, made ? &d[0] : &d[1]);
    else if (rc != MPI_SUCCESS)
        memory_note_failed(c->which, &request, (uint64_t)c->size);
    free(d);
    return rc;
}

#define ALLOCATE(name, which, large, unit_type, define)                                                                \
    define(int, name, (MPI_Aint size, unit_type disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)) \
    {                                                                                                                  \
        struct call call = {which, large, size, disp_unit, info, comm, baseptr, win};                                  \
        return hopbyte_depth ? library_call(&call) : window_place(&call);                                              \
    }
#define DEFINE_NEWER(ret, name, params) HOPBYTE_DEFINE_NEWER(ret, MPI, name, params)

ALLOCATE(Win_allocate, CALL_WIN_ALLOCATE, false, int, HOPBYTE_DEFINE)
ALLOCATE(Win_allocate_shared, CALL_WIN_ALLOCATE_SHARED, false, int, HOPBYTE_DEFINE)
ALLOCATE(Win_allocate_c, CALL_WIN_ALLOCATE, true, MPI_Aint, DEFINE_NEWER)
ALLOCATE(Win_allocate_shared_c, CALL_WIN_ALLOCATE_SHARED, true, MPI_Aint, DEFINE_NEWER)

static struct window *window_find(MPI_Win win, bool take)
{
    struct window key = {.win = win}, *found = NULL;
    if (__atomic_load_n(&window_count, __ATOMIC_RELAXED) == 0)
        return NULL;
    pthread_mutex_lock(&table_lock);
    struct window **node = tfind(&key, &windows, by_window);
    found = node ? *node : NULL;
    if (found && take) {
        tdelete(found, &windows, by_window);
        __atomic_fetch_sub(&window_count, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&table_lock);
    return found;
}

HOPBYTE_DEFINE(int, Win_free, (MPI_Win * win))
{
    struct window *found = win ? window_find(*win, true) : NULL;
    if (!found)
        return NEXT(Win_free)(win);
    /* The library may use this memory again: without the policy. */
    if (!found->own)
        mem_unbind(&memory_settings.machine, found->region.at, found->region.bytes);
    hopbyte_depth++;
    int rc = NEXT(Win_free)(win);
    hopbyte_depth--;
    if (rc == MPI_SUCCESS && found->own && found->region.at)
        mem_unmap(&found->region);
    free(found);
    return rc;
}

/* A window on huge pages is still one that MPI_Win_allocate made. */
HOPBYTE_DEFINE(int, Win_get_attr, (MPI_Win win, int keyval, void *value, int *flag))
{
    static int allocate = MPI_WIN_FLAVOR_ALLOCATE;
    int rc = NEXT(Win_get_attr)(win, keyval, value, flag);
    if (rc == MPI_SUCCESS && keyval == MPI_WIN_CREATE_FLAVOR && *flag) {
        const struct window *found = window_find(win, false);
        int *pointer = &allocate;
        if (found && found->own)
            memcpy(value, &pointer, sizeof pointer);
    }
    return rc;
}
