/* hopbyte's counters as performance variables of MPI_T, for tools that know nothing of hopbyte.
 *
 * The variables that a tool sees are hopbyte's, then those of the MPI library, unchanged. Both may grow in number while a
 * program runs; a number that a tool was given once stays valid, so later ones of either follow behind. Categories
 * likewise. Handles of the MPI library's own variables are its own and pass through. */
#ifndef HOPBYTE_MPIT_H
#define HOPBYTE_MPIT_H

#include "../common/deep.h"
#include "../common/pvars.h"

enum { MPIT_SETS = 6 };

/* One library's variables, NULL until it is found. */
extern const struct hopbyte_pvars *hopbyte_mpit_sets[MPIT_SETS];
extern const char *const hopbyte_mpit_names[MPIT_SETS];

/* A number that tools use: an own variable or category (`set` >= 0), or the library's `at`. */
struct hopbyte_mpit_entry {
    int set, at;
};

struct hopbyte_mpit_list {
    struct hopbyte_mpit_entry *entries;
    int count, room;
    int *theirs, their_count, their_room; /* our number of each of the library's */
};

void hopbyte_mpit_lock(void);
void hopbyte_mpit_unlock(void);

/* Appends what is new. The lock is held. Gives the error of the MPI library, if it is one (MPI_T not initialised). */
int hopbyte_mpit_refresh(void);
extern struct hopbyte_mpit_list hopbyte_mpit_variables;
bool hopbyte_mpit_append(struct hopbyte_mpit_list *list, int set, int at);
/* The entry of a number, refreshing the list if it is new; false without one. */
bool hopbyte_mpit_find(int index, struct hopbyte_mpit_entry *entry);
const struct hopbyte_pvar *hopbyte_mpit_variable(struct hopbyte_mpit_entry entry);

/* Copies a text as MPI_T does: `length` is the room, then the length with the closing zero. */
void hopbyte_mpit_text(const char *from, char *to, int *length);

#endif
