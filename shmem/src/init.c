/* Start and end of the library, around those of the OpenSHMEM library that it precedes in the link order. */
#define _GNU_SOURCE
#include "state.h"

#include <dlfcn.h>
#include <shmem.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct shmem_state hopbyte_shmem;
static bool library_on;
static int in_call;

void shmem_say(const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, "hopbyte shmem: %s\n", line);
}

_Noreturn void shmem_fail(const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (library_on)
        fprintf(stderr, "hopbyte shmem: PE %d: %s\n", hopbyte_shmem.me, line);
    else
        fprintf(stderr, "hopbyte shmem: %s\n", line);
    fflush(NULL);
    if (library_on)
        shmem_global_exit(2);
    _exit(2);
}

void *shmem_next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "hopbyte shmem: no OpenSHMEM library behind this one has %s\n", name);
        _exit(3);
    }
    return found;
}

double shmem_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void shmem_need_on(const char *call)
{
    if (!hopbyte_shmem.on)
        shmem_fail("%s: called before shmem_init or after shmem_finalize", call);
}

void shmem_enter(const char *call)
{
    shmem_need_on(call);
    if (__atomic_exchange_n(&in_call, 1, __ATOMIC_ACQUIRE))
        shmem_fail("%s: two threads of a PE are in collective calls at once; one at a time may be", call);
}

void shmem_leave(void)
{
    __atomic_store_n(&in_call, 0, __ATOMIC_RELEASE);
}

/* --- settings --- */

static bool flag(const char *name)
{
    const char *text = getenv(name);
    return text && *text && strcmp(text, "0") != 0;
}

static double positive(const char *name, double otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return otherwise;
    double value = strtod(text, &end);
    if (*end || !(value > 0))
        shmem_fail("%s=\"%s\": expected a number above 0", name, text);
    return value;
}

static const char *const rate_names[] = {"HOPBYTE_SHMEM_NETWORK_LATENCY", "HOPBYTE_SHMEM_NETWORK_BANDWIDTH",
                                         "HOPBYTE_SHMEM_NODE_LATENCY", "HOPBYTE_SHMEM_NODE_BANDWIDTH",
                                         "HOPBYTE_SHMEM_FOLD_BANDWIDTH"};
static const char *const settings[] = {"SHMEM_USE_LARGE_OPT_REDUCE",
                                       "SHMEM_REDUCE_CUTOFF_SIZE",
                                       "SHMEM_TEAM_SMP_REDUCE",
                                       "HOPBYTE_SHMEM_REDUCE",
                                       "HOPBYTE_SHMEM_ACTIVE_SETS",
                                       "HOPBYTE_SHMEM_STAGE",
                                       "HOPBYTE_SHMEM_CHECK",
                                       "HOPBYTE_SHMEM_CALIBRATE",
                                       "HOPBYTE_SHMEM_PES_PER_NODE",
                                       "SHMEM_ALLTOALLV_TSIZE_CHK"};

static uint64_t hash(uint64_t seed, const char *text)
{
    for (; *text; text++)
        seed = (seed ^ (unsigned char)*text) * 0x100000001b3;
    return (seed ^ 0xff) * 0x100000001b3;
}

static uint64_t settings_hash(void)
{
    uint64_t found = 0xcbf29ce484222325;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        found = hash(found, getenv(settings[i]) ? getenv(settings[i]) : "-");
    for (size_t i = 0; i < sizeof rate_names / sizeof *rate_names; i++)
        found = hash(found, getenv(rate_names[i]) ? getenv(rate_names[i]) : "-");
    return partition_hash(found);
}

/* Everything that can be refused is refused before the OpenSHMEM library starts. */
static void settings_read(void)
{
    uint64_t stage = 4 << 20;
    const char *text = getenv("HOPBYTE_SHMEM_STAGE");
    if (text && *text && (!settings_bytes(text, &stage) || stage < 4096 || stage > (uint64_t)1 << 40))
        shmem_fail("HOPBYTE_SHMEM_STAGE=\"%s\": expected bytes from 4K up", text);
    hopbyte_shmem.stage_bytes = (size_t)stage / 64 * 64;
    hopbyte_shmem.verbose = flag("HOPBYTE_SHMEM_VERBOSE");
    hopbyte_shmem.check = flag("HOPBYTE_SHMEM_CHECK");
    hopbyte_shmem.timeout = positive("HOPBYTE_SHMEM_TIMEOUT", 0);
    positive("HOPBYTE_SHMEM_PES_PER_NODE", 1);
    /* 10 GbE or so, and two cores of one memory: only their ratio matters for the choice. */
    hopbyte_shmem.rates = (struct cost_rates){positive(rate_names[0], 2e-6), positive(rate_names[1], 10e9),
                                              positive(rate_names[2], 0.5e-6), positive(rate_names[3], 5e9),
                                              positive(rate_names[4], 5e9)};
    hopbyte_shmem.rates_from = "uncalibrated";
    for (size_t i = 0; i < sizeof rate_names / sizeof *rate_names; i++)
        if (getenv(rate_names[i]) && *getenv(rate_names[i]))
            hopbyte_shmem.rates_from = "rates from the environment";
    if (!reduce_settings_read())
        _exit(2);
    partition_settings_read();
}

/* The symmetric heap must hold the program's data and the library's own. The number of PEs is not known
 * before the start; 10^5 of them take 17 MB. Libraries know one or two of the names (Open MPI 4.1 not the standard's), so
 * all are set; their defaults are 64 MB to 256 MB. */
static void heap_grow(void)
{
    static const char *const names[] = {"SHMEM_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_HEAP_SIZE", "SMA_SYMMETRIC_SIZE"};
    uint64_t more = channel_symmetric_bytes(1 << 14, hopbyte_shmem.stage_bytes) + partition_symmetric_bytes();
    uint64_t usual = (uint64_t)256 << 20;
    bool found = false;
    for (int i = 2; i >= 0; i--)
        found |= getenv(names[i]) && settings_bytes(getenv(names[i]), &usual);
    for (int i = 0; i < 3 && (found || more > 16 << 20); i++) {
        char text[32];
        uint64_t has = usual;
        if (getenv(names[i]) && !settings_bytes(getenv(names[i]), &has))
            continue;
        snprintf(text, sizeof text, "%llu", (unsigned long long)(has + more));
        setenv(names[i], text, 1);
    }
}

/* --- nodes --- */

static uint64_t node_hash(void)
{
    char host[256] = "";
    const char *text = getenv("HOPBYTE_SHMEM_PES_PER_NODE");
    int per_node = text ? atoi(text) : 0;
    if (per_node > 0)
        return (uint64_t)(hopbyte_shmem.me / per_node);
    gethostname(host, sizeof host - 1);
    return hash(0xcbf29ce484222325, host);
}

struct host {
    uint64_t hash;
    int pe;
};

static int by_hash(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->pe > y->pe) - (x->pe < y->pe);
}

/* Numbers nodes in order of their first PE. */
static void nodes_number(const uint64_t *board)
{
    int n = hopbyte_shmem.pes, *first = calloc((size_t)n, sizeof *first);
    struct host *hosts = calloc((size_t)n, sizeof *hosts);
    hopbyte_shmem.node = calloc((size_t)n, sizeof *hopbyte_shmem.node);
    if (!first || !hosts || !hopbyte_shmem.node)
        shmem_fail("no memory for %d PEs", n);
    for (int pe = 0; pe < n; pe++)
        hosts[pe] = (struct host){board[2 * pe], pe};
    qsort(hosts, (size_t)n, sizeof *hosts, by_hash);
    for (int i = 0, start = 0; i < n; i++) {
        start = i && hosts[i].hash == hosts[i - 1].hash ? start : i;
        first[hosts[i].pe] = hosts[start].pe;
    }
    for (int pe = 0; pe < n; pe++)
        hopbyte_shmem.node[pe] = first[pe] == pe ? hopbyte_shmem.nodes++ : hopbyte_shmem.node[first[pe]];
    free(first);
    free(hosts);
}

static void nodes_learn(void)
{
    int n = hopbyte_shmem.pes;
    long *sync = shmem_malloc(SHMEM_COLLECT_SYNC_SIZE * sizeof *sync);
    uint64_t *mine = shmem_malloc(2 * sizeof *mine), *board = shmem_malloc(2 * (size_t)n * sizeof *board);
    if (!sync || !mine || !board)
        shmem_fail("no symmetric memory: raise SHMEM_SYMMETRIC_SIZE");
    for (int i = 0; i < SHMEM_COLLECT_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    mine[0] = node_hash();
    mine[1] = settings_hash();
    shmem_barrier_all();
    shmem_fcollect64(board, mine, 2, 0, 0, n, sync);
    for (int pe = 0; pe < n; pe++)
        if (board[2 * pe + 1] != board[1])
            shmem_fail("PE %d has other SHMEM_ or HOPBYTE_SHMEM_ variables in its environment than PE 0", pe);
    nodes_number(board);
    shmem_barrier_all();
    shmem_free(board);
    shmem_free(mine);
    shmem_free(sync);
}

/* --- the calls --- */

static void library_open(void)
{
    library_on = true;
    hopbyte_shmem.me = shmem_my_pe();
    hopbyte_shmem.pes = shmem_n_pes();
    nodes_learn();
    channel_open();
    team_open();
    partition_open();
    hopbyte_shmem.on = true;
    const char *early = getenv("SHMEM_DMAPP_PUT_NBI");
    if (hopbyte_shmem.me == 0 && early && strcmp(early, "0") == 0)
        shmem_say("SHMEM_DMAPP_PUT_NBI=0 is not delivered: a put of this library returns before its data has arrived; call "
                  "shmem_quiet after it");
    if (flag("HOPBYTE_SHMEM_CALIBRATE"))
        hopbyte_shmem_calibrate();
}

static int depth; /* the library's start functions may call each other */

static bool opens(void)
{
    if (depth++ || library_on)
        return false;
    settings_read();
    heap_grow();
    return true;
}

static void opened(bool first)
{
    depth--;
    if (first)
        library_open();
}

void shmem_init(void)
{
    bool first = opens();
    ((void (*)(void))shmem_next("shmem_init"))();
    opened(first);
}

int shmem_init_thread(int requested, int *provided)
{
    bool first = opens();
    int status = ((int (*)(int, int *))shmem_next("shmem_init_thread"))(requested, provided);
    opened(first && status == 0);
    return status;
}

void start_pes(int unused)
{
    bool first = opens();
    ((void (*)(int))shmem_next("start_pes"))(unused);
    opened(first);
}

void shmem_finalize(void)
{
    if (hopbyte_shmem.on) {
        partition_close();
        team_close();
        hopbyte_shmem.on = false;
    }
    ((void (*)(void))shmem_next("shmem_finalize"))();
    library_on = false;
}
