/* Memory for blocks that move: two rooms per rank, one for its block and a free one for the next.
 *
 * The rooms of all ranks of a host are one shared segment, so that a block that stays on its host is not copied: its
 * old owner releases the room and the new one takes it. Blocks that go to another host are sent from room to room. */
#ifndef HOPBYTE_ROOMS_H
#define HOPBYTE_ROOMS_H

#include "world.h"

#include <stdint.h>

struct hopbyte_rooms {
    char *memory;  /* words for synchronisation, then the rooms */
    size_t length; /* of the whole segment */
    size_t first;  /* bytes before the first room */
    size_t size;   /* of a room: whole pages */
    int ranks;     /* of the job */
    int count;     /* of this host */
    int *near;     /* by rank: its place among those of this host, or -1 */
    int *used;     /* by place: the room of its block */
    int *spare;    /* by place: the free one */
    uint32_t move; /* number of moves so far */
};

/* The move of a rank's block and of the next one. */
struct hopbyte_way {
    int from, to;      /* ranks */
    bool given, taken; /* whether it leaves, and arrives, within the host */
    uint32_t *leave, *enter; /* word where the old owner signals release; word where this rank waits for it */
};

/* Rooms for blocks of the given size; without `share`, as on a host whose ranks cannot share memory, each rank has its
 * own two. Pages are touched at the start. Collective. */
void hopbyte_rooms_open(struct hopbyte_rooms *rooms, size_t bytes, bool share, const struct hopbyte_world *world);
void hopbyte_rooms_close(struct hopbyte_rooms *rooms);

/* The room of this rank's block. */
void *hopbyte_rooms_own(const struct hopbyte_rooms *rooms, const struct hopbyte_world *world);

/* Waits, asleep, until all ranks of this host arrive. */
void hopbyte_rooms_meet(const struct hopbyte_rooms *rooms, const struct hopbyte_world *world);

/* Gives every block of this host its next room: rank r gets the block of rank from[r]. Every rank of the host computes
 * the same result, so none is sent. All moves before this one have ended on all ranks. */
struct hopbyte_way hopbyte_rooms_move(struct hopbyte_rooms *rooms, const int *from, const struct hopbyte_world *world);

/* Signals the block's new owner that the room is released, and waits for the release of the incoming block. */
void hopbyte_rooms_leave(const struct hopbyte_rooms *rooms, const struct hopbyte_way *way);
void hopbyte_rooms_enter(const struct hopbyte_rooms *rooms, const struct hopbyte_way *way);

#endif
