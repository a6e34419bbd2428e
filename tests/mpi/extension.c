/* Persistent collectives before they were standard, and a weak reference as bindings for several releases have it. */
#include <mpi.h>
#include <stdio.h>

int MPIX_Allreduce_init(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request *);
extern int MPI_Allreduce_init(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request *)
    __attribute__((weak));

int main(int argc, char **argv)
{
    double in[2] = {1, 2}, out[2];
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPIX_Allreduce_init(in, out, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    printf("standard: %s\n", MPI_Allreduce_init ? "there" : "absent");
    MPI_Finalize();
    return 0;
}
