/* An MPI_T tool that knows nothing of hopbyte: lists all performance variables and categories, follows those whose names
 * start with its first argument over a piece of work, and tries everything that a tool can do wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

struct variable {
    char name[256], text[512];
    int class, bind, readonly, continuous, atomic, count, verbosity;
    MPI_Datatype type;
    MPI_T_pvar_handle handle;
};
static struct variable all[MOST];

static void need(int rc, int line)
{
    if (rc != MPI_SUCCESS) {
        fprintf(stderr, "line %d: error %d\n", line, rc);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}
#define NEED(call) need(call, __LINE__)

static int get(int i, struct variable *v)
{
    int name = sizeof v->name, text = sizeof v->text;
    MPI_T_enum values;
    return MPI_T_pvar_get_info(i, v->name, &name, &v->verbosity, &v->class, &v->type, &values, v->text, &text, &v->bind,
                               &v->readonly, &v->continuous, &v->atomic);
}

static double value_of(const struct variable *v, const void *buffer)
{
    if (v->type == MPI_DOUBLE)
        return *(const double *)buffer;
    return (double)*(const unsigned long long *)buffer;
}

static void work(int rank, int size)
{
    char out[1000] = "", in[1000];
    for (int i = 0; i < 10; i++)
        MPI_Sendrecv(out, 1000, MPI_CHAR, (rank + 1) % size, 0, in, 1000, MPI_CHAR, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int sum, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void file_work(const char *path)
{
    MPI_File file;
    char bytes[4096] = "";
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * 4096, bytes, 4096, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

/* Numbers of a category by name, and its variables. */
static void categories_list(int rank)
{
    int count, stamp;
    NEED(MPI_T_category_get_num(&count));
    NEED(MPI_T_category_changed(&stamp));
    for (int i = 0; i < count; i++) {
        char name[256], text[512];
        int name_room = sizeof name, text_room = sizeof text, cvars, pvars, below, indices[MOST], again;
        /* Open MPI keeps the numbers of categories that it withdrew. */
        if (MPI_T_category_get_info(i, name, &name_room, text, &text_room, &cvars, &pvars, &below) != MPI_SUCCESS)
            continue;
        NEED(MPI_T_category_get_index(name, &again));
        if (again != i && rank == 0)
            printf("category %s has number %d and %d\n", name, i, again);
        NEED(MPI_T_category_get_pvars(i, MOST, indices));
        for (int k = 0; k < pvars && k < MOST; k++) {
            struct variable v;
            if (get(indices[k], &v) == MPI_SUCCESS && rank == 0 && strncmp(name, "hopbyte", 7) == 0)
                printf("in %s: %s\n", name, v.name);
        }
        NEED(MPI_T_category_get_categories(i, MOST, indices));
        for (int k = 0; k < below && rank == 0 && strcmp(name, "hopbyte") == 0; k++) {
            char child[256];
            int room = sizeof child, none = 0;
            int deeper;
            NEED(MPI_T_category_get_info(indices[k], child, &room, NULL, &none, &cvars, &pvars, &deeper));
            printf("below %s: %s\n", name, child);
        }
        indices[0] = -1;
        MPI_T_category_get_cvars(i, MOST, indices);
    }
    if (rank == 0)
        printf("categories %d\n", count);
}

static int indexed(const char *name, int class)
{
    int index = -1;
    return MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS ? index : -1;
}

/* What a tool does wrong gets MPI_T's errors. */
static void mistakes(MPI_T_pvar_session session, const struct variable *counter, int number, int variables)
{
    MPI_T_pvar_session other;
    MPI_T_pvar_handle handle, wrong;
    struct variable v;
    unsigned long long value;
    int count, index;
    NEED(MPI_T_pvar_session_create(&other));
    printf("mistake index: %d\n", get(variables + 100000, &v) == MPI_T_ERR_INVALID_INDEX);
    printf("mistake negative: %d\n", get(-1, &v) == MPI_T_ERR_INVALID_INDEX);
    printf("mistake alloc: %d\n",
           MPI_T_pvar_handle_alloc(session, variables + 100000, NULL, &handle, &count) == MPI_T_ERR_INVALID_INDEX);
    printf("mistake class: %d\n",
           MPI_T_pvar_get_index(counter->name, MPI_T_PVAR_CLASS_STATE, &index) == MPI_T_ERR_INVALID_NAME);
    printf("mistake name: %d\n",
           MPI_T_pvar_get_index("hopbyte_record_nothing", counter->class, &index) == MPI_T_ERR_INVALID_NAME);
    NEED(MPI_T_pvar_handle_alloc(session, number, NULL, &handle, &count));
    wrong = handle;
    printf("mistake session: %d\n", MPI_T_pvar_read(other, handle, &value) == MPI_T_ERR_INVALID_HANDLE);
    printf("mistake session free: %d\n", MPI_T_pvar_handle_free(other, &wrong) == MPI_T_ERR_INVALID_HANDLE);
    wrong = (MPI_T_pvar_handle)((char *)handle + 1);
    printf("mistake pointer: %d\n", MPI_T_pvar_read(session, wrong, &value) == MPI_T_ERR_INVALID_HANDLE);
    wrong = handle;
    NEED(MPI_T_pvar_handle_free(session, &handle));
    printf("mistake freed: %d %d\n", handle == MPI_T_PVAR_HANDLE_NULL,
           MPI_T_pvar_read(session, wrong, &value) == MPI_T_ERR_INVALID_HANDLE);
    NEED(MPI_T_pvar_handle_alloc(other, number, NULL, &handle, &count));
    NEED(MPI_T_pvar_session_free(&other));
    printf("mistake session gone: %d\n", MPI_T_pvar_read(session, handle, &value) == MPI_T_ERR_INVALID_HANDLE);
    printf("mistake null session: %d\n", MPI_T_pvar_handle_alloc(MPI_T_PVAR_SESSION_NULL, number, NULL, &handle, &count) ==
                                             MPI_T_ERR_INVALID_SESSION);
}

/* Start, stop, reset and write of a counter; two handles are apart. */
static void control(MPI_T_pvar_session session, int number, int rank, int size)
{
    MPI_T_pvar_handle a, b;
    unsigned long long x, y, z, seven = 7;
    int count;
    NEED(MPI_T_pvar_handle_alloc(session, number, NULL, &a, &count));
    NEED(MPI_T_pvar_handle_alloc(session, number, NULL, &b, &count));
    work(rank, size);
    NEED(MPI_T_pvar_read(session, a, &x)); /* not started */
    NEED(MPI_T_pvar_start(session, a));
    work(rank, size);
    NEED(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    NEED(MPI_T_pvar_stop(session, a));
    work(rank, size);
    NEED(MPI_T_pvar_read(session, a, &y)); /* stopped */
    NEED(MPI_T_pvar_readreset(session, b, &z));
    if (rank == 0)
        printf("control %llu %llu %llu", x, y, z);
    NEED(MPI_T_pvar_read(session, b, &z));
    NEED(MPI_T_pvar_write(session, b, &seven));
    work(rank, size);
    NEED(MPI_T_pvar_read(session, b, &y));
    NEED(MPI_T_pvar_reset(session, a));
    NEED(MPI_T_pvar_read(session, a, &x));
    if (rank == 0)
        printf(" %llu %llu %llu\n", z, y, x);
    NEED(MPI_T_pvar_handle_free(session, &a));
    NEED(MPI_T_pvar_handle_free(session, &b));
}

int main(int argc, char **argv)
{
    const char *prefix = argc > 1 ? argv[1] : "hopbyte";
    int provided, before, variables, rank, size, failed = 0, own = 0, number = -1;
    MPI_T_pvar_session session;
    struct variable v;
    if (MPI_T_pvar_get_num(&before) == MPI_SUCCESS || get(0, &v) == MPI_SUCCESS)
        printf("MPI_T answers before its initialisation\n");
    NEED(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    NEED(MPI_T_pvar_get_num(&before));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    NEED(MPI_T_pvar_get_num(&variables));
    NEED(MPI_T_pvar_session_create(&session));
    for (int i = 0; i < variables && i < MOST; i++) {
        struct variable *a = &all[i];
        if (get(i, a) != MPI_SUCCESS) {
            failed++;
            *a->name = 0;
            continue;
        }
        own += strncmp(a->name, "hopbyte_", 8) == 0;
        if (indexed(a->name, a->class) != i && rank == 0)
            printf("%s has number %d and %d\n", a->name, i, indexed(a->name, a->class));
        if (strcmp(a->name, "hopbyte_record_messages") == 0)
            number = i;
        if (strncmp(a->name, prefix, strlen(prefix)) != 0 || a->bind != MPI_T_BIND_NO_OBJECT)
            continue;
        NEED(MPI_T_pvar_handle_alloc(session, i, NULL, &a->handle, &a->count));
        if (!a->continuous)
            NEED(MPI_T_pvar_start(session, a->handle));
    }
    if (rank == 0)
        printf("variables %d, before MPI_Init %d, hopbyte's %d, invalid %d\n", variables, before, own, failed);
    work(rank, size);
    if (argc > 2)
        file_work(argv[2]);
    for (int i = 0; i < variables && i < MOST; i++) {
        struct variable *a = &all[i];
        unsigned long long buffer[8];
        if (!a->handle)
            continue;
        int rc = MPI_T_pvar_read(session, a->handle, buffer);
        if (rank == 0 && rc == MPI_SUCCESS)
            printf("value %s class %d = %.9g # %s\n", a->name, a->class, value_of(a, buffer), a->text);
        else if (rank == 0)
            printf("no value %s\n", a->name);
        if (a->continuous && MPI_T_pvar_start(session, a->handle) != MPI_T_ERR_PVAR_NO_STARTSTOP)
            printf("%s can be started\n", a->name);
        if (a->readonly && MPI_T_pvar_reset(session, a->handle) != MPI_T_ERR_PVAR_NO_WRITE)
            printf("%s can be reset\n", a->name);
        NEED(MPI_T_pvar_handle_free(session, &a->handle));
    }
    categories_list(rank);
    if (number >= 0) {
        control(session, number, rank, size);
        if (rank == 0)
            mistakes(session, &all[number], number, variables);
    }
    NEED(MPI_T_pvar_session_free(&session));
    NEED(MPI_T_finalize()); /* Open MPI 4.1 does not survive the other order */
    MPI_Finalize();
    return 0;
}
