/* where: host of every rank, the processors and cores it may use, and the number of ranks that share its memory.
 *
 * Some launchers place ranks correctly but make every run of ranks a separate node, so the ranks of one host must be
 * counted by MPI itself (MPI_COMM_TYPE_SHARED). Prints one line per rank, all from rank 0, so that no lines mix. */
#include "cores.h"
#include "options.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CPUS_ROOM = 256 };

struct place {
    int shared; /* ranks of MPI_COMM_TYPE_SHARED */
    char host[HOPBYTE_NAME_ROOM], cpus[CPUS_ROOM], cores[CPUS_ROOM];
};

/* Names come from the system and are quoted. */
static void quoted_print(const char *text) {
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            putchar(*text);
    putchar('"');
}

int main(int argc, char **argv) {
    struct hopbyte_world world;
    hopbyte_world_open(&world, &argc, &argv, MPI_THREAD_SINGLE, "where");
    bool json = false;
    double deadline = 60;
    const struct hopbyte_option options[] = {
        {"deadline", HOPBYTE_REAL, &deadline, 0, NULL, "seconds until the job is ended, 0 for ever (60)", 0},
        {"json", HOPBYTE_FLAG, &json, 0, NULL, "a JSON line a rank", 0},
        {0}};
    char problem[512];
    int read = hopbyte_options_read(options, argc, argv, 1, problem, sizeof problem);
    if (read < 0)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s", problem);
    if (read > 0) {
        if (world.rank == 0) {
            puts("usage: mpiexec … where [options]\n\n"
                 "Host of every rank, the processors that it may use, and the ranks that share memory with it.\n");
            hopbyte_options_help(options);
        }
        return hopbyte_world_close(HOPBYTE_DONE);
    }
    hopbyte_deadline_set(deadline, "finding out where the ranks are");
    struct place own = {0};
    /* Several node daemons of one Slurm may run on one machine; all their ranks then report the same host name. */
    const char *slurm = getenv("SLURMD_NODENAME");
    snprintf(own.host, sizeof own.host, "%s", slurm ? slurm : world.node);
    cpu_set_t cpus, cores;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
        cores_list(&cpus, own.cpus, sizeof own.cpus);
        cores_of(&cpus, &cores);
        cores_list(&cores, own.cores, sizeof own.cores);
    }
    MPI_Comm shared;
    MPI_Comm_split_type(world.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &own.shared);
    MPI_Comm_free(&shared);
    struct place *places = NULL;
    if (world.rank == 0)
        places = hopbyte_memory((size_t)world.size * sizeof *places, "the places of all ranks");
    MPI_Gather(&own, (int)sizeof own, MPI_BYTE, places, (int)sizeof own, MPI_BYTE, 0, world.comm);
    for (int rank = 0; world.rank == 0 && rank < world.size; rank++) {
        const struct place *p = &places[rank];
        if (!json) {
            printf("%d %s cpus %s, cores %s, %d share memory\n", rank, p->host, p->cpus, p->cores, p->shared);
            continue;
        }
        printf("{\"schema\":\"hopbyte.where/1\",\"rank\":%d,\"ranks\":%d,\"host\":", rank, world.size);
        quoted_print(p->host);
        printf(",\"cpus\":");
        quoted_print(p->cpus);
        printf(",\"cores\":");
        quoted_print(p->cores);
        printf(",\"shared\":%d}\n", p->shared);
    }
    free(places);
    return hopbyte_world_close(HOPBYTE_DONE);
}
