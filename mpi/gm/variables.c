/* Counters of links as performance variables (../common/pvars.h): one for each link and column of the domains that this
 * rank reads. The first state offers them; a later one for the same links takes their place when it is gone. */
#include "gm.h"

#include "../common/pvars.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct variable {
    struct hopbyte_pvar shown;
    int domain, cell;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Variables never move, since tools may hold their names: pointers to them are in a list that grows. */
static struct variable **variables;
static int variable_count;
static void *names; /* the same as a tree by name: a machine has a million links */
static struct hopbyte_gm *source;
static uint32_t sources; /* states so far: totals of another one do not continue these */

void gm_pvars_lock(void)
{
    pthread_mutex_lock(&lock);
}

void gm_pvars_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Letters and digits of a text in lower case, the rest as single underlines. */
static void word_add(char *name, size_t room, const char *text)
{
    size_t used = strlen(name);
    for (; *text && used + 1 < room; text++) {
        bool plain = isalnum((unsigned char)*text) || *text == '+' || *text == '-';
        if (*text == '+' || (*text == '-' && !text[1]))
            used += (size_t)snprintf(name + used, room - used, *text == '+' ? "plus" : "minus");
        else if (plain && *text != '-')
            name[used++] = (char)tolower((unsigned char)*text);
        else if (used && name[used - 1] != '_')
            name[used++] = '_';
        used = used < room ? used : room - 1;
        name[used] = 0;
    }
}

static struct variable *variable_make(const struct hopbyte_gm *gm, int domain, int cell)
{
    const struct gm_domain *d = &gm->domains[domain];
    const struct gm_link *link = &d->links[cell / GM_COLUMNS];
    const char *title = gm_source_facts[gm->source].titles[cell % GM_COLUMNS];
    char name[256] = "hopbyte_gm_", *text = NULL;
    word_add(name, sizeof name, d->id);
    word_add(name, sizeof name, "_");
    word_add(name, sizeof name, link->direction);
    word_add(name, sizeof name, "_");
    word_add(name, sizeof name, title);
    struct variable *v = calloc(1, sizeof *v);
    if (!v || asprintf(&text, "%s of link %s of %s (%s); arrivals are counted where they arrive", title, link->direction,
                       d->title, gm_source_facts[gm->source].name) < 0 ||
        !(v->shown.name = strdup(name))) {
        free(v);
        return NULL;
    }
    v->shown.text = text;
    v->shown.kind = strstr(title, "BYTES") ? HOPBYTE_PVAR_AGGREGATE : HOPBYTE_PVAR_COUNTER;
    v->domain = domain;
    v->cell = cell;
    return v;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct variable *)a)->shown.name, ((const struct variable *)b)->shown.name);
}

static void variable_free(struct variable *v)
{
    free((char *)v->shown.name);
    free((char *)v->shown.text);
    free(v);
}

/* Room for one more; doubles it when the count is a power of two. */
static bool variables_grow(void)
{
    if (variable_count & (variable_count - 1))
        return true;
    size_t room = variable_count ? 2 * (size_t)variable_count : 1;
    struct variable **more = realloc(variables, room * sizeof *variables);
    variables = more ? more : variables;
    return more;
}

/* The lock is held. */
static void variable_offer(struct variable *v)
{
    struct variable **found = variables_grow() ? tsearch(v, &names, by_name) : NULL;
    if (found && *found == v) {
        variables[variable_count] = v;
        __atomic_store_n(&variable_count, variable_count + 1, __ATOMIC_RELEASE);
        return;
    }
    if (found) {
        (*found)->domain = v->domain;
        (*found)->cell = v->cell;
    }
    variable_free(v);
}

void gm_pvars_add(struct hopbyte_gm *gm)
{
    gm_pvars_lock();
    for (int i = 0; i < variable_count; i++)
        variables[i]->domain = source ? variables[i]->domain : -1;
    if (!source) {
        source = gm;
        sources++;
        for (int i = 0; i < gm->domain_count; i++)
            for (int cell = 0; cell < gm->domains[i].link_count * GM_COLUMNS; cell++) {
                struct variable *v = variable_make(gm, i, cell);
                if (v)
                    variable_offer(v);
            }
    }
    gm_pvars_unlock();
    /* Of libhopbyte_papi, whose events have to be announced. */
    void (*grown)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "hopbyte_pvars_grown");
    if (grown)
        grown();
}

void gm_pvars_remove(struct hopbyte_gm *gm)
{
    gm_pvars_lock();
    if (source == gm)
        source = NULL;
    gm_pvars_unlock();
}

static int offered_count(void)
{
    return __atomic_load_n(&variable_count, __ATOMIC_ACQUIRE);
}

static const struct hopbyte_pvar *offered_at(int index)
{
    gm_pvars_lock();
    const struct hopbyte_pvar *shown = &variables[index]->shown;
    gm_pvars_unlock();
    return shown;
}

static bool offered_read(int index, struct hopbyte_pvar_value *value)
{
    gm_pvars_lock();
    const struct variable *v = variables[index];
    bool there = source && v->domain >= 0;
    if (there) {
        struct gm_domain *d = &source->domains[v->domain];
        gm_domain_refresh(source, d);
        value->count = d->now[v->cell].total;
        value->breaks = d->now[v->cell].breaks + (sources << 24);
    }
    gm_pvars_unlock();
    return there;
}

HOPBYTE_PVARS_DEFINE(gm, "Counters of the network's links that this process reads (libhopbyte_gm)", offered_count,
                     offered_at, offered_read);
