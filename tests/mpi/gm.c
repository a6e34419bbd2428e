/* Samples and prints through the gm API: gm READS [OLDER NEWER] [pause]; prints the leaders and rank 0's memory use.
 * With `pause` rank 0 creates the file `sampled` after every read but the last, and waits for its removal. */
#include "gemini.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long resident_kb(const char *what)
{
    char line[256];
    long value = -1;
    FILE *in = fopen("/proc/self/status", "r");
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, what, strlen(what)) == 0)
            value = atol(line + strlen(what) + 1);
    if (in)
        fclose(in);
    return value;
}

static void wait_for_change(int rank)
{
    if (rank == 0) {
        FILE *flag = fopen("sampled", "w");
        if (flag)
            fclose(flag);
        for (int i = 0; i < 6000 && access("sampled", F_OK) == 0; i++)
            usleep(10000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, reads = argc > 1 ? atoi(argv[1]) : 2;
    gemini_state_t state;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long before = resident_kb("VmRSS:");
    if (gemini_init_state(MPI_COMM_WORLD, &state) != 0) {
        MPI_Finalize();
        return 7;
    }
    int pause = argc > 2 && strcmp(argv[argc - 1], "pause") == 0;
    for (int i = 0; i < reads; i++) {
        gemini_read_counters(MPI_COMM_WORLD, &state);
        if (pause && i + 1 < reads)
            wait_for_change(rank);
    }
    int rc = argc > 3 && !pause ? hopbyte_gm_print_between(MPI_COMM_WORLD, &state, atoi(argv[2]), atoi(argv[3]))
                                : gemini_print_counters(MPI_COMM_WORLD, &state);
    long after = resident_kb("VmHWM:");
    fprintf(stderr, "rank %d leads %d peak %zu grew %ld\n", rank, hopbyte_gm_domain_count(&state),
            hopbyte_gm_memory_peak(), (after - before) * 1024);
    hopbyte_gm_free_state(MPI_COMM_WORLD, &state);
    MPI_Finalize();
    return rc ? 8 : 0;
}
