/* Functions that MPI 3.1 does not have, as far as Open MPI 5 has them; without large counts. */
#include <mpi.h>

static int rank, size;
static char out[64], in[1024];

static void run(MPI_Request *request, int times)
{
    for (int i = 0; i < times; i++) {
        MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(request);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Comm comm = MPI_COMM_WORLD, ring;
    MPI_Request request, receive;
    MPI_Isendrecv(out, 5, MPI_BYTE, right, 1, in, 64, MPI_BYTE, left, 1, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Isendrecv_replace(out, 7, MPI_BYTE, right, 2, left, 2, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Psend_init(out, 4, 3, MPI_BYTE, right, 3, comm, MPI_INFO_NULL, &request);
    MPI_Precv_init(in, 4, 3, MPI_BYTE, left, 3, comm, MPI_INFO_NULL, &receive);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&receive);
        MPI_Start(&request);
        MPI_Pready_range(0, 3, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Request_free(&receive);

    MPI_Pcontrol(0); /* created while recording pauses, and started afterwards */
    MPI_Bcast_init(out, 8, MPI_BYTE, 0, comm, MPI_INFO_NULL, &request);
    MPI_Pcontrol(1);
    run(&request, 5);
    MPI_Allreduce_init(out, in, 2, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request);
    run(&request, 3);
    int counts[64] = {0}, places[64] = {0};
    for (int i = 0; i < size; i++) {
        counts[i] = 3;
        places[i] = 3 * i;
    }
    MPI_Alltoallv_init(out, counts, places, MPI_BYTE, in, counts, places, MPI_BYTE, comm, MPI_INFO_NULL, &request);
    run(&request, 2);
    MPI_Dist_graph_create_adjacent(comm, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    MPI_Neighbor_alltoall_init(out, 9, MPI_BYTE, in, 9, MPI_BYTE, ring, MPI_INFO_NULL, &request);
    run(&request, 4);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
