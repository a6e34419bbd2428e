/* Without end: a message to oneself in each of PHASES phases in turn, so that every message moves a count to the table,
 * the table grows, and is written out. Phase i has as many messages as phase i+1, or one more. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int phases = argc > 1 ? atoi(argv[1]) : 3000, out = 0, in;
    MPI_Init(&argc, &argv);
    for (long round = 0;; round++)
        for (int i = 0; i < phases; i++) {
            MPI_Request request;
            MPI_Pcontrol(2 + i);
            MPI_Irecv(&in, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
            MPI_Send(&out, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
}
