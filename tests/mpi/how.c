/* The same collectives as plain, nonblocking and persistent calls, and with an operation that does not commute. */
#include <mpi.h>

static void first(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((double *)out)[i] = ((double *)in)[i];
}

int main(int argc, char **argv)
{
    double out[4] = {0}, in[4];
    MPI_Op ordered, commuting;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Op_create(first, 0, &ordered);
    MPI_Op_create(first, 1, &commuting);
    MPI_Bcast(out, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Ibcast(out, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(out, in, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(out, in, 4, MPI_DOUBLE, commuting, MPI_COMM_WORLD);
    MPI_Allreduce(out, in, 4, MPI_DOUBLE, ordered, MPI_COMM_WORLD);
    MPI_Iallreduce(out, in, 4, MPI_DOUBLE, ordered, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(MPI_IN_PLACE, in, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
    MPI_Allreduce_init(out, in, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
#endif
    MPI_Op_free(&ordered);
    MPI_Op_free(&commuting);
    MPI_Finalize();
    return 0;
}
