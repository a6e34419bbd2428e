/* usage: refused CASE. Wrong calls, each of which must be refused with a message; prints `reached` after the call. */
#include "hopbyte_shmem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static shmem_team_t team, x, y, z;
static long *a, *b;
static size_t *sizes;

static void *sum(void *unused)
{
    (void)unused;
    shmemx_team_long_sum_to_all(SHMEM_TEAM_WORLD, a, b, 1, NULL, NULL);
    return NULL;
}

static void run(const char *name, int me, int pes)
{
    shmem_team_config_t config = {4};
    int status = 0;
    if (!strcmp(name, "freed")) {
        shmemx_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, &team);
        shmem_team_destroy(team);
        shmemx_team_long_sum_to_all(team, a, b, 1, NULL, NULL);
    } else if (!strcmp(name, "freed_reused")) {
        shmemx_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, &team);
        shmem_team_destroy(team);
        shmemx_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, &x);
        shmem_team_my_pe(team);
    } else if (!strcmp(name, "freed_twice")) {
        shmemx_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, &team);
        shmem_team_destroy(team);
        shmem_team_destroy(team);
    } else if (!strcmp(name, "destroy_world")) {
        shmem_team_destroy(SHMEM_TEAM_WORLD);
    } else if (!strcmp(name, "invalid")) {
        shmemx_team_long_sum_to_all(SHMEM_TEAM_INVALID, a, b, 1, NULL, NULL);
    } else if (!strcmp(name, "rubbish")) {
        shmem_team_n_pes((shmem_team_t)(void *)a);
    } else if (!strcmp(name, "ragged3d")) {
        shmemx_team_split_3d(SHMEM_TEAM_WORLD, 2, 2, 2, &x, &y, &z);
    } else if (!strcmp(name, "ragged2d")) {
        shmemx_team_split_2d(SHMEM_TEAM_WORLD, 2, pes, &x, &y);
    } else if (!strcmp(name, "zero3d")) {
        shmemx_team_split_3d(SHMEM_TEAM_WORLD, 1, 0, 1, &x, &y, &z);
    } else if (!strcmp(name, "huge3d")) {
        shmemx_team_split_3d(SHMEM_TEAM_WORLD, 1 << 30, 1 << 30, 1 << 30, &x, &y, &z);
    } else if (!strcmp(name, "color")) {
        shmemx_team_split_color(SHMEM_TEAM_WORLD, -7, 0, &x);
    } else if (!strcmp(name, "strided_outside")) {
        shmemx_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, pes, &x);
    } else if (!strcmp(name, "unequal_split")) {
        shmemx_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, me == pes - 1 ? 1 : 2, &x);
    } else if (!strcmp(name, "unequal_3d")) {
        shmemx_team_split_3d(SHMEM_TEAM_WORLD, 1, 1, me ? 1 : 2, &x, &y, &z);
    } else if (!strcmp(name, "unequal_count")) {
        shmemx_team_long_sum_to_all(SHMEM_TEAM_WORLD, a, b, me ? 4 : 5, NULL, NULL);
    } else if (!strcmp(name, "unequal_operation")) {
        me ? shmemx_team_long_sum_to_all(SHMEM_TEAM_WORLD, a, b, 4, NULL, NULL)
           : shmemx_team_long_max_to_all(SHMEM_TEAM_WORLD, a, b, 4, NULL, NULL);
    } else if (!strcmp(name, "unequal_root")) {
        shmem_long_broadcast(SHMEM_TEAM_WORLD, a, b, 4, me ? 0 : 1);
    } else if (!strcmp(name, "root")) {
        shmem_long_broadcast(SHMEM_TEAM_WORLD, a, b, 4, pes);
    } else if (!strcmp(name, "negative_count")) {
        shmemx_team_int_sum_to_all(SHMEM_TEAM_WORLD, (int *)a, (int *)b, -1, NULL, NULL);
    } else if (!strcmp(name, "active_outside")) {
        shmem_long_sum_to_all(a, b, 1, 0, 1, pes, NULL, NULL);
    } else if (!strcmp(name, "active_other")) {
        if (me == 0)
            shmem_long_sum_to_all(a, b, 1, 1, 0, 1, NULL, NULL);
        else
            sleep(20), _exit(0);
    } else if (!strcmp(name, "one_missing")) {
        if (me)
            shmemx_team_barrier(SHMEM_TEAM_WORLD, NULL);
        else
            sleep(20), _exit(0);
    } else if (!strcmp(name, "too_long")) {
        for (int i = 0; i < pes; i++) {
            sizes[i] = 8;
            sizes[pes + i] = 16;
            sizes[2 * pes + i] = 0;
        }
        shmem_barrier_all();
        shmemx_team_alltoallv(a, sizes + 2 * pes, sizes, b, sizes + 2 * pes, sizes + pes, SHMEM_TEAM_WORLD, NULL);
    } else if (!strcmp(name, "two_threads")) {
        pthread_t thread;
        if (me) {
            sleep(20), _exit(0);
            return;
        }
        pthread_create(&thread, NULL, sum, NULL);
        usleep(500000);
        sum(NULL);
    } else if (!strcmp(name, "before")) {
        return;
    } else if (!strncmp(name, "soft_", 5)) { /* refused with -1 and an invalid team */
        team = SHMEM_TEAM_WORLD;
        if (!strcmp(name, "soft_size"))
            status = shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes + 1, NULL, 0, &team);
        else if (!strcmp(name, "soft_stride"))
            status = shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 0, 2, NULL, 0, &team);
        else if (!strcmp(name, "soft_negative"))
            status = shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, -1, 2, NULL, 0, &team);
        else if (!strcmp(name, "soft_start"))
            status = shmem_team_split_strided(SHMEM_TEAM_WORLD, -1, 1, 2, NULL, 0, &team);
        else if (!strcmp(name, "soft_overflow"))
            status = shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2147483647, 2, NULL, 0, &team);
        else if (!strcmp(name, "soft_contexts"))
            status = shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, &config, SHMEM_TEAM_NUM_CONTEXTS, &team);
        else
            status = shmem_team_split_2d(SHMEM_TEAM_WORLD, 0, NULL, 0, &team, NULL, 0, &x);
        shmem_barrier_all();
        if (status == -1 && team == SHMEM_TEAM_INVALID)
            printf("refused softly\n");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int provided;
    if (!strcmp(name, "before"))
        shmem_team_my_pe(SHMEM_TEAM_WORLD);
    if (!strcmp(name, "two_threads"))
        shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    else
        shmem_init();
    a = shmem_calloc(64, sizeof *a);
    b = shmem_calloc(64, sizeof *b);
    sizes = shmem_calloc((size_t)shmem_n_pes() * 3, sizeof *sizes);
    run(name, shmem_my_pe(), shmem_n_pes());
    printf("reached\n");
    fflush(stdout);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
