#include "ask.h"

#include <hopbyte.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Functions used from the library. */
#define EACH(X)                                                                                                        \
    X(version)                                                                                                         \
    X(error_text)                                                                                                      \
    X(machine_open)                                                                                                    \
    X(machine_close)                                                                                                   \
    X(machine_find_node)                                                                                               \
    X(oracle_connect)                                                                                                  \
    X(oracle_refresh)                                                                                                  \
    X(oracle_close)                                                                                                    \
    X(traffic_create)                                                                                                  \
    X(traffic_add)                                                                                                     \
    X(traffic_free)                                                                                                    \
    X(mapping_create)                                                                                                  \
    X(mapping_places)                                                                                                  \
    X(mapping_worth)                                                                                                   \
    X(mapping_free)

struct library {
#define POINTER(name) __typeof__(&hopbyte_##name) name;
    EACH(POINTER)
};

struct hopbyte_ask {
    struct library lib;
    hopbyte_machine *machine;
    hopbyte_oracle *oracle;
    int ranks;
    size_t nodes;                         /* distinct nodes */
    uint32_t *node, *slots;               /* of each: its number, and the ranks on it */
    int *place;                           /* of each rank: the position of its node */
    uint32_t *current, *places;           /* of each block, as the library wants them */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool library_load(struct library *lib, const char *path, char *problem, size_t room) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(problem, room, "%s; it comes with make install, or name it: --library target/release/libhopbyte.so",
                 dlerror());
        return false;
    }
#define LOOK_UP(name)                                                                                                  \
    *(void **)&lib->name = dlsym(handle, "hopbyte_" #name);                                                            \
    if (!lib->name) {                                                                                                  \
        snprintf(problem, room, "%s: found no function hopbyte_%s", path, #name);                                      \
        return false;                                                                                                  \
    }
    EACH(LOOK_UP)
    if (lib->version() != HOPBYTE_VERSION) {
        snprintf(problem, room, "%s: found interface %d, expected %d", path, lib->version(), HOPBYTE_VERSION);
        return false;
    }
    return true;
}

/* Finds the distinct nodes of the ranks. */
static bool nodes_find(struct hopbyte_ask *ask, const char *const *names) {
    for (int rank = 0; rank < ask->ranks; rank++) {
        uint32_t node;
        size_t at = 0;
        if (ask->lib.machine_find_node(ask->machine, names[rank], &node) != HOPBYTE_OK)
            return false;
        while (at < ask->nodes && ask->node[at] != node)
            at++;
        if (at == ask->nodes)
            ask->node[ask->nodes++] = node;
        ask->slots[at]++;
        ask->place[rank] = (int)at;
    }
    return true;
}

struct hopbyte_ask *hopbyte_ask_open(const char *library, const char *fabric, const char *oracle, int ranks,
                                     const char *const *nodes, char *problem, size_t room) {
    size_t n = (size_t)ranks;
    struct hopbyte_ask *ask = calloc(1, sizeof *ask);
    uint32_t *numbers = calloc(4 * n, sizeof *numbers);
    int *place = calloc(n, sizeof *place);
    if (!ask || !numbers || !place) {
        snprintf(problem, room, "no memory for %d ranks", ranks);
        free(ask);
        free(numbers);
        free(place);
        return NULL;
    }
    *ask = (struct hopbyte_ask){.ranks = ranks, .node = numbers, .slots = numbers + n, .place = place,
                                .current = numbers + 2 * n, .places = numbers + 3 * n};
    if (!library_load(&ask->lib, library, problem, room)) {
        hopbyte_ask_close(ask);
        return NULL;
    }
    ask->machine = ask->lib.machine_open(fabric, NULL);
    bool found = ask->machine && nodes_find(ask, nodes);
    if (found)
        ask->oracle = ask->lib.oracle_connect(ask->machine, oracle);
    if (!ask->oracle) {
        snprintf(problem, room, "%s", ask->lib.error_text());
        hopbyte_ask_close(ask);
        return NULL;
    }
    return ask;
}

void hopbyte_ask_close(struct hopbyte_ask *ask) {
    if (!ask)
        return;
    if (ask->oracle)
        ask->lib.oracle_close(ask->oracle);
    if (ask->machine)
        ask->lib.machine_close(ask->machine);
    free(ask->node);
    free(ask->place);
    free(ask);
}

/* Assigns blocks to ranks: first those that stay, then the others in their order. */
static void ranks_give(const struct hopbyte_ask *ask, const int *block_of, int *next) {
    for (int rank = 0; rank < ask->ranks; rank++) {
        bool stays = ask->places[block_of[rank]] == ask->node[ask->place[rank]];
        next[rank] = stays ? block_of[rank] : -1;
    }
    for (int rank = 0; rank < ask->ranks; rank++) {
        int block = block_of[rank];
        if (next[rank] == block)
            continue;
        for (int other = 0; other < ask->ranks; other++)
            if (next[other] < 0 && ask->node[ask->place[other]] == ask->places[block]) {
                next[other] = block;
                break;
            }
    }
}

bool hopbyte_ask_map(struct hopbyte_ask *ask, size_t count, const uint32_t *from, const uint32_t *to,
                     const double *bytes, const int *block_of, double seconds, int *next, struct hopbyte_asked *asked,
                     char *problem, size_t room) {
    const struct library *lib = &ask->lib;
    const hopbyte_map_options options = {.objective = HOPBYTE_WORST_LINK, .seconds = seconds, .seed = 1, .threads = 1};
    hopbyte_map_worth worth;
    uint64_t version;
    for (int rank = 0; rank < ask->ranks; rank++)
        ask->current[block_of[rank]] = ask->node[ask->place[rank]];
    double start = now();
    hopbyte_status status = lib->oracle_refresh(ask->oracle, &version, NULL);
    double fresh = now();
    hopbyte_traffic *traffic = status == HOPBYTE_OK ? lib->traffic_create((size_t)ask->ranks) : NULL;
    if (traffic)
        status = lib->traffic_add(traffic, count, from, to, bytes);
    hopbyte_mapping *mapping = NULL;
    if (traffic && status == HOPBYTE_OK)
        mapping = lib->mapping_create(ask->machine, ask->oracle, traffic, ask->nodes, ask->node, ask->slots,
                                      ask->current, &options);
    bool done = mapping && lib->mapping_places(mapping, ask->places, NULL) == HOPBYTE_OK &&
                lib->mapping_worth(mapping, &worth) == HOPBYTE_OK;
    if (done) {
        ranks_give(ask, block_of, next);
        *asked = (struct hopbyte_asked){worth.version, worth.before_seconds, worth.after_seconds, worth.bound_seconds,
                                        fresh - start, now() - fresh};
    } else {
        snprintf(problem, room, "%s", lib->error_text());
    }
    lib->mapping_free(mapping);
    lib->traffic_free(traffic);
    return done;
}
