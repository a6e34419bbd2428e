/* usage: reduce [SIZE …]. Every type and operation by Cray's, OpenSHMEM 1.5's and 1.4's names against a loop over the
 * members, on the world, on an active set and on the team that equals it, which must give the same bits and counts. */
#include "hopbyte_shmem.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, pes, checks;
static char *to, *from, *work, *again;
static long *sync;
static int start, log_stride, size; /* an active set */
static shmem_team_t team;           /* its team */

/* Small values, so that sums and products of floating-point numbers are exact in any order. */
static long value(int pe, size_t i)
{
    return 1 + (long)((unsigned)pe * 5 + i * 3) % 3;
}

#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))

#define EXPECT(C, F, FIRST, STRIDE, N, COUNT, WHAT)                                                                       \
    for (size_t i = 0; i < (COUNT); i++) {                                                                                 \
        C want = (C)value(FIRST, i);                                                                                       \
        for (int p = 1; p < (N); p++) {                                                                                    \
            C other = (C)value((FIRST) + p * (STRIDE), i);                                                                 \
            want = (C)F(want, other);                                                                                      \
        }                                                                                                                  \
        if (((C *)to)[i] != want) {                                                                                        \
            printf("BAD PE %d %s element %zu of %zu\n", me, WHAT, i, (size_t)(COUNT));                                     \
            fflush(stdout);                                                                                                \
            shmem_global_exit(1);                                                                                          \
        }                                                                                                                  \
    }                                                                                                                      \
    checks++;

#define FILL(C, COUNT)                                                                                                     \
    for (size_t i = 0; i < (COUNT); i++)                                                                                   \
        ((C *)from)[i] = (C)value(me, i);                                                                                  \
    memset(to, 0x55, (COUNT) * sizeof(C));                                                                                 \
    shmem_team_sync(SHMEM_TEAM_WORLD);

#define TEAM(T, C, OP, F)                                                                                                  \
    static void team_##T##_##OP(size_t n)                                                                                  \
    {                                                                                                                      \
        FILL(C, n)                                                                                                         \
        shmemx_team_##T##_##OP##_to_all(SHMEM_TEAM_WORLD, (C *)to, (C *)from, (int)n, (C *)work, sync);                    \
        EXPECT(C, F, 0, 1, pes, n, "shmemx_team_" #T "_" #OP "_to_all")                                                    \
        FILL(C, n)                                                                                                         \
        memcpy(to, from, n * sizeof(C));                                                                                   \
        shmem_team_sync(SHMEM_TEAM_WORLD);                                                                                 \
        shmem_##T##_##OP##_reduce(SHMEM_TEAM_WORLD, (C *)to, (C *)to, n);                                                  \
        EXPECT(C, F, 0, 1, pes, n, "shmem_" #T "_" #OP "_reduce in place")                                                 \
    }
#define ACTIVE(T, C, OP, F)                                                                                                \
    static void active_##T##_##OP(size_t n)                                                                                \
    {                                                                                                                      \
        FILL(C, n)                                                                                                         \
        if (team != SHMEM_TEAM_INVALID) {                                                                                  \
            struct hopbyte_shmem_counts a, b;                                                                              \
            hopbyte_shmem_counts_reset();                                                                                  \
            shmem_##T##_##OP##_to_all((C *)to, (C *)from, (int)n, start, log_stride, size, (C *)work, sync);              \
            hopbyte_shmem_counts_read(&a);                                                                                 \
            EXPECT(C, F, start, 1 << log_stride, size, n, "shmem_" #T "_" #OP "_to_all")                                   \
            memcpy(again, to, n * sizeof(C));                                                                              \
            shmem_team_sync(team);                                                                                         \
            hopbyte_shmem_counts_reset();                                                                                  \
            shmemx_team_##T##_##OP##_to_all(team, (C *)to, (C *)from, (int)n, (C *)work, sync);                            \
            hopbyte_shmem_counts_read(&b);                                                                                 \
            if (memcmp(again, to, sizeof(C) == 16 && #T[0] == 'l' ? 0 : n * sizeof(C)) || memcmp(&a, &b, sizeof a)) {     \
                printf("BAD PE %d " #T " " #OP ": active set and team differ\n", me);                                      \
                shmem_global_exit(1);                                                                                      \
            }                                                                                                              \
        }                                                                                                                  \
        shmem_team_sync(SHMEM_TEAM_WORLD);                                                                                 \
    }

#define EACH_ARITHMETIC(X, T, C) X(T, C, sum, SUM) X(T, C, prod, PROD)
#define EACH_REAL(X, T, C) EACH_ARITHMETIC(X, T, C) X(T, C, min, MIN) X(T, C, max, MAX)
#define EACH_INTEGER(X, T, C) EACH_REAL(X, T, C) X(T, C, and, AND) X(T, C, or, OR) X(T, C, xor, XOR)

#define EACH_1_4(X)                                                                                                        \
    EACH_INTEGER(X, short, short)                                                                                          \
    EACH_INTEGER(X, int, int)                                                                                              \
    EACH_INTEGER(X, long, long)                                                                                            \
    EACH_INTEGER(X, longlong, long long)                                                                                   \
    EACH_REAL(X, float, float)                                                                                             \
    EACH_REAL(X, double, double)                                                                                           \
    EACH_REAL(X, longdouble, long double)                                                                                  \
    EACH_ARITHMETIC(X, complexf, float complex)                                                                            \
    EACH_ARITHMETIC(X, complexd, double complex)
#define EACH(X)                                                                                                            \
    EACH_1_4(X)                                                                                                            \
    EACH_INTEGER(X, char, char)                                                                                            \
    EACH_INTEGER(X, schar, signed char)                                                                                    \
    EACH_INTEGER(X, uchar, unsigned char)                                                                                  \
    EACH_INTEGER(X, ushort, unsigned short)                                                                                \
    EACH_INTEGER(X, uint, unsigned int)                                                                                    \
    EACH_INTEGER(X, ulong, unsigned long)                                                                                  \
    EACH_INTEGER(X, ulonglong, unsigned long long)                                                                         \
    EACH_INTEGER(X, int8, int8_t)                                                                                          \
    EACH_INTEGER(X, int16, int16_t)                                                                                        \
    EACH_INTEGER(X, int32, int32_t)                                                                                        \
    EACH_INTEGER(X, int64, int64_t)                                                                                        \
    EACH_INTEGER(X, uint8, uint8_t)                                                                                        \
    EACH_INTEGER(X, uint16, uint16_t)                                                                                      \
    EACH_INTEGER(X, uint32, uint32_t)                                                                                      \
    EACH_INTEGER(X, uint64, uint64_t)                                                                                      \
    EACH_INTEGER(X, size, size_t)                                                                                          \
    EACH_INTEGER(X, ptrdiff, ptrdiff_t)

EACH(TEAM)
EACH_1_4(ACTIVE)
#define RUN_TEAM(T, C, OP, F) team_##T##_##OP(n);
#define RUN_ACTIVE(T, C, OP, F) active_##T##_##OP(n);

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 1, 9, 65};
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    log_stride = pes > 2 ? 1 : 0;
    start = pes > 3;
    size = (pes - start + (1 << log_stride) - 1) >> log_stride;
    size_t most = 65;
    for (int i = 1; i < argc; i++)
        most = strtoul(argv[i], NULL, 10) > most ? strtoul(argv[i], NULL, 10) : most;
    to = shmem_align(64, most * 16);
    from = shmem_align(64, most * 16);
    work = shmem_malloc((most / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE) * 16);
    sync = shmem_malloc(SHMEM_REDUCE_SYNC_SIZE * sizeof *sync);
    again = malloc(most * 16 + 1);
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_team_split_strided(SHMEM_TEAM_WORLD, start, 1 << log_stride, size, NULL, 0, &team);
    for (int k = 0; k < 4 && argc < 2; k++) {
        size_t n = sizes[k];
        EACH(RUN_TEAM)
        EACH_1_4(RUN_ACTIVE)
    }
    for (int k = 1; k < argc; k++) {
        size_t n = strtoul(argv[k], NULL, 10);
        team_long_sum(n);
        team_double_prod(n);
        team_longdouble_max(n);
        team_uint8_xor(n);
        active_complexd_sum(n);
        active_short_and(n);
    }
    if (shmem_sum_reduce(SHMEM_TEAM_WORLD, (int *)to, (int *)from, 0) != 0)
        return 1;
    free(again);
    if (me == 0)
        printf("checked %d\n", checks);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
