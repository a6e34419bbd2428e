/* usage: teams SCRIPT. Makes the teams of a script and prints this PE's view of each; then runs every collective on every
 * team and checks the data. Lines: `strided P START STRIDE SIZE`, `2d P XRANGE`, `cart2 P X Y`, `cart3 P X Y Z`,
 * `color P C:K …` (one pair per PE of the world, color u: undefined), `destroy T`, `active START LOG SIZE`. P and T number
 * the teams in order, 0 the world, 1 the node. A PE that is not in P skips the line. */
#include "hopbyte_shmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEAMS = 200, WORDS = 32 };
static shmem_team_t teams[TEAMS];
static int count, me, pes;
static long *to, *from, *plain;
static size_t *offsets, *sizes, *out_offsets, *out_sizes;

static void bad(int team, const char *what)
{
    printf("BAD PE %d team %d: %s\n", me, team, what);
    fflush(stdout);
    shmem_global_exit(1);
}

static void read_line(char *line)
{
    char *words[WORDS + 64];
    int n = 0;
    for (char *w = strtok(line, " \n"); w && n < WORDS + 64; w = strtok(NULL, " \n"))
        words[n++] = w;
    if (!n)
        return;
    int a[4] = {0};
    for (int i = 0; i < 4 && i + 1 < n; i++)
        a[i] = atoi(words[i + 1]);
    shmem_team_t parent = teams[a[0]];
    if (!strcmp(words[0], "destroy")) {
        shmem_team_destroy(parent);
        teams[a[0]] = SHMEM_TEAM_INVALID;
        return;
    }
    int made = !strcmp(words[0], "2d") || !strcmp(words[0], "cart2") ? 2 : !strcmp(words[0], "cart3") ? 3 : 1;
    shmem_team_t *new = teams + count;
    for (int i = 0; i < made; i++)
        teams[count++] = SHMEM_TEAM_INVALID;
    if (parent == SHMEM_TEAM_INVALID)
        return;
    if (!strcmp(words[0], "strided")) {
        shmem_team_split_strided(parent, a[1], a[2], a[3], NULL, 0, new);
    } else if (!strcmp(words[0], "2d")) {
        shmem_team_split_2d(parent, a[1], NULL, 0, new, NULL, 0, new + 1);
    } else if (!strcmp(words[0], "cart2")) {
        shmemx_team_split_2d(parent, a[1], a[2], new, new + 1);
    } else if (!strcmp(words[0], "cart3")) {
        shmemx_team_split_3d(parent, a[1], a[2], a[3], new, new + 1, new + 2);
    } else {
        char *colon = strchr(words[2 + me], ':');
        int color = words[2 + me][0] == 'u' ? SHMEM_COLOR_UNDEFINED : atoi(words[2 + me]);
        shmemx_team_split_color(parent, color, atoi(colon + 1), new);
    }
}

static long mark(int a, int b, int i)
{
    return 1000000L * a + 1000L * b + i;
}

static void reductions(int k, shmem_team_t team, int n)
{
    long sum = 0, most = -1;
    for (int i = 0; i < n; i++) {
        int pe = shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD);
        sum += pe * 7L + 1;
        most = pe > most ? pe : most;
    }
    for (int i = 0; i < 300; i++) {
        from[i] = me * 7L + 1 + i;
        plain[i] = me + i;
    }
    shmem_team_sync(team);
    shmemx_team_long_sum_to_all(team, to, from, 300, NULL, NULL);
    for (int i = 0; i < 300; i++)
        if (to[i] != sum + (long)n * i)
            bad(k, "sum");
    shmem_team_sync(team);
    if (shmem_long_max_reduce(team, plain, plain, 3) != 0 || plain[0] != most || plain[2] != most + 2)
        bad(k, "max in place");
}

static void moves(int k, shmem_team_t team, int n, int rank)
{
    for (int i = 0; i < n * 3; i++)
        from[i] = mark(rank, i / 3, i % 3);
    shmem_team_sync(team);
    shmem_long_alltoall(team, to, from, 3);
    for (int i = 0; i < n * 3; i++)
        if (to[i] != mark(i / 3, rank, i % 3))
            bad(k, "alltoall");
    shmem_team_sync(team);
    shmem_long_alltoalls(team, to, from, 2, 1, 1);
    for (int i = 0; i < n; i++)
        if (to[2 * i] != mark(i, rank / 3, rank % 3))
            bad(k, "alltoalls");
    shmem_team_sync(team);
    shmemx_team_alltoall(to, from, 24, team, NULL);
    if (to[0] != mark(0, rank, 0))
        bad(k, "Cray's alltoall");
    shmem_team_sync(team);
    int root = n / 2;
    from[0] = 77000 + rank;
    to[0] = -1;
    shmem_team_sync(team);
    if (shmem_broadcast(team, to, from, 1, root) != 0 || to[0] != 77000 + root)
        bad(k, "broadcast");
    shmem_team_sync(team);
    from[0] = rank;
    from[1] = -rank;
    shmem_fcollect(team, to, from, 2);
    for (int i = 0; i < n; i++)
        if (to[2 * i] != i || to[2 * i + 1] != -i)
            bad(k, "fcollect");
    shmem_team_sync(team);
    for (int i = 0; i < rank % 3; i++)
        from[i] = mark(rank, i, 5);
    shmem_long_collect(team, to, from, (size_t)(rank % 3));
    for (int i = 0, at = 0; i < n; i++)
        for (int j = 0; j < i % 3; j++, at++)
            if (to[at] != mark(i, j, 5))
                bad(k, "collect");
    shmem_team_sync(team);
}

/* From member a to member b: (a + 2 b) mod 4 longs, which is often none. */
static void varied(int k, shmem_team_t team, int n, int rank)
{
    for (int i = 0; i < n; i++) {
        offsets[i] = (size_t)(n - 1 - i) * 4 * sizeof(long);
        sizes[i] = 999;
        out_offsets[i] = (size_t)i * 4 * sizeof(long);
        out_sizes[i] = (size_t)((rank + 2 * i) % 4) * sizeof(long);
        for (int j = 0; j < 4; j++) {
            from[4 * i + j] = mark(rank, i, j);
            to[4 * i + j] = -1;
        }
    }
    shmem_team_sync(team);
    shmemx_team_alltoallv(to, offsets, sizes, from, out_offsets, out_sizes, team, NULL);
    for (int i = 0; i < n; i++) {
        size_t got = (size_t)((i + 2 * rank) % 4);
        if (sizes[i] != got * sizeof(long))
            bad(k, "alltoallv: size");
        for (size_t j = 0; j < 4; j++)
            if (to[(size_t)(n - 1 - i) * 4 + j] != (j < got ? mark(i, rank, (int)j) : -1))
                bad(k, "alltoallv");
    }
    shmem_team_sync(team);
}

int main(int argc, char **argv)
{
    char line[4096];
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    FILE *script = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!script)
        return 2;
    size_t room = (size_t)(pes * 4 + 310) * sizeof(long);
    to = shmem_malloc(room);
    from = shmem_malloc(room);
    plain = shmem_malloc(room);
    offsets = shmem_malloc(room);
    sizes = shmem_malloc(room);
    out_offsets = shmem_malloc(room);
    out_sizes = shmem_malloc(room);
    teams[0] = SHMEM_TEAM_WORLD;
    teams[1] = SHMEM_TEAM_NODE;
    count = 2;
    while (fgets(line, sizeof line, script))
        read_line(line);
    fclose(script);
    for (int k = 0; k < count; k++) {
        if (teams[k] == SHMEM_TEAM_INVALID)
            continue;
        int n = shmem_team_n_pes(teams[k]), rank = shmem_team_my_pe(teams[k]);
        int used = snprintf(line, sizeof line, "TEAM %d PE %d rank %d members", k, me, rank);
        for (int i = 0; i < n; i++) {
            int pe = shmem_team_translate_pe(teams[k], i, SHMEM_TEAM_WORLD);
            used += snprintf(line + used, sizeof line - (size_t)used, " %d", pe);
            if (shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, teams[k]) != i)
                bad(k, "translate");
        }
        printf("%s\n", line);
        fflush(stdout);
        reductions(k, teams[k], n);
        moves(k, teams[k], n, rank);
        varied(k, teams[k], n, rank);
        shmemx_team_barrier(teams[k], NULL);
    }
    shmem_barrier_all();
    for (int k = 2; k < count; k++)
        shmem_team_destroy(teams[k]);
    shmem_finalize();
    return 0;
}
