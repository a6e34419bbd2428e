/* A persistent operation made by a function that no preload library sees: looked up in the library itself. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, out = 1, in;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *library = dlopen(argv[1], RTLD_NOLOAD | RTLD_LAZY);
    int (*init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =
        library ? (int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))dlsym(library, "MPI_Send_init")
                : NULL;
    if (!init)
        abort();
    init(&out, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Recv(&in, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
