/* Prints what Cray's calls return, without ending at the first error; with `alone`, without MPI. */
#include <mpi.h>
#include <pmi.h>
#include <rca_lib.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank = 0, nid = -1, other = -1, alone = argc > 1 && strcmp(argv[1], "alone") == 0;
    pmi_mesh_coord_t at, most;
    rs_node_t node;
    if (!alone)
        MPI_Init(&argc, &argv);
    PMI_Get_rank(&rank);
    int got = PMI_Get_nid(rank, &nid), last = PMI_Get_nid(1, &other);
    printf("rank %d: %d %d %d %d %d %d\n", rank, got, last, PMI_Get_meshcoord((pmi_nid_t)nid, &at),
           PMI_Get_max_dimension(&most), rca_get_nodeid(&node), PMI_Barrier());
    fflush(stdout);
    if (!alone)
        MPI_Finalize();
    return 0;
}
