/* Cray's PMI and RCA calls; ../include/cray. */
#include "topology.h"

#include "../include/cray/pmi.h"
#include "../include/cray/rca_lib.h"

#include <errno.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static bool begun;
static int *nids;

/* The node of a rank; a PMI error in *rc. */
static const struct hopbyte_coords_node *node_at(int rank, int *rc)
{
    const struct hopbyte_coords *m = hopbyte_machine();
    bool known = false;
    *rc = PMI_FAIL;
    if (!m)
        return NULL;
    *rc = PMI_ERR_INVALID_ARG;
    if (rank < 0 || rank >= hopbyte_topology_size())
        return NULL;
    int node = hopbyte_topology_node(rank, &known);
    *rc = node >= 0 ? PMI_SUCCESS : known ? PMI_FAIL : PMI_ERR_INIT;
    return node >= 0 ? &m->nodes[node] : NULL;
}

EXPORT int PMI_Init(int *spawned)
{
    if (spawned)
        *spawned = 0;
    begun = true;
    return PMI_SUCCESS;
}

EXPORT int PMI_Initialized(PMI_BOOL *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    *initialized = begun || hopbyte_mpi_running() ? PMI_TRUE : PMI_FALSE;
    return PMI_SUCCESS;
}

EXPORT int PMI_Finalize(void)
{
    begun = false;
    return PMI_SUCCESS;
}

EXPORT int PMI_Abort(int exit_code, const char message[])
{
    hopbyte_say("PMI_Abort(%d): %s", exit_code, message ? message : "");
    if (hopbyte_mpi_running())
        NEXT(Abort)(MPI_COMM_WORLD, exit_code);
    exit(exit_code);
}

EXPORT int PMI_Get_rank(int *rank)
{
    if (!rank)
        return PMI_ERR_INVALID_ARG;
    *rank = hopbyte_topology_rank();
    return PMI_SUCCESS;
}

EXPORT int PMI_Get_size(int *size)
{
    if (!size)
        return PMI_ERR_INVALID_ARG;
    *size = hopbyte_topology_size();
    return PMI_SUCCESS;
}

EXPORT int PMI_Get_appnum(int *appnum)
{
    if (!appnum)
        return PMI_ERR_INVALID_ARG;
    *appnum = 0;
    return PMI_SUCCESS;
}

EXPORT int PMI_Get_app_size(int appnum, int *size)
{
    return appnum == 0 ? PMI_Get_size(size) : PMI_ERR_INVALID_ARG;
}

EXPORT int PMI_Get_nid(int rank, int *nid)
{
    int rc;
    const struct hopbyte_coords_node *node = node_at(rank, &rc);
    if (!nid)
        return PMI_ERR_INVALID_ARG;
    if (node)
        *nid = (int)node->nid;
    return rc;
}

/* 0, or a PMI error. */
static int coordinates(int nid, uint16_t at[3])
{
    const struct hopbyte_coords *m = hopbyte_machine();
    if (!m)
        return PMI_FAIL;
    int node = hopbyte_coords_find_nid(m, nid);
    if (node < 0)
        return PMI_ERR_INVALID_ARG;
    return hopbyte_topology_three(m->nodes[node].at, at) ? PMI_SUCCESS : PMI_FAIL;
}

static int highest(uint16_t at[3])
{
    const struct hopbyte_coords *m = hopbyte_machine();
    int most[COORDS_DIMENSIONS] = {0};
    for (int d = 0; m && d < m->dimensions; d++)
        most[d] = m->length[d] - 1;
    return m && hopbyte_topology_three(most, at) ? PMI_SUCCESS : PMI_FAIL;
}

EXPORT int PMI_Get_meshcoord(pmi_nid_t nid, pmi_mesh_coord_t *at)
{
    uint16_t three[3];
    int rc = at ? coordinates((int)nid, three) : PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        *at = (pmi_mesh_coord_t){three[0], three[1], three[2]};
    return rc;
}

EXPORT int PMI_Get_max_dimension(pmi_mesh_coord_t *at)
{
    uint16_t three[3];
    int rc = at ? highest(three) : PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        *at = (pmi_mesh_coord_t){three[0], three[1], three[2]};
    return rc;
}

EXPORT int PMI_Get_nidlist_ptr(void **list)
{
    int size = hopbyte_topology_size(), rc = PMI_SUCCESS;
    if (!list)
        return PMI_ERR_INVALID_ARG;
    if (!nids && !(nids = calloc((size_t)size, sizeof *nids)))
        return PMI_ERR_NOMEM;
    for (int r = 0; rc == PMI_SUCCESS && r < size; r++)
        rc = PMI_Get_nid(r, &nids[r]);
    if (rc == PMI_SUCCESS)
        *list = nids;
    return rc;
}

EXPORT int PMI_nid_to_nicaddrs(pmi_nid_t nid, int count, uint32_t *addresses)
{
    (void)nid;
    (void)count;
    (void)addresses;
    return PMI_FAIL;
}

/* The ranks on this node; only counted if `ranks` is NULL. */
static int neighbours(int *ranks, int room, int *count)
{
    int rc, other, size = hopbyte_topology_size(), found = 0;
    const struct hopbyte_coords_node *own = node_at(hopbyte_topology_rank(), &rc);
    for (int r = 0; own && r < size; r++) {
        const struct hopbyte_coords_node *node = node_at(r, &other);
        if (!node && other == PMI_ERR_INIT)
            return other;
        if (!node || node->nid != own->nid)
            continue;
        if (ranks && found >= room)
            return PMI_ERR_INVALID_LENGTH;
        if (ranks)
            ranks[found] = r;
        found++;
    }
    *count = found;
    return rc;
}

EXPORT int PMI_Get_clique_size(int *count)
{
    return count ? neighbours(NULL, 0, count) : PMI_ERR_INVALID_ARG;
}

EXPORT int PMI_Get_clique_ranks(int *ranks, int count)
{
    int found;
    return ranks ? neighbours(ranks, count, &found) : PMI_ERR_INVALID_ARG;
}

EXPORT int PMI_Get_numpes_on_smp(int *count)
{
    return PMI_Get_clique_size(count);
}

EXPORT int PMI_Get_numpes_in_app_on_smp(int *count)
{
    return PMI_Get_clique_size(count);
}

EXPORT int PMI_Get_pes_on_smp(int *ranks, int count)
{
    return PMI_Get_clique_ranks(ranks, count);
}

EXPORT int PMI_Barrier(void)
{
    return !hopbyte_mpi_running()                             ? PMI_ERR_INIT
           : NEXT(Barrier)(MPI_COMM_WORLD) == MPI_SUCCESS ? PMI_SUCCESS
                                                              : PMI_FAIL;
}

EXPORT int PMI_Allgather(void *in, void *out, int bytes)
{
    if (!in || !out || bytes < 0)
        return PMI_ERR_INVALID_ARG;
    if (!hopbyte_mpi_running())
        return PMI_ERR_INIT;
    int rc = NEXT(Allgather)(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
    return rc == MPI_SUCCESS ? PMI_SUCCESS : PMI_FAIL;
}

/* --- RCA --- */

EXPORT int rca_get_nodeid(rs_node_t *node)
{
    int rc;
    const struct hopbyte_coords_node *own = node_at(hopbyte_topology_rank(), &rc);
    if (!node)
        return -EINVAL;
    if (!own)
        return -ENOENT;
    node->rs_node_flat = 0;
    node->rs_node_s._node_id = (uint32_t)own->nid;
    return 0;
}

EXPORT int rca_get_meshcoord(uint16_t nid, rca_mesh_coord_t *at)
{
    uint16_t three[3];
    int rc = at ? coordinates((int)nid, three) : PMI_ERR_INVALID_ARG;
    if (rc != PMI_SUCCESS)
        return rc == PMI_FAIL ? -ENOENT : -EINVAL;
    *at = (rca_mesh_coord_t){three[0], three[1], three[2]};
    return 0;
}

EXPORT int rca_get_max_dimension(rca_mesh_coord_t *at)
{
    uint16_t three[3];
    if (!at)
        return -EINVAL;
    if (highest(three) != PMI_SUCCESS)
        return -ENOENT;
    *at = (rca_mesh_coord_t){three[0], three[1], three[2]};
    return 0;
}
