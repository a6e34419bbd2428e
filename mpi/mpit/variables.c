/* Numbers, names and properties of performance variables. */
#include "mpit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char hopbyte_tool[] = "mpit";

const struct hopbyte_pvars *hopbyte_mpit_sets[MPIT_SETS];
const char *const hopbyte_mpit_names[MPIT_SETS] = HOPBYTE_PVAR_LIBRARIES;
struct hopbyte_mpit_list hopbyte_mpit_variables;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listed[MPIT_SETS]; /* variables of each set that have a number */

void hopbyte_mpit_lock(void)
{
    pthread_mutex_lock(&lock);
}

void hopbyte_mpit_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void sets_find(void)
{
    for (int i = 0; i < MPIT_SETS; i++) {
        char symbol[64];
        if (hopbyte_mpit_sets[i])
            continue;
        snprintf(symbol, sizeof symbol, "hopbyte_pvars_%s", hopbyte_mpit_names[i]);
        const struct hopbyte_pvars *set = dlsym(RTLD_DEFAULT, symbol);
        static bool told;
        if (set && set->size != (int)sizeof *set) {
            if (!told)
                hopbyte_say("libhopbyte_%s is of another version than this library; its variables are left out",
                            hopbyte_mpit_names[i]);
            told = true;
            continue;
        }
        hopbyte_mpit_sets[i] = set;
    }
}

bool hopbyte_mpit_append(struct hopbyte_mpit_list *list, int set, int at)
{
    if (list->count == list->room) {
        int room = list->room ? 2 * list->room : 64;
        struct hopbyte_mpit_entry *more = realloc(list->entries, (size_t)room * sizeof *more);
        if (!more)
            return false;
        list->entries = more;
        list->room = room;
    }
    if (set < 0 && at >= list->their_room) {
        int room = list->their_room ? 2 * list->their_room : 64;
        int *more = realloc(list->theirs, (size_t)room * sizeof *more);
        if (!more)
            return false;
        list->theirs = more;
        list->their_room = room;
    }
    if (set < 0)
        list->theirs[list->their_count++] = list->count;
    list->entries[list->count++] = (struct hopbyte_mpit_entry){set, at};
    return true;
}

int hopbyte_mpit_refresh(void)
{
    int count = 0, rc = NEXT(T_pvar_get_num)(&count);
    bool fine = true;
    if (rc != MPI_SUCCESS)
        return rc;
    sets_find();
    for (int i = 0; i < MPIT_SETS; i++)
        while (fine && hopbyte_mpit_sets[i] && listed[i] < hopbyte_mpit_sets[i]->count())
            if ((fine = hopbyte_mpit_append(&hopbyte_mpit_variables, i, listed[i])))
                listed[i]++;
    while (fine && hopbyte_mpit_variables.their_count < count)
        fine = hopbyte_mpit_append(&hopbyte_mpit_variables, -1, hopbyte_mpit_variables.their_count);
    return fine ? MPI_SUCCESS : MPI_T_ERR_MEMORY;
}

bool hopbyte_mpit_find(int index, struct hopbyte_mpit_entry *entry)
{
    if (index >= hopbyte_mpit_variables.count)
        hopbyte_mpit_refresh();
    if (index < 0 || index >= hopbyte_mpit_variables.count)
        return false;
    *entry = hopbyte_mpit_variables.entries[index];
    return true;
}

const struct hopbyte_pvar *hopbyte_mpit_variable(struct hopbyte_mpit_entry entry)
{
    return hopbyte_mpit_sets[entry.set]->at(entry.at);
}

void hopbyte_mpit_text(const char *from, char *to, int *length)
{
    int needed = (int)strlen(from) + 1;
    if (!length)
        return;
    if (to && *length > 0) {
        int kept = needed < *length ? needed : *length;
        memcpy(to, from, (size_t)kept - 1);
        to[kept - 1] = 0;
    }
    *length = needed;
}

static int class_of(enum hopbyte_pvar_class kind)
{
    switch (kind) {
    case HOPBYTE_PVAR_AGGREGATE:
        return MPI_T_PVAR_CLASS_AGGREGATE;
    case HOPBYTE_PVAR_TIMER:
        return MPI_T_PVAR_CLASS_TIMER;
    case HOPBYTE_PVAR_LEVEL:
        return MPI_T_PVAR_CLASS_LEVEL;
    case HOPBYTE_PVAR_HIGHEST:
        return MPI_T_PVAR_CLASS_HIGHWATERMARK;
    default:
        return MPI_T_PVAR_CLASS_COUNTER;
    }
}

#define GIVE(to, value)                                                                                                \
    do {                                                                                                               \
        if (to)                                                                                                        \
            *(to) = (value);                                                                                           \
    } while (0)

HOPBYTE_DEFINE(int, T_pvar_get_num, (int *num_pvar))
{
    hopbyte_mpit_lock();
    int rc = hopbyte_mpit_refresh();
    if (rc == MPI_SUCCESS)
        *num_pvar = hopbyte_mpit_variables.count;
    hopbyte_mpit_unlock();
    return rc;
}

HOPBYTE_DEFINE(int, T_pvar_get_info,
               (int pvar_index, char *name, int *name_len, int *verbosity, int *var_class, MPI_Datatype *datatype,
                MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind, int *readonly, int *continuous,
                int *atomic))
{
    struct hopbyte_mpit_entry entry;
    int count, rc = NEXT(T_pvar_get_num)(&count);
    if (rc != MPI_SUCCESS)
        return rc;
    hopbyte_mpit_lock();
    bool found = hopbyte_mpit_find(pvar_index, &entry);
    hopbyte_mpit_unlock();
    if (!found)
        return MPI_T_ERR_INVALID_INDEX;
    if (entry.set < 0)
        return NEXT(T_pvar_get_info)(entry.at, name, name_len, verbosity, var_class, datatype, enumtype, desc, desc_len,
                                     bind, readonly, continuous, atomic);
    const struct hopbyte_pvar *v = hopbyte_mpit_variable(entry);
    bool as_it_is = v->kind == HOPBYTE_PVAR_LEVEL || v->kind == HOPBYTE_PVAR_HIGHEST;
    hopbyte_mpit_text(v->name, name, name_len);
    hopbyte_mpit_text(v->text, desc, desc_len);
    GIVE(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    GIVE(var_class, class_of(v->kind));
    GIVE(datatype, v->real ? MPI_DOUBLE : MPI_UNSIGNED_LONG_LONG);
    GIVE(enumtype, MPI_T_ENUM_NULL);
    GIVE(bind, MPI_T_BIND_NO_OBJECT);
    GIVE(readonly, as_it_is);
    GIVE(continuous, as_it_is);
    GIVE(atomic, 0);
    return MPI_SUCCESS;
}

/* MPI_SUCCESS, MPI_T_ERR_INVALID_NAME for a name of another class, or -1 for a name that is not hopbyte's. */
static int own_index(const char *name, int var_class, int *index)
{
    for (int i = 0; i < hopbyte_mpit_variables.count; i++) {
        struct hopbyte_mpit_entry entry = hopbyte_mpit_variables.entries[i];
        if (entry.set < 0)
            continue;
        const struct hopbyte_pvar *v = hopbyte_mpit_variable(entry);
        if (strcmp(v->name, name) != 0)
            continue;
        if (class_of(v->kind) != var_class)
            return MPI_T_ERR_INVALID_NAME;
        *index = i;
        return MPI_SUCCESS;
    }
    return -1;
}

HOPBYTE_DEFINE(int, T_pvar_get_index, (const char *name, int var_class, int *pvar_index))
{
    int theirs;
    hopbyte_mpit_lock();
    int rc = hopbyte_mpit_refresh();
    if (rc == MPI_SUCCESS && name && pvar_index && (rc = own_index(name, var_class, pvar_index)) >= 0) {
        hopbyte_mpit_unlock();
        return rc;
    }
    if (rc == -1 || rc == MPI_SUCCESS)
        rc = NEXT(T_pvar_get_index)(name, var_class, pvar_index ? &theirs : NULL);
    if (rc == MPI_SUCCESS && pvar_index) {
        hopbyte_mpit_refresh();
        if (theirs >= 0 && theirs < hopbyte_mpit_variables.their_count)
            *pvar_index = hopbyte_mpit_variables.theirs[theirs];
        else
            rc = MPI_T_ERR_INVALID_NAME;
    }
    hopbyte_mpit_unlock();
    return rc;
}
