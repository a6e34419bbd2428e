/* Two processes spawn two more and send them a message each, or with an argument none. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int rank, word = 7, silent = argc > 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        if (!silent)
            MPI_Send(&word, 1, MPI_INT, rank, 0, children);
        MPI_Comm_disconnect(&children);
    } else {
        if (!silent)
            MPI_Recv(&word, 1, MPI_INT, rank, 0, parent, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return word != 7;
}
