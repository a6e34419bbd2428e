/* Categories: "hopbyte" with one for each library that has variables, then those of the MPI library. */
#include "mpit.h"

#include <stdio.h>
#include <string.h>

enum { ROOT = MPIT_SETS }; /* the set number of the category "hopbyte" */

static struct hopbyte_mpit_list categories;
static bool has_category[MPIT_SETS + 1];

static int set_size(int set)
{
    return hopbyte_mpit_sets[set] ? hopbyte_mpit_sets[set]->count() : 0;
}

/* The lock is held. */
static int categories_refresh(void)
{
    int count = 0, rc = NEXT(T_category_get_num)(&count);
    if (rc == MPI_SUCCESS)
        rc = hopbyte_mpit_refresh();
    if (rc != MPI_SUCCESS)
        return rc;
    bool fine = has_category[ROOT] || (has_category[ROOT] = hopbyte_mpit_append(&categories, ROOT, 0));
    for (int i = 0; fine && i < MPIT_SETS; i++)
        if (!has_category[i] && set_size(i) > 0)
            fine = has_category[i] = hopbyte_mpit_append(&categories, i, 0);
    while (fine && categories.their_count < count)
        fine = hopbyte_mpit_append(&categories, -1, categories.their_count);
    return fine ? MPI_SUCCESS : MPI_T_ERR_MEMORY;
}

static int category_find(int index, struct hopbyte_mpit_entry *entry)
{
    int rc = categories_refresh();
    if (rc != MPI_SUCCESS)
        return rc;
    if (index < 0 || index >= categories.count)
        return MPI_T_ERR_INVALID_INDEX;
    *entry = categories.entries[index];
    return MPI_SUCCESS;
}

static int category_entry(int index, struct hopbyte_mpit_entry *entry)
{
    hopbyte_mpit_lock();
    int rc = category_find(index, entry);
    hopbyte_mpit_unlock();
    return rc;
}

static void category_name(int set, char name[64])
{
    snprintf(name, 64, set == ROOT ? "hopbyte" : "hopbyte_%s", set == ROOT ? "" : hopbyte_mpit_names[set]);
}

static int children(void)
{
    int count = 0;
    for (int i = 0; i < MPIT_SETS; i++)
        count += has_category[i];
    return count;
}

HOPBYTE_DEFINE(int, T_category_get_num, (int *num_cat))
{
    hopbyte_mpit_lock();
    int rc = categories_refresh();
    if (rc == MPI_SUCCESS)
        *num_cat = categories.count;
    hopbyte_mpit_unlock();
    return rc;
}

HOPBYTE_DEFINE(int, T_category_get_info,
               (int cat_index, char *name, int *name_len, char *desc, int *desc_len, int *num_cvars, int *num_pvars,
                int *num_categories))
{
    struct hopbyte_mpit_entry entry;
    int rc = category_entry(cat_index, &entry);
    if (rc != MPI_SUCCESS)
        return rc;
    if (entry.set < 0)
        return NEXT(T_category_get_info)(entry.at, name, name_len, desc, desc_len, num_cvars, num_pvars,
                                         num_categories);
    char own[64];
    category_name(entry.set, own);
    hopbyte_mpit_text(own, name, name_len);
    hopbyte_mpit_text(entry.set == ROOT ? "Counters of hopbyte's preload libraries" : hopbyte_mpit_sets[entry.set]->text,
                      desc, desc_len);
    if (num_cvars)
        *num_cvars = 0;
    if (num_pvars)
        *num_pvars = entry.set == ROOT ? 0 : set_size(entry.set);
    if (num_categories)
        *num_categories = entry.set == ROOT ? children() : 0;
    return MPI_SUCCESS;
}

HOPBYTE_DEFINE(int, T_category_get_index, (const char *name, int *cat_index))
{
    int theirs = -1;
    hopbyte_mpit_lock();
    int rc = categories_refresh();
    for (int i = 0; rc == MPI_SUCCESS && name && cat_index && i < categories.count; i++) {
        char own[64];
        if (categories.entries[i].set < 0)
            continue;
        category_name(categories.entries[i].set, own);
        if (strcmp(own, name) == 0) {
            *cat_index = i;
            hopbyte_mpit_unlock();
            return MPI_SUCCESS;
        }
    }
    if (rc == MPI_SUCCESS)
        rc = NEXT(T_category_get_index)(name, cat_index ? &theirs : NULL);
    if (rc == MPI_SUCCESS && cat_index) {
        categories_refresh();
        if (theirs >= 0 && theirs < categories.their_count)
            *cat_index = categories.theirs[theirs];
        else
            rc = MPI_T_ERR_INVALID_NAME;
    }
    hopbyte_mpit_unlock();
    return rc;
}

HOPBYTE_DEFINE(int, T_category_get_cvars, (int cat_index, int len, int indices[]))
{
    struct hopbyte_mpit_entry entry;
    int rc = category_entry(cat_index, &entry);
    return rc != MPI_SUCCESS || entry.set >= 0 ? rc : NEXT(T_category_get_cvars)(entry.at, len, indices);
}

/* Number of entries that the library's call filled. */
static int filled(int category, bool variables, int len)
{
    int cvars = 0, pvars = 0, subordinate = 0, none = 0;
    NEXT(T_category_get_info)(category, NULL, &none, NULL, &none, &cvars, &pvars, &subordinate);
    int count = variables ? pvars : subordinate;
    return count < len ? count : len;
}

static void translate(const struct hopbyte_mpit_list *list, int count, int indices[])
{
    for (int i = 0; i < count; i++)
        if (indices[i] >= 0 && indices[i] < list->their_count)
            indices[i] = list->theirs[indices[i]];
}

HOPBYTE_DEFINE(int, T_category_get_pvars, (int cat_index, int len, int indices[]))
{
    struct hopbyte_mpit_entry entry;
    int rc = category_entry(cat_index, &entry), count = 0;
    if (rc != MPI_SUCCESS)
        return rc;
    if (entry.set < 0) {
        rc = NEXT(T_category_get_pvars)(entry.at, len, indices);
        if (rc == MPI_SUCCESS)
            count = filled(entry.at, true, len);
    }
    hopbyte_mpit_lock();
    translate(&hopbyte_mpit_variables, count, indices);
    for (int i = 0; entry.set >= 0 && count < len && i < hopbyte_mpit_variables.count; i++)
        if (hopbyte_mpit_variables.entries[i].set == entry.set)
            indices[count++] = i;
    hopbyte_mpit_unlock();
    return rc;
}

HOPBYTE_DEFINE(int, T_category_get_categories, (int cat_index, int len, int indices[]))
{
    struct hopbyte_mpit_entry entry;
    int rc = category_entry(cat_index, &entry), count = 0;
    if (rc != MPI_SUCCESS)
        return rc;
    if (entry.set < 0) {
        rc = NEXT(T_category_get_categories)(entry.at, len, indices);
        if (rc == MPI_SUCCESS)
            count = filled(entry.at, false, len);
    }
    hopbyte_mpit_lock();
    translate(&categories, count, indices);
    for (int i = 0; entry.set == ROOT && count < len && i < categories.count; i++)
        if (categories.entries[i].set >= 0 && categories.entries[i].set != ROOT)
            indices[count++] = i;
    hopbyte_mpit_unlock();
    return rc;
}

/* Both parts only grow, so the sum changes with either. */
HOPBYTE_DEFINE(int, T_category_changed, (int *stamp))
{
    int rc = NEXT(T_category_changed)(stamp);
    hopbyte_mpit_lock();
    if (rc == MPI_SUCCESS && categories_refresh() == MPI_SUCCESS)
        *stamp += categories.count + hopbyte_mpit_variables.count;
    hopbyte_mpit_unlock();
    return rc;
}

/* MPI 4; hopbyte has no events. */
HOPBYTE_DEFINE_NEWER(int, MPI, T_category_get_num_events, (int cat_index, int *num_events))
{
    struct hopbyte_mpit_entry entry;
    int rc = category_entry(cat_index, &entry);
    if (rc == MPI_SUCCESS && entry.set >= 0)
        *num_events = 0;
    return rc != MPI_SUCCESS || entry.set >= 0 ? rc : NEXT(T_category_get_num_events)(entry.at, num_events);
}

HOPBYTE_DEFINE_NEWER(int, MPI, T_category_get_events, (int cat_index, int len, int indices[]))
{
    struct hopbyte_mpit_entry entry;
    int rc = category_entry(cat_index, &entry);
    return rc != MPI_SUCCESS || entry.set >= 0 ? rc : NEXT(T_category_get_events)(entry.at, len, indices);
}
