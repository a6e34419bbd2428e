/* Memory for blocks that move: two rooms a rank, that of its block and a free one where the next may arrive.
 *
 * The rooms of all ranks of a host are one shared segment, so that a block that stays on its host stays where it is: its
 * old owner leaves the room and the new one enters it. Blocks that go to another host are sent from room to room. */
#ifndef HOPBYTE_ROOMS_H
#define HOPBYTE_ROOMS_H

#include "world.h"

#include <stdint.h>

struct hopbyte_rooms {
    char *memory;  /* words that ranks wait for, then the rooms */
    size_t length; /* of all of it */
    size_t first;  /* bytes before the first room */
    size_t size;   /* of a room: whole pages */
    int ranks;     /* of the job */
    int count;     /* of this host */
    int *near;     /* by rank: its place among those of this host, or -1 */
    int *used;     /* by place: the room of its block */
    int *spare;    /* by place: the free one */
    uint32_t move; /* how many there have been */
};

/* How a rank's block goes and the next one comes. */
struct hopbyte_way {
    int from, to;      /* ranks */
    bool given, taken; /* whether it goes, and comes, within the host */
    uint32_t *leave, *enter; /* where the old owner says that it has left; where this rank hears so */
};

/* Rooms for blocks of so many bytes; without `share` each rank is alone with its two, as on a host whose ranks cannot
 * share memory. Pages are there from the start. Collective. */
void hopbyte_rooms_open(struct hopbyte_rooms *rooms, size_t bytes, bool share, const struct hopbyte_world *world);
void hopbyte_rooms_close(struct hopbyte_rooms *rooms);

/* The room of this rank's block. */
void *hopbyte_rooms_own(const struct hopbyte_rooms *rooms, const struct hopbyte_world *world);

/* Waits, asleep, until all ranks of this host are here. */
void hopbyte_rooms_meet(const struct hopbyte_rooms *rooms, const struct hopbyte_world *world);

/* Gives every block of this host its next room: rank r gets what rank from[r] has. Every rank of the host does the same
 * sum, so nobody need tell. All moves before this one have ended on all ranks. */
struct hopbyte_way hopbyte_rooms_move(struct hopbyte_rooms *rooms, const int *from, const struct hopbyte_world *world);

/* Tells whoever gets the block that it is left, and waits until the block that comes is. */
void hopbyte_rooms_leave(const struct hopbyte_rooms *rooms, const struct hopbyte_way *way);
void hopbyte_rooms_enter(const struct hopbyte_rooms *rooms, const struct hopbyte_way *way);

#endif
