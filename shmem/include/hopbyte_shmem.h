/* Teams and their collectives on any OpenSHMEM from 1.4 on (paper 004, V).
 *
 * Include it after or instead of <shmem.h> and link with -lhopbyte_shmem before the OpenSHMEM library. Names of
 * OpenSHMEM 1.5 (shmem_team_…, shmem_TYPE_OP_reduce, …) then mean hopbyte's teams, also where the library has its own:
 * colours and 3-D splits have no counterpart there, and one program should see one kind of team. To keep the library's,
 * define HOPBYTE_SHMEM_KEEP_LIBRARY_TEAMS; hopbyte's teams are then of type hopbyte_team_t.
 *
 * Errors in shmemx_ calls end the job with a message and status 2; splits by OpenSHMEM's names return -1, at all members,
 * with SHMEM_TEAM_INVALID for the team. */
#ifndef HOPBYTE_SHMEM_H
#define HOPBYTE_SHMEM_H

#include <shmem.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hopbyte_team *hopbyte_team_t;
typedef struct {
    int num_contexts; /* 0: contexts of teams are not available */
} hopbyte_team_config_t;

#define HOPBYTE_TEAM_INVALID ((hopbyte_team_t)0)
#define HOPBYTE_TEAM_WORLD ((hopbyte_team_t)1)
#define HOPBYTE_TEAM_NODE ((hopbyte_team_t)2) /* PEs on this PE's host */
#define SHMEM_COLOR_UNDEFINED (-1)

/* ---- teams, OpenSHMEM 1.5 ---- */
int hopbyte_team_my_pe(hopbyte_team_t team);
int hopbyte_team_n_pes(hopbyte_team_t team);
int hopbyte_team_translate_pe(hopbyte_team_t from, int pe, hopbyte_team_t to);
int hopbyte_team_get_config(hopbyte_team_t team, long mask, hopbyte_team_config_t *config);
int hopbyte_team_split_strided(hopbyte_team_t parent, int start, int stride, int size,
                               const hopbyte_team_config_t *config, long mask, hopbyte_team_t *team);
int hopbyte_team_split_2d(hopbyte_team_t parent, int xrange, const hopbyte_team_config_t *xconfig, long xmask,
                          hopbyte_team_t *xteam, const hopbyte_team_config_t *yconfig, long ymask,
                          hopbyte_team_t *yteam);
void hopbyte_team_destroy(hopbyte_team_t team);
int hopbyte_team_sync(hopbyte_team_t team);
int hopbyte_broadcastmem(hopbyte_team_t team, void *dest, const void *source, size_t bytes, int root);
int hopbyte_collectmem(hopbyte_team_t team, void *dest, const void *source, size_t bytes);
int hopbyte_fcollectmem(hopbyte_team_t team, void *dest, const void *source, size_t bytes);
int hopbyte_alltoallmem(hopbyte_team_t team, void *dest, const void *source, size_t bytes);
int hopbyte_alltoallsmem(hopbyte_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t count,
                         size_t size);

/* ---- Cray's names (paper 004, tables I and II); pWrk and pSync are not used and may be NULL ---- */
void shmemx_team_split_color(hopbyte_team_t parent, int color, int key, hopbyte_team_t *team);
void shmemx_team_split_strided(hopbyte_team_t parent, int start, int stride, int size, hopbyte_team_t *team);
/* x runs fastest; members of the parent beyond the grid get SHMEM_TEAM_INVALID. */
void shmemx_team_split_2d(hopbyte_team_t parent, int xaxis_range, int yaxis_range, hopbyte_team_t *xaxis_team,
                          hopbyte_team_t *yaxis_team);
void shmemx_team_split_3d(hopbyte_team_t parent, int xaxis_range, int yaxis_range, int zaxis_range,
                          hopbyte_team_t *xaxis_team, hopbyte_team_t *yaxis_team, hopbyte_team_t *zaxis_team);
#define shmemx_team_my_pe hopbyte_team_my_pe
#define shmemx_team_n_pes hopbyte_team_n_pes
#define shmemx_team_translate_pe hopbyte_team_translate_pe
#define shmemx_team_destroy hopbyte_team_destroy
void shmemx_team_barrier(hopbyte_team_t team, long *pSync);
/* nelems: bytes for each member. */
void shmemx_team_alltoall(void *dest, const void *source, int nelems, hopbyte_team_t team, long *pSync);
/* Offsets and sizes in bytes. dest_offsets[i]: place of the data from member i; dest_sizes[i]: bytes received from it, on
 * return. With SHMEM_ALLTOALLV_TSIZE_CHK=abort or trunc, dest_sizes[i] is the room for it, on entry. */
void shmemx_team_alltoallv(void *dest, size_t *dest_offsets, size_t *dest_sizes, const void *source, size_t *src_offsets,
                           size_t *src_sizes, hopbyte_team_t team, long *pSync);
void shmemx_alltoallv(void *dest, size_t *dest_offsets, size_t *dest_sizes, const void *source, size_t *src_offsets,
                      size_t *src_sizes, int PE_start, int logPE_stride, int PE_size, long *pSync);

/* ---- memory partitions (paper 004, VI.B): SHMEM_SYMMETRIC_PARTITION<ID>=size=…[:pgsize=…][:kind=…][:policy=…] ----
 * Collective over all PEs, with equal arguments and the same offset everywhere. NULL for size 0, and where the partition has
 * no room. Freed by shmem_free; shmem_realloc stays in the partition. */
void *shmem_kind_malloc(size_t size, int partition_id);
void *shmem_kind_align(size_t alignment, size_t size, int partition_id);
void *shmemx_kind_malloc(size_t size, int partition_id);
void *shmemx_kind_align(size_t alignment, size_t size, int partition_id);

/* ---- counts and costs ---- */
struct hopbyte_shmem_counts {
    uint64_t collectives;
    uint64_t rounds;   /* of reductions, in which this PE sent or received */
    uint64_t messages, bytes;                   /* sent, with data or without; credits are not included */
    uint64_t messages_off_node, bytes_off_node; /* of these, to other hosts */
    uint64_t small;    /* of the messages, those through cells of 64 bytes */
    uint64_t credits;  /* permissions to send, 8 bytes each */
};
void hopbyte_shmem_counts_read(struct hopbyte_shmem_counts *counts);
void hopbyte_shmem_counts_reset(void);
/* One line for each algorithm of a reduction of `count` elements: predicted time, rounds, and which is chosen. Returns -1 if
 * the text has no room. */
int hopbyte_shmem_explain(hopbyte_team_t team, size_t element, size_t count, char *text, size_t room);
/* Measures latencies and bandwidths between and within nodes; collective over all PEs. */
void hopbyte_shmem_calibrate(void);

#if !defined(HOPBYTE_SHMEM_KEEP_LIBRARY_TEAMS)
#undef SHMEM_TEAM_INVALID
#undef SHMEM_TEAM_WORLD
#undef SHMEM_TEAM_SHARED
#undef SHMEM_TEAM_NUM_CONTEXTS
#define shmem_team_t hopbyte_team_t
#define shmem_team_config_t hopbyte_team_config_t
#define SHMEM_TEAM_INVALID HOPBYTE_TEAM_INVALID
#define SHMEM_TEAM_NULL HOPBYTE_TEAM_INVALID
#define SHMEM_TEAM_WORLD HOPBYTE_TEAM_WORLD
#define SHMEM_TEAM_SHARED HOPBYTE_TEAM_NODE
#define SHMEM_TEAM_NODE HOPBYTE_TEAM_NODE
#define SHMEM_TEAM_NUM_CONTEXTS 1L
#define shmem_team_my_pe hopbyte_team_my_pe
#define shmem_team_n_pes hopbyte_team_n_pes
#define shmem_team_translate_pe hopbyte_team_translate_pe
#define shmem_team_get_config hopbyte_team_get_config
#define shmem_team_split_strided hopbyte_team_split_strided
#define shmem_team_split_2d hopbyte_team_split_2d
#define shmem_team_destroy hopbyte_team_destroy
#define shmem_team_sync hopbyte_team_sync
#define shmem_broadcastmem hopbyte_broadcastmem
#define shmem_collectmem hopbyte_collectmem
#define shmem_fcollectmem hopbyte_fcollectmem
#define shmem_alltoallmem hopbyte_alltoallmem
#endif

#include "hopbyte_shmem_types.h"

#ifdef __cplusplus
}
#endif

#endif
