/* memory CALL SIZE [KEY=VALUE …]: allocates, writes, prints the error class and the line of numa_maps, frees.
 * CALL: alloc, win, shared, large (MPI_Win_allocate_c, with a displacement unit of 1 MB); with -unequal, only rank 0 has the keys; alloc-many N: time per pair of calls. */
#include "../numamaps.h"

#include <mpi.h>
#include <unistd.h>

static int rank, size;

static void print(const char *what, int code, const void *at)
{
    int class = 0;
    const char *name = "";
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    name = class == MPI_SUCCESS ? "SUCCESS" : class == MPI_ERR_NO_MEM ? "NO_MEM" : class == MPI_ERR_INFO_VALUE ? "INFO_VALUE" : "other";
    char maps[1024] = "", line[1200];
    /* One write: launchers mix the lines of ranks otherwise. */
    int length = snprintf(line, sizeof line, "rank %d %s %s %s\n", rank, what, name, at ? numa_maps_text(at, maps, sizeof maps) : "");
    fflush(stdout);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        exit(1);
}

static int window(const char *what, int shared, MPI_Aint bytes, MPI_Info info)
{
    MPI_Win win;
    int large = strcmp(what, "large") == 0;
    unsigned char *at = NULL, byte = (unsigned char)(rank + 1);
    int code = shared ? MPI_Win_allocate_shared(bytes, 1, info, MPI_COMM_WORLD, &at, &win)
                      : MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, &at, &win);
#if MPI_VERSION >= 4
    if (large && code == MPI_SUCCESS) {
        MPI_Win_free(&win);
        code = MPI_Win_allocate_c(bytes, (MPI_Aint)1 << 20, info, MPI_COMM_WORLD, &at, &win);
    }
#endif
    if (code != MPI_SUCCESS) {
        print(what, code, NULL);
        return 0;
    }
    int *flavor = NULL, flag = 0, wanted = shared ? MPI_WIN_FLAVOR_SHARED : MPI_WIN_FLAVOR_ALLOCATE;
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    if (!flag || *flavor != wanted)
        printf("BAD flavor\n");
    void **base = NULL;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    if (bytes > 0 && (!flag || (void *)base != (void *)at))
        printf("BAD base\n");
    MPI_Win_fence(0, win);
    if (bytes > 0) {
        memset(at, 0, (size_t)bytes);
        MPI_Win_fence(0, win);
        MPI_Put(&byte, 1, MPI_BYTE, (rank + 1) % size, large ? 0 : bytes - 1, 1, MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    if (bytes > 0 && at[large ? 0 : bytes - 1] != (unsigned char)((rank + size - 1) % size + 1))
        printf("BAD data\n");
    print(what, code, at);
    MPI_Win_free(&win);
    return 0;
}

int main(int count, char **words)
{
    MPI_Info info = MPI_INFO_NULL;
    MPI_Init(&count, &words);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = words[1];
    MPI_Aint bytes = (MPI_Aint)strtoll(words[2], NULL, 10);
    int unequal = strstr(what, "-unequal") != NULL;
    for (int i = 3; i < count && (!unequal || rank == 0); i++) {
        char *value = strchr(words[i], '=');
        *value++ = '\0';
        if (info == MPI_INFO_NULL)
            MPI_Info_create(&info);
        MPI_Info_set(info, words[i], value);
    }
    if (strncmp(what, "alloc-many", 10) == 0) {
        double begun = MPI_Wtime();
        for (int i = 0; i < bytes; i++) {
            void *at;
            MPI_Alloc_mem(4096, info, &at);
            *(volatile char *)at = 1;
            MPI_Free_mem(at);
        }
        printf("%g\n", (MPI_Wtime() - begun) / (double)bytes);
    } else if (strncmp(what, "win-many", 8) == 0) {
        double begun = MPI_Wtime();
        for (int i = 0; i < bytes; i++) {
            void *at;
            MPI_Win win;
            MPI_Win_allocate(4096, 1, info, MPI_COMM_WORLD, &at, &win);
            MPI_Win_free(&win);
        }
        printf("%g\n", (MPI_Wtime() - begun) / (double)bytes);
    } else if (strncmp(what, "alloc", 5) == 0) {
        char *at = NULL, *other = NULL;
        int code = MPI_Alloc_mem(bytes, info, &at);
        if (code == MPI_SUCCESS)
            memset(at, 1, (size_t)bytes);
        print(what, code, code == MPI_SUCCESS ? at : NULL);
        /* Freed in another order than allocated. */
        if (code == MPI_SUCCESS && MPI_Alloc_mem(4096, MPI_INFO_NULL, &other) == MPI_SUCCESS) {
            if (MPI_Free_mem(at) != MPI_SUCCESS || MPI_Free_mem(other) != MPI_SUCCESS)
                printf("BAD free\n");
        }
    } else {
        window(what, strncmp(what, "shared", 6) == 0, bytes, info);
    }
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
