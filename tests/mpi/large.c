/* The large-count functions of MPI 4. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, size;
    static char out[64], in[1024];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Request request;
    MPI_Irecv_c(in, 64, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &request);
    MPI_Send_c(out, 24, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Isendrecv(out, 5, MPI_BYTE, (rank + 1) % size, 1, in, 64, MPI_BYTE, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                  &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Count counts[64] = {0};
    MPI_Aint places[64] = {0};
    for (int i = 0; i < size; i++) {
        counts[i] = 3;
        places[i] = 3 * i;
    }
    MPI_Alltoallv_c(out, counts, places, MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Bcast_init(out, 8, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 5; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
