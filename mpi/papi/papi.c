/* The counters of hopbyte's libraries as software-defined events of PAPI, sde:::hopbyte::NAME, for programs and tools that
 * read PAPI. The events are those of ../common/pvars.h; PAPI's values are whole numbers, so seconds become nanoseconds.
 * Calls no MPI, and finds PAPI's libsde when the program starts. */
#define _GNU_SOURCE
#include "../common/pvars.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETS = 6, SDE_DELTA = 0x00, SDE_INSTANT = 0x10, SDE_LONG_LONG = 0 }; /* sde_lib.h of PAPI 6 and 7 */

typedef long long (*callback)(void *);
struct event {
    const struct hopbyte_pvars *set;
    int index;
    bool real;
    long long last; /* given again where there is no value now */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *const names[SETS] = HOPBYTE_PVAR_LIBRARIES;
static int registered[SETS];
static void *handle;
static int (*counter_register)(void *, const char *, int, int, callback, void *);
static int (*counter_describe)(void *, const char *, const char *);

static void say(const char *text)
{
    char line[256];
    int length = snprintf(line, sizeof line, "hopbyte papi: %s\n", text);
    ssize_t written = write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    (void)written;
}

static long long event_read(void *argument)
{
    struct event *event = argument;
    struct hopbyte_pvar_value value = {.count = 0};
    if (event->set->read(event->index, &value))
        __atomic_store_n(&event->last, event->real ? (long long)(1e9 * value.seconds) : (long long)value.count,
                         __ATOMIC_RELAXED);
    return __atomic_load_n(&event->last, __ATOMIC_RELAXED);
}

static bool event_add(const struct hopbyte_pvars *set, int index)
{
    const struct hopbyte_pvar *variable = set->at(index);
    struct event *event = calloc(1, sizeof *event);
    char name[256];
    bool as_it_is = variable->kind == HOPBYTE_PVAR_LEVEL || variable->kind == HOPBYTE_PVAR_HIGHEST;
    if (!event)
        return false;
    *event = (struct event){set, index, variable->real, 0};
    size_t length = strlen(variable->name), stem = length > 8 ? length - 8 : 0;
    bool seconds = variable->real && strcmp(variable->name + stem, "_seconds") == 0;
    snprintf(name, sizeof name, "%.*s%s", seconds ? (int)stem : (int)length, variable->name, seconds ? "_nanoseconds" : "");
    if (counter_register(handle, name, as_it_is ? SDE_INSTANT : SDE_DELTA, SDE_LONG_LONG, event_read, event) != 0) {
        free(event);
        return false;
    }
    if (counter_describe)
        counter_describe(handle, name, variable->text);
    return true;
}

/* Registers what is new; libhopbyte_gm calls it too, which has variables only after its start. */
__attribute__((visibility("default"))) void hopbyte_pvars_grown(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; handle && i < SETS; i++) {
        char symbol[64];
        snprintf(symbol, sizeof symbol, "hopbyte_pvars_%s", names[i]);
        const struct hopbyte_pvars *set = dlsym(RTLD_DEFAULT, symbol);
        if (!set || set->size != (int)sizeof *set)
            continue;
        while (registered[i] < set->count() && event_add(set, registered[i]))
            registered[i]++;
    }
    pthread_mutex_unlock(&lock);
}

static void *sde(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    static const char *const files[] = {"libsde.so.1.0", "libsde.so.1", "libsde.so"};
    /* PAPI looks for the library's functions among all symbols of the program. */
    for (size_t i = 0; !found && i < sizeof files / sizeof *files; i++) {
        void *library = dlopen(files[i], RTLD_NOW | RTLD_GLOBAL);
        found = library ? dlsym(library, name) : NULL;
    }
    return found;
}

__attribute__((constructor)) static void papi_start(void)
{
    if (!dlsym(RTLD_DEFAULT, "MPI_Init"))
        return;
    void *(*init)(const char *) = (void *(*)(const char *))sde("papi_sde_init");
    void *add = init ? sde("papi_sde_register_counter_cb") : NULL;
    if (init && !add)
        add = sde("papi_sde_register_fp_counter"); /* PAPI 6 */
    if (!add) {
        say("PAPI's libsde is not here (Debian: libsde1): no events; the same counters are in MPI_T by libhopbyte_mpit");
        return;
    }
    counter_register = (int (*)(void *, const char *, int, int, callback, void *))add;
    counter_describe = (int (*)(void *, const char *, const char *))sde("papi_sde_describe_counter");
    handle = init("hopbyte");
    hopbyte_pvars_grown();
}
