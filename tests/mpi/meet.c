/* Two jobs that meet: `meet server SERVICE [CLIENTS]` opens a port, publishes it and accepts; `meet client SERVICE` looks it
 * up, `meet client -` connects without a name. All ranks of both take part, and sum over both sides. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static int failed(const char *what, int rc)
{
    int class = rc;
    MPI_Error_class(rc, &class);
    printf("rank %d: %s gave %s\n", rank, what,
           class == MPI_ERR_PORT      ? "MPI_ERR_PORT"
           : class == MPI_ERR_NAME    ? "MPI_ERR_NAME"
           : class == MPI_ERR_SERVICE ? "MPI_ERR_SERVICE"
                                      : "another error");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

static void sum(MPI_Comm other, const char *who)
{
    int mine = rank + 1, theirs = 0;
    MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, other);
    if (rank == 0)
        printf("%s: %d\n", who, theirs);
    MPI_Comm_disconnect(&other);
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    const char *what = argc > 1 ? argv[1] : "", *service = argc > 2 ? argv[2] : "-";
    int clients = argc > 3 ? atoi(argv[3]) : 1, rc = MPI_SUCCESS;
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (strcmp(what, "server") == 0) {
        if (rank == 0 && (rc = MPI_Open_port(MPI_INFO_NULL, port)) != MPI_SUCCESS)
            return failed("MPI_Open_port", rc);
        if (rank == 0 && *service != '-' && (rc = MPI_Publish_name(service, MPI_INFO_NULL, port)) != MPI_SUCCESS)
            return failed("MPI_Publish_name", rc);
        if (rank == 0 && *service != '-' && MPI_Publish_name(service, MPI_INFO_NULL, port) != MPI_ERR_SERVICE)
            printf("published twice\n");
        for (int i = 0; i < clients; i++) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
            sum(other, "server got");
        }
        if (clients == 0)
            sleep(argc > 4 ? (unsigned)atoi(argv[4]) : 1);
        if (rank == 0 && *service != '-') {
            MPI_Unpublish_name(service, MPI_INFO_NULL, port);
            if (MPI_Unpublish_name(service, MPI_INFO_NULL, port) != MPI_ERR_SERVICE)
                printf("unpublished twice\n");
        }
        if (rank == 0)
            MPI_Close_port(port);
    } else {
        if (rank == 0 && *service != '-' && (rc = MPI_Lookup_name(service, MPI_INFO_NULL, port)) != MPI_SUCCESS)
            *port = 0;
        MPI_Bcast(&rc, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rc != MPI_SUCCESS)
            return failed("MPI_Lookup_name", rc);
        rc = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        if (rc != MPI_SUCCESS)
            return failed("MPI_Comm_connect", rc);
        sum(other, "client got");
    }
    MPI_Finalize();
    return 0;
}
