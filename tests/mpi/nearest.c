/* The shape of programs written for Cray machines: node numbers by PMI, coordinates by PMI and RCA, the nearest ranks by hops
 * (as in Charm++'s and Zoltan's topology managers), the node's own ranks (as in DataSpaces), and a list for shared memory
 * (as in GASNet). No line is hopbyte's. */
#include <mpi.h>
#include <pmi.h>
#include <rca_lib.h>
#include <stdio.h>
#include <stdlib.h>

static int steps(int a, int b, int length)
{
    int way = abs(a - b);
    return way < length - way ? way : length - way;
}

int main(int argc, char **argv)
{
    int rank, size, spawned, appnum, app_size, own_nid = -1, before;
    PMI_BOOL initialized;
    pmi_mesh_coord_t own, most;
    rca_mesh_coord_t again, rca_most;
    rs_node_t node;
    void *list;
    /* Score-P's order: PMI before MPI. */
    PMI_Initialized(&initialized);
    if (!initialized)
        PMI_Init(&spawned);
    int early = PMI_Get_rank(&before);
    early |= PMI_Get_nid(before, &own_nid);
    early |= PMI_Get_meshcoord((pmi_nid_t)own_nid, &own);
    MPI_Init(&argc, &argv);
    PMI_Get_rank(&rank);
    PMI_Get_size(&size);
    PMI_Get_appnum(&appnum);
    PMI_Get_app_size(appnum, &app_size);
    if (PMI_Get_nid(rank, &own_nid) != PMI_SUCCESS || PMI_Get_meshcoord((pmi_nid_t)own_nid, &own) != PMI_SUCCESS ||
        PMI_Get_max_dimension(&most) != PMI_SUCCESS || rca_get_nodeid(&node) != 0 ||
        rca_get_meshcoord((uint16_t)node.rs_node_s._node_id, &again) != 0 || rca_get_max_dimension(&rca_most) != 0 ||
        PMI_Get_nidlist_ptr(&list) != PMI_SUCCESS)
        PMI_Abort(5, "no topology");
    if (own.mesh_x != again.mesh_x || own.mesh_y != again.mesh_y || own.mesh_z != again.mesh_z ||
        (int)node.rs_node_s._node_id != own_nid || most.mesh_x != rca_most.mesh_x || ((int *)list)[rank] != own_nid)
        PMI_Abort(6, "PMI and RCA differ");
    /* Where every rank is, and the hops to it. */
    int on_node = 0, sum = 0, clique = 0, pes = 0, ranks[64];
    for (int r = 0; r < size; r++) {
        int nid;
        pmi_mesh_coord_t at;
        if (PMI_Get_nid(r, &nid) != PMI_SUCCESS || PMI_Get_meshcoord((pmi_nid_t)nid, &at) != PMI_SUCCESS)
            PMI_Abort(7, "a rank without a place");
        on_node += nid == own_nid;
        sum += steps(at.mesh_x, own.mesh_x, most.mesh_x + 1) + steps(at.mesh_y, own.mesh_y, most.mesh_y + 1) +
               steps(at.mesh_z, own.mesh_z, most.mesh_z + 1);
    }
    PMI_Get_clique_size(&clique);
    PMI_Get_numpes_on_smp(&pes);
    int listed = PMI_Get_pes_on_smp(ranks, 64), shorter = clique > 1 ? PMI_Get_clique_ranks(ranks, clique - 1) : 8;
    int *nids = calloc((size_t)size, sizeof *nids);
    int gathered = PMI_Allgather(&own_nid, nids, (int)sizeof own_nid);
    for (int r = 0; r < size; r++)
        gathered |= nids[r] != ((int *)list)[r];
    gathered |= PMI_Barrier();
    printf("rank %d early %d nid %d at %d %d %d of %d %d %d hops %d here %d %d %d lists %d %d gather %d app %d\n", rank, early,
           own_nid, own.mesh_x, own.mesh_y, own.mesh_z, most.mesh_x + 1, most.mesh_y + 1, most.mesh_z + 1, sum, on_node,
           clique, pes, listed, shorter, gathered, app_size);
    if (rank == 0) {
        int nid;
        uint32_t nic;
        printf("mistakes %d %d %d %d %d %d\n", PMI_Get_nid(size, &nid), PMI_Get_nid(-1, &nid),
               PMI_Get_meshcoord(4000000, &own), PMI_Get_app_size(1, &nid), PMI_nid_to_nicaddrs(0, 1, &nic),
               rca_get_meshcoord(65535, &again));
    }
    fflush(stdout);
    MPI_Finalize();
    PMI_Finalize();
    return 0;
}
