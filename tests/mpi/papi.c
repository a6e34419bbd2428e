/* A program that reads PAPI and knows nothing of hopbyte: the increase of the events of its arguments over ten sends of 1000
 * bytes and an allreduce, and a list of all events of the component. */
#include <mpi.h>
#include <papi.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

static void list(void)
{
    for (int c = 0; c < PAPI_num_components(); c++) {
        const PAPI_component_info_t *info = PAPI_get_component_info(c);
        int code = PAPI_NATIVE_MASK;
        if (strcmp(info->name, "sde") != 0 || PAPI_enum_cmp_event(&code, PAPI_ENUM_FIRST, c) != PAPI_OK)
            continue;
        do {
            PAPI_event_info_t event;
            if (PAPI_get_event_info(code, &event) == PAPI_OK)
                printf("event %s # %s\n", event.symbol, event.long_descr);
        } while (PAPI_enum_cmp_event(&code, PAPI_ENUM_EVENTS, c) == PAPI_OK);
    }
}

int main(int argc, char **argv)
{
    int set = PAPI_NULL, rank, size, sum, one = 1;
    long long values[MOST] = {0};
    char out[1000] = "", in[1000];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int version = PAPI_library_init(PAPI_VER_CURRENT), rc = version > 0 ? PAPI_create_eventset(&set) : version;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* before the start: not counted */
    for (int i = 1; i < argc && i < MOST && rc == PAPI_OK; i++)
        if ((rc = PAPI_add_named_event(set, argv[i])) != PAPI_OK)
            printf("%s: %s\n", argv[i], PAPI_strerror(rc));
    if (rc == PAPI_OK && argc > 1)
        rc = PAPI_start(set);
    for (int i = 0; i < 10; i++)
        MPI_Sendrecv(out, 1000, MPI_CHAR, (rank + 1) % size, 0, in, 1000, MPI_CHAR, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rc == PAPI_OK && argc > 1)
        rc = PAPI_stop(set, values);
    for (int i = 1; rank == 0 && rc == PAPI_OK && i < argc && i < MOST; i++)
        printf("value %s %lld\n", argv[i], values[i - 1]);
    if (rank == 0)
        list();
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
