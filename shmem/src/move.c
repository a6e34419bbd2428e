/* Barrier and data movement on teams. Destinations are the caller's symmetric memory, which OpenSHMEM wants ready before
 * any member calls, so the data needs no permission. */
#include "state.h"

#include <shmem.h>
#include <stdlib.h>
#include <string.h>

/* Dissemination: in round k member i tells i + 2^k. */
void team_barrier(struct team *t)
{
    for (int step = 1; step < t->size; step *= 2) {
        channel_send(team_pe(t, (t->me + step) % t->size), NULL, NULL, 0);
        channel_receive(team_pe(t, (t->me - step + t->size) % t->size));
    }
}

/* Doubling: a member holds the last `held` places up to its own, round the team, and sends those that the receiver lacks;
 * in two messages where they wrap. */
void team_gather(struct team *t, void *all, const void *mine, size_t bytes)
{
    int n = t->size;
    char *places = all;
    memmove(places + (size_t)t->me * bytes, mine, bytes);
    for (int held = 1; held < n; held *= 2) {
        int some = held < n - held ? held : n - held, to = (t->me + held) % n, from = (t->me - held + n) % n;
        int first = t->me - some + 1, wrapped = first < 0 ? -first : 0;
        if (wrapped) {
            char *piece = places + (size_t)(n - wrapped) * bytes;
            channel_send(team_pe(t, to), piece, piece, (size_t)wrapped * bytes);
        }
        char *piece = places + (size_t)(wrapped ? 0 : first) * bytes;
        channel_send(team_pe(t, to), piece, piece, (size_t)(some - wrapped) * bytes);
        if (from - some + 1 < 0)
            channel_receive(team_pe(t, from));
        channel_receive(team_pe(t, from));
    }
}

static struct team *begin(shmem_team_t team, const char *call)
{
    struct team *t = team_mine(team, call);
    shmem_enter(call);
    hopbyte_shmem_counters.collectives++;
    return t;
}

int hopbyte_team_sync(shmem_team_t team)
{
    if (!team)
        return -1;
    struct team *t = begin(team, "shmem_team_sync");
    team_barrier(t);
    shmem_leave();
    return 0;
}

void shmemx_team_barrier(shmem_team_t team, long *sync)
{
    (void)sync;
    struct team *t = begin(team, "shmemx_team_barrier");
    shmem_quiet(); /* a barrier, unlike a sync, completes this PE's puts */
    team_barrier(t);
    shmem_leave();
}

int hopbyte_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t bytes, int root)
{
    static const char *const names[] = {"the size in bytes", "PE_root"};
    const char *call = "shmem_broadcast";
    if (!team)
        return -1;
    struct team *t = begin(team, call);
    check_if_asked(t, call, names, (int64_t[]){(int64_t)bytes, root}, 2);
    if (root < 0 || root >= t->size)
        shmem_fail("%s: PE_root %d: expected 0 to %d", call, root, t->size - 1);
    int rank = (t->me - root + t->size) % t->size, step = 1;
    if (rank == 0 && dest != source)
        memmove(dest, source, bytes);
    while (step < t->size && !(rank & step))
        step *= 2;
    if (rank)
        channel_receive(team_pe(t, (t->me - step + t->size) % t->size));
    while (step /= 2)
        if (rank + step < t->size)
            channel_send(team_pe(t, (t->me + step) % t->size), dest, dest, bytes);
    shmem_leave();
    return 0;
}

int hopbyte_fcollectmem(shmem_team_t team, void *dest, const void *source, size_t bytes)
{
    static const char *const names[] = {"the size in bytes"};
    if (!team)
        return -1;
    struct team *t = begin(team, "shmem_fcollect");
    check_if_asked(t, "shmem_fcollect", names, (int64_t[]){(int64_t)bytes}, 1);
    team_gather(t, dest, source, bytes);
    shmem_leave();
    return 0;
}

int hopbyte_collectmem(shmem_team_t team, void *dest, const void *source, size_t bytes)
{
    if (!team)
        return -1;
    struct team *t = begin(team, "shmem_collect");
    uint64_t *board = channel_board(), mine = bytes;
    size_t before = 0;
    team_barrier(t);
    team_gather(t, board, &mine, sizeof mine);
    for (int i = 0; i < t->me; i++)
        before += board[i];
    team_barrier(t); /* the board is free again */
    memmove((char *)dest + before, source, bytes);
    for (int i = 1; i < t->size; i++)
        channel_send(team_pe(t, (t->me + i) % t->size), (char *)dest + before, source, bytes);
    for (int i = 1; i < t->size; i++)
        channel_receive(team_pe(t, (t->me - i + t->size) % t->size));
    shmem_leave();
    return 0;
}

int hopbyte_alltoallmem(shmem_team_t team, void *dest, const void *source, size_t bytes)
{
    static const char *const names[] = {"the size in bytes"};
    if (!team)
        return -1;
    struct team *t = begin(team, "shmem_alltoall");
    check_if_asked(t, "shmem_alltoall", names, (int64_t[]){(int64_t)bytes}, 1);
    char *to = (char *)dest + (size_t)t->me * bytes;
    memmove(to, (const char *)source + (size_t)t->me * bytes, bytes);
    for (int i = 1; i < t->size; i++) {
        int member = (t->me + i) % t->size;
        channel_send(team_pe(t, member), to, (const char *)source + (size_t)member * bytes, bytes);
    }
    for (int i = 1; i < t->size; i++)
        channel_receive(team_pe(t, (t->me - i + t->size) % t->size));
    shmem_leave();
    return 0;
}

/* Elements of `size` bytes: block j of the source, with stride `from`, to block i at member j, with stride `to`. */
int hopbyte_alltoallsmem(shmem_team_t team, void *dest, const void *source, ptrdiff_t to, ptrdiff_t from, size_t count,
                         size_t size)
{
    static const char *const names[] = {"dst", "sst", "nelems", "the size of an element"};
    const char *call = "shmem_alltoalls";
    if (!team)
        return -1;
    struct team *t = begin(team, call);
    check_if_asked(t, call, names, (int64_t[]){to, from, (int64_t)count, (int64_t)size}, 4);
    if (to < 1 || from < 1)
        shmem_fail("%s: dst %td, sst %td: expected 1 or more", call, to, from);
    for (int i = 0; i < t->size; i++) {
        int member = (t->me + i) % t->size;
        char *into = (char *)dest + (size_t)t->me * count * (size_t)to * size;
        const char *out = (const char *)source + (size_t)member * count * (size_t)from * size;
        for (size_t k = 0; k < count; k++) {
            size_t a = k * (size_t)to * size, b = k * (size_t)from * size;
            if (member == t->me)
                memmove(into + a, out + b, size);
            else
                channel_send(team_pe(t, member), into + a, out + b, size);
        }
    }
    for (int i = 1; i < t->size; i++)
        for (size_t k = 0; k < count; k++)
            channel_receive(team_pe(t, (t->me - i + t->size) % t->size));
    shmem_leave();
    return 0;
}

/* --- Cray's alltoall(v) --- */

void shmemx_team_alltoall(void *dest, const void *source, int bytes, shmem_team_t team, long *sync)
{
    (void)sync;
    if (bytes < 0)
        shmem_fail("shmemx_team_alltoall: nelems %d", bytes);
    team_mine(team, "shmemx_team_alltoall");
    hopbyte_alltoallmem(team, dest, source, (size_t)bytes);
}

enum too_long { TOO_LONG_PASSES, TOO_LONG_ABORTS, TOO_LONG_IS_CUT };

static enum too_long too_long_read(const char *call)
{
    const char *text = getenv("SHMEM_ALLTOALLV_TSIZE_CHK");
    if (!text || !*text)
        return TOO_LONG_PASSES;
    if (strcmp(text, "abort") != 0 && strcmp(text, "trunc") != 0)
        shmem_fail("%s: SHMEM_ALLTOALLV_TSIZE_CHK=\"%s\": expected abort or trunc", call, text);
    return *text == 'a' ? TOO_LONG_ABORTS : TOO_LONG_IS_CUT;
}

/* The receiver says where the data goes and how much fits; the sender sends it, then its size. */
static void alltoallv(struct team *t, const char *call, void *dest, const size_t *dest_offsets, size_t *dest_sizes,
                      const void *source, const size_t *offsets, const size_t *sizes)
{
    enum too_long rule = too_long_read(call);
    shmem_enter(call);
    hopbyte_shmem_counters.collectives++;
    for (int i = 0; i < t->size; i++) {
        int member = (t->me - i + t->size) % t->size;
        uint64_t room[2] = {dest_offsets[member], dest_sizes[member]};
        if (member != t->me)
            channel_send_cell(team_pe(t, member), room, sizeof room);
    }
    for (int i = 0; i < t->size; i++) {
        int member = (t->me + i) % t->size, pe = team_pe(t, member);
        uint64_t room[2] = {dest_offsets[t->me], dest_sizes[t->me]}, bytes = sizes[member];
        if (member != t->me) {
            memcpy(room, channel_receive_cell(pe), sizeof room);
            channel_free_cell(pe);
        }
        if (rule == TOO_LONG_ABORTS && bytes > room[1])
            shmem_fail("%s: %zu bytes for PE %d, which allows %zu (SHMEM_ALLTOALLV_TSIZE_CHK=abort)", call, (size_t)bytes,
                       pe, (size_t)room[1]);
        bytes = rule == TOO_LONG_IS_CUT && bytes > room[1] ? room[1] : bytes;
        char *to = (char *)dest + room[0];
        const char *from = (const char *)source + offsets[member];
        if (member == t->me) {
            memmove(to, from, bytes);
            dest_sizes[member] = bytes;
            continue;
        }
        channel_send(pe, to, from, bytes);
        channel_send_cell(pe, &bytes, sizeof bytes);
    }
    for (int i = 1; i < t->size; i++) {
        int member = (t->me - i + t->size) % t->size, pe = team_pe(t, member);
        uint64_t bytes;
        channel_receive(pe);
        memcpy(&bytes, channel_receive_cell(pe), sizeof bytes);
        channel_free_cell(pe);
        dest_sizes[member] = bytes;
    }
    shmem_leave();
}

void shmemx_team_alltoallv(void *dest, size_t *dest_offsets, size_t *dest_sizes, const void *source, size_t *src_offsets,
                           size_t *src_sizes, shmem_team_t team, long *sync)
{
    (void)sync;
    alltoallv(team_mine(team, "shmemx_team_alltoallv"), "shmemx_team_alltoallv", dest, dest_offsets, dest_sizes, source,
              src_offsets, src_sizes);
}

void shmemx_alltoallv(void *dest, size_t *dest_offsets, size_t *dest_sizes, const void *source, size_t *src_offsets,
                      size_t *src_sizes, int start, int log_stride, int size, long *sync)
{
    (void)sync;
    alltoallv(team_active(start, log_stride, size, "shmemx_alltoallv"), "shmemx_alltoallv", dest, dest_offsets, dest_sizes,
              source, src_offsets, src_sizes);
}
