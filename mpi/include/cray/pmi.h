/* The calls of Cray's process management interface that tell a program where its ranks are, over coordinates that
 * hopbyte wrote (mpi/README.md, "Coordinates for programs"). The library has no key-value space: MPI has its own. */
#ifndef HOPBYTE_CRAY_PMI_H
#define HOPBYTE_CRAY_PMI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL (-1)             /* no coordinates, or the machine's do not fit into the call */
#define PMI_ERR_INIT 1            /* other ranks are known after MPI_Init */
#define PMI_ERR_NOMEM 2
#define PMI_ERR_INVALID_ARG 3     /* no such rank, node or pointer */
#define PMI_ERR_INVALID_LENGTH 8  /* the caller's list is too short */

typedef int PMI_BOOL;
#define PMI_TRUE 1
#define PMI_FALSE 0

typedef uint32_t pmi_nid_t;
typedef struct pmi_mesh_coord {
    uint16_t mesh_x, mesh_y, mesh_z;
} pmi_mesh_coord_t;

int PMI_Init(int *spawned);
int PMI_Initialized(PMI_BOOL *initialized);
int PMI_Finalize(void);
int PMI_Abort(int exit_code, const char message[]);
int PMI_Get_rank(int *rank);
int PMI_Get_size(int *size);
int PMI_Get_appnum(int *appnum);
int PMI_Get_app_size(int appnum, int *size);

int PMI_Get_nid(int rank, int *nid);
int PMI_Get_meshcoord(pmi_nid_t nid, pmi_mesh_coord_t *at);
/* The highest coordinate of each dimension, in any node of the machine: length - 1. */
int PMI_Get_max_dimension(pmi_mesh_coord_t *highest);
/* The NID of every rank, an array of int that lives until MPI_Finalize. */
int PMI_Get_nidlist_ptr(void **nids);
/* Always PMI_FAIL: a network other than Cray's has no such addresses. */
int PMI_nid_to_nicaddrs(pmi_nid_t nid, int count, uint32_t *addresses);

/* Ranks on the caller's node. */
int PMI_Get_numpes_on_smp(int *count);
int PMI_Get_numpes_in_app_on_smp(int *count);
int PMI_Get_pes_on_smp(int *ranks, int count);
int PMI_Get_clique_size(int *count);
int PMI_Get_clique_ranks(int *ranks, int count);

/* By MPI_COMM_WORLD, between MPI_Init and MPI_Finalize. The results are in the order of ranks. */
int PMI_Barrier(void);
int PMI_Allgather(void *in, void *out, int bytes);

#ifdef __cplusplus
}
#endif

#endif
