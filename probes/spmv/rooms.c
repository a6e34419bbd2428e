#define _GNU_SOURCE /* memfd_create */
#include "rooms.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Words before the rooms: a counter of arrivals at the barrier, the number of barriers, and for each room the number
 * of the last move whose block has left it. */
enum { ARRIVED, MET, LEFT };

/* Every rank touches the pages of all rooms of a host at the start, if its page table for them stays below 2 MB. */
enum { TOUCHED_MOST = 1 << 30 };

/* Location of the segment, broadcast by a host's first rank. */
struct segment {
    long long process, file, device, inode;
};

static int segment_make(size_t length, struct segment *segment) {
    int file = memfd_create("hopbyte-rooms", MFD_CLOEXEC);
    struct stat there;
    if (file < 0 || ftruncate(file, (off_t)length) != 0 || fstat(file, &there) != 0) {
        *segment = (struct segment){.file = -1};
        return file;
    }
    *segment = (struct segment){getpid(), file, (long long)there.st_dev, (long long)there.st_ino};
    return file;
}

/* In another PID namespace the same number may be another process with another file. */
static int segment_open(const struct segment *segment) {
    char path[64];
    struct stat there;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", segment->process, segment->file);
    int file = segment->file < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0 && fstat(file, &there) == 0 && (long long)there.st_dev == segment->device &&
        (long long)there.st_ino == segment->inode)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

/* Shared memory of all ranks of a host, or NULL on all of them. Collective on `host`. */
static char *memory_share(MPI_Comm host, size_t length) {
    struct segment segment;
    int rank, mine, all;
    MPI_Comm_rank(host, &rank);
    int file = rank == 0 ? segment_make(length, &segment) : -1;
    MPI_Bcast(&segment, sizeof segment, MPI_BYTE, 0, host);
    if (rank > 0)
        file = segment_open(&segment);
    char *memory = file < 0 ? MAP_FAILED : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    mine = memory != MAP_FAILED;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, host); /* now every rank has mapped the file */
    if (file >= 0)
        close(file);
    if (all)
        return memory;
    if (mine)
        munmap(memory, length);
    return NULL;
}

static size_t pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static char *room_at(const struct hopbyte_rooms *rooms, int room) {
    return rooms->memory + rooms->first + (size_t)room * rooms->size;
}

/* Finds the ranks of this host and the size they need. */
static void neighbours_find(struct hopbyte_rooms *rooms, MPI_Comm host) {
    MPI_Group here, everybody;
    MPI_Comm_size(host, &rooms->count);
    int *places = hopbyte_memory((size_t)rooms->count * sizeof *places, "ranks of a host");
    int *ranks = hopbyte_memory((size_t)rooms->count * sizeof *ranks, "ranks of a host");
    for (int place = 0; place < rooms->count; place++)
        places[place] = place;
    MPI_Comm_group(host, &here);
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    MPI_Group_translate_ranks(here, rooms->count, places, everybody, ranks);
    for (int rank = 0; rank < rooms->ranks; rank++)
        rooms->near[rank] = -1;
    for (int place = 0; place < rooms->count; place++)
        rooms->near[ranks[place]] = place;
    MPI_Group_free(&here);
    MPI_Group_free(&everybody);
    free(places);
    free(ranks);
    rooms->first = pages((LEFT + 2 * (size_t)rooms->count) * sizeof(uint32_t));
    rooms->length = rooms->first + 2 * (size_t)rooms->count * rooms->size;
}

void hopbyte_rooms_open(struct hopbyte_rooms *rooms, size_t bytes, bool share, const struct hopbyte_world *world) {
    MPI_Comm host = MPI_COMM_NULL;
    *rooms = (struct hopbyte_rooms){.size = pages(bytes), .ranks = world->size};
    rooms->near = hopbyte_memory((size_t)world->size * sizeof *rooms->near, "ranks of a host");
    if (share) {
        MPI_Comm_split_type(world->comm, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL, &host);
        neighbours_find(rooms, host);
        rooms->memory = memory_share(host, rooms->length);
        MPI_Comm_free(&host);
    }
    if (!rooms->memory) {
        neighbours_find(rooms, MPI_COMM_SELF);
        rooms->memory = mmap(NULL, rooms->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (rooms->memory == MAP_FAILED)
            hopbyte_world_abort(HOPBYTE_LACKING, "no memory: %.1f MB for a piece of the matrix and the next one",
                                (double)rooms->length / 1e6);
    }
    rooms->used = hopbyte_memory(2 * (size_t)rooms->count * sizeof *rooms->used, "rooms");
    rooms->spare = rooms->used + rooms->count;
    for (int place = 0; place < rooms->count; place++) {
        rooms->used[place] = 2 * place;
        rooms->spare[place] = 2 * place + 1;
    }
    /* First touch: near the processor of the room's first rank. */
    memset(hopbyte_rooms_own(rooms, world), 0, 2 * rooms->size);
    hopbyte_rooms_meet(rooms, world);
    for (size_t at = 0; at < rooms->length && rooms->length <= TOUCHED_MOST; at += 4096)
        (void)((const volatile char *)rooms->memory)[at];
}

void hopbyte_rooms_close(struct hopbyte_rooms *rooms) {
    if (rooms->memory)
        munmap(rooms->memory, rooms->length);
    free(rooms->near);
    free(rooms->used);
    *rooms = (struct hopbyte_rooms){0};
}

void *hopbyte_rooms_own(const struct hopbyte_rooms *rooms, const struct hopbyte_world *world) {
    return room_at(rooms, rooms->used[rooms->near[world->rank]]);
}

void hopbyte_rooms_meet(const struct hopbyte_rooms *rooms, const struct hopbyte_world *world) {
    uint32_t *words = (uint32_t *)rooms->memory, met = __atomic_load_n(&words[MET], __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&words[ARRIVED], 1, __ATOMIC_ACQ_REL) == (uint32_t)rooms->count) {
        words[ARRIVED] = 0;
        __atomic_store_n(&words[MET], met + 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &words[MET], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    const struct timespec while_waiting = {.tv_nsec = 5000000};
    while (__atomic_load_n(&words[MET], __ATOMIC_ACQUIRE) == met) {
        int any; /* another rank may be waiting for something that this rank's MPI has yet to send */
        if (syscall(SYS_futex, &words[MET], FUTEX_WAIT, met, &while_waiting, NULL, 0) != 0)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world->comm, &any, MPI_STATUS_IGNORE);
    }
}

/* A block from another host goes to the free room of its rank. That rank's next free room is the one vacated by the
 * last block of the chain that begins there, which leaves the host. */
struct hopbyte_way hopbyte_rooms_move(struct hopbyte_rooms *rooms, const int *from, const struct hopbyte_world *world) {
    const int *near = rooms->near, self = near[world->rank];
    int *to = hopbyte_memory((size_t)rooms->ranks * sizeof *to, "a move");
    int *used = hopbyte_memory((size_t)rooms->count * sizeof *used, "a move");
    uint32_t *left = (uint32_t *)rooms->memory + LEFT;
    for (int rank = 0; rank < rooms->ranks; rank++)
        to[from[rank]] = rank;
    for (int rank = 0; rank < rooms->ranks; rank++) {
        int place = near[rank], last = rank;
        if (place < 0)
            continue;
        if (near[from[rank]] >= 0) {
            used[place] = rooms->used[near[from[rank]]];
            continue;
        }
        while (near[to[last]] >= 0)
            last = to[last];
        used[place] = rooms->spare[place];
        rooms->spare[place] = rooms->used[near[last]];
    }
    rooms->move++;
    struct hopbyte_way way = {.from = from[world->rank], .to = to[world->rank]};
    way.taken = near[way.from] >= 0;
    way.given = near[way.to] >= 0;
    way.leave = &left[rooms->used[self]];
    way.enter = &left[used[self]];
    memcpy(rooms->used, used, (size_t)rooms->count * sizeof *used);
    free(to);
    free(used);
    return way;
}

void hopbyte_rooms_leave(const struct hopbyte_rooms *rooms, const struct hopbyte_way *way) {
    __atomic_store_n(way->leave, rooms->move, __ATOMIC_RELEASE);
}

void hopbyte_rooms_enter(const struct hopbyte_rooms *rooms, const struct hopbyte_way *way) {
    hopbyte_wait_word(way->enter, rooms->move);
}
