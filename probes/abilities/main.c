/* abilities [--try spawn | --try notify | --try papi | --try accept FILE | --try connect FILE]: what the MPI under this launcher can do, as JSON lines
 * from rank 0. `hopbyte doctor --mpi` runs it. Trials that may hang or abort are runs of their own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "hopbyte_notify.h"
#include "json.h"
#include "world.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Timeout of a trial: `hopbyte doctor --mpi` gives more on a host that starts jobs slowly. */
static int trial_seconds(void) {
    const char *text = getenv("HOPBYTE_ABILITIES_SECONDS");
    int found = text ? atoi(text) : 0;
    return found > 0 ? found : 10;
}

static void library_print(void) {
    char name[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, version = 0, subversion = 0;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, "\n,")] = 0;
    MPI_Get_version(&version, &subversion);
    printf("\"library\": ");
    hopbyte_json_text(stdout, name);
    printf(", \"mpi\": \"%d.%d\"", version, subversion);
    int (*abi)(int *, int *) = (int (*)(int *, int *))dlsym(RTLD_DEFAULT, "MPI_Abi_get_version");
    version = -1;
    if (abi && abi(&version, &subversion) == MPI_SUCCESS && version > 0)
        printf(", \"abi\": \"%d.%d\"", version, subversion);
}

static void tool_interface_print(void) {
    int provided, variables = -1, controls = -1;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
        return;
    MPI_T_pvar_get_num(&variables);
    MPI_T_cvar_get_num(&controls);
    printf(", \"performance_variables\": %d, \"control_variables\": %d", variables, controls);
    MPI_T_finalize();
}

/* ROMIO lists its own hints for any file. */
static void io_print(void) {
    const char *folder = getenv("TMPDIR");
    char path[4096], library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_File file;
    MPI_Info info = MPI_INFO_NULL;
    snprintf(path, sizeof path, "%s/hopbyte-abilities.%ld", folder && *folder ? folder : "/tmp", (long)getpid());
    MPI_Get_library_version(library, &length);
    if (MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                      &file) != MPI_SUCCESS)
        return;
    int found = 0, keys = 0, romio = 0;
    char key[MPI_MAX_INFO_KEY + 1], value[8];
    if (MPI_File_get_info(file, &info) == MPI_SUCCESS && info != MPI_INFO_NULL) {
        MPI_Info_get_nkeys(info, &keys);
        for (int i = 0; i < keys; i++) {
            MPI_Info_get_nthkey(info, i, key);
            romio |= strncmp(key, "romio_", 6) == 0;
        }
        MPI_Info_get(info, "romio_cb_read", (int)sizeof value - 1, value, &found);
        MPI_Info_free(&info);
    }
    MPI_File_close(&file);
    printf(", \"io\": \"%s\"", romio || found ? "ROMIO" : strstr(library, "Open MPI") ? "OMPIO" : "unknown");
}

/* Every rank puts eight bytes to its neighbour: MPICH 4.0.2 misplaces data of small windows. */
static bool window_right(const struct hopbyte_world *world, bool *there) {
    MPI_Win window;
    long long *base = NULL, mine = world->rank + 1000;
    int right = 1, all = 0;
    *there = MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, world->comm, &base, &window) == MPI_SUCCESS;
    if (!*there)
        return false;
    *base = -1;
    MPI_Win_fence(0, window);
    MPI_Put(&mine, 8, MPI_BYTE, (world->rank + 1) % world->size, 0, 8, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    right = *base == (world->rank + world->size - 1) % world->size + 1000;
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, world->comm);
    MPI_Win_free(&window);
    return all;
}

static void kinds_print(void) {
    MPI_Info info = MPI_INFO_NULL;
    char value[512] = "";
    int found = 0;
    if (MPI_Comm_get_info(MPI_COMM_WORLD, &info) != MPI_SUCCESS || info == MPI_INFO_NULL)
        return;
    MPI_Info_get(info, "mpi_memory_alloc_kinds", (int)sizeof value - 1, value, &found);
    MPI_Info_free(&info);
    if (found) {
        printf(", \"memory_kinds\": ");
        hopbyte_json_text(stdout, value);
    }
}

/* One of hopbyte's libraries: the loader goes on without a library that it cannot preload. */
static int loaded_print(struct dl_phdr_info *info, size_t size, void *count) {
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;
    if (name && strncmp(name, "/libhopbyte_", 12) == 0) {
        printf("%s", (*(int *)count)++ ? ", " : "");
        hopbyte_json_text(stdout, name + 1);
    }
    return 0;
}

static const char *level_name(int level) {
    return level == MPI_THREAD_MULTIPLE     ? "multiple"
           : level == MPI_THREAD_SERIALIZED ? "serialized"
           : level == MPI_THREAD_FUNNELED   ? "funneled"
                                            : "single";
}

static int basics(const struct hopbyte_world *world) {
    bool there, right = window_right(world, &there);
    if (world->rank != 0)
        return HOPBYTE_DONE;
    printf("{\"schema\": \"hopbyte.abilities/1\", \"ranks\": %d, ", world->size);
    library_print();
    printf(", \"threads\": \"%s\", \"windows\": %s, \"small_windows_right\": %s", level_name(world->threads),
           there ? "true" : "false", right ? "true" : "false");
    tool_interface_print();
    io_print();
    kinds_print();
    int count = 0;
    printf(", \"loaded\": [");
    dl_iterate_phdr(loaded_print, &count);
    printf("]}\n");
    return HOPBYTE_DONE;
}

static int answer(const char *what, int rc) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (rc != MPI_SUCCESS)
        MPI_Error_string(rc, text, &length);
    printf("{\"schema\": \"hopbyte.abilities/1\", \"tried\": \"%s\", \"works\": %s, \"error\": ", what,
           rc == MPI_SUCCESS ? "true" : "false");
    hopbyte_json_text(stdout, text);
    printf("}\n");
    fflush(stdout);
    return rc == MPI_SUCCESS ? HOPBYTE_DONE : HOPBYTE_NO;
}

/* A number to the other side and back. */
static int exchange(MPI_Comm other, int first) {
    int out = 42, in = 0, rc;
    if (first) {
        rc = MPI_Send(&out, 1, MPI_INT, 0, 7, other);
        if (rc == MPI_SUCCESS)
            rc = MPI_Recv(&in, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
        rc = rc == MPI_SUCCESS && in != 43 ? MPI_ERR_OTHER : rc;
    } else {
        rc = MPI_Recv(&in, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
        out = in + 1;
        if (rc == MPI_SUCCESS)
            rc = MPI_Send(&out, 1, MPI_INT, 0, 7, other);
    }
    return rc;
}

static int spawn_try(char **argv) {
    MPI_Comm children = MPI_COMM_NULL;
    int error = MPI_SUCCESS;
    char *words[] = {(char *)"--child", NULL};
    hopbyte_deadline_set(trial_seconds(), "MPI_Comm_spawn");
    int rc = MPI_Comm_spawn(argv[0], words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, &error);
    rc = rc == MPI_SUCCESS ? error : rc;
    if (rc == MPI_SUCCESS)
        rc = exchange(children, 1);
    if (children != MPI_COMM_NULL)
        MPI_Comm_disconnect(&children);
    return answer("spawn", rc);
}

static int child(void) {
    MPI_Comm parent = MPI_COMM_NULL;
    hopbyte_deadline_set(trial_seconds(), "the parent");
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        return HOPBYTE_BAD_INPUT;
    int rc = exchange(parent, 0);
    MPI_Comm_disconnect(&parent);
    return rc == MPI_SUCCESS ? HOPBYTE_DONE : HOPBYTE_NO;
}

/* Every rank puts a number into its neighbour's memory and waits for its own. */
static int notify_try(const struct hopbyte_world *world) {
    hopbyte_notify_t notify = NULL;
    long long *memory = NULL, out = world->rank + 1000;
    int before = (world->rank + world->size - 1) % world->size, all = 0;
    hopbyte_deadline_set(trial_seconds(), "a put with a signal");
    int rc = hopbyte_notify_create(sizeof *memory, 1, MPI_INFO_NULL, world->comm, &memory, &notify);
    if (rc == MPI_SUCCESS)
        rc = hopbyte_notify_put_signal(notify, &out, sizeof out, (world->rank + 1) % world->size, 0, 0, 1);
    if (rc == MPI_SUCCESS)
        rc = hopbyte_notify_wait(notify, 0, 1, NULL);
    if (rc == MPI_SUCCESS && *memory != before + 1000)
        rc = MPI_ERR_OTHER;
    MPI_Allreduce(&rc, &all, 1, MPI_INT, MPI_MAX, world->comm);
    if (notify)
        hopbyte_notify_free(&notify);
    return world->rank == 0 ? answer("notify", all) : HOPBYTE_DONE;
}

/* Rank 0's messages by PAPI's functions, which are found at run time: PAPI need not be there when this is built. */
static const char *papi_read(char *library, size_t size, long long *counted) {
    static const int versions[] = {0x07020000, 0x07010000, 0x07000000, 0x06000000}; /* PAPI_VER_CURRENT of each */
    void *papi = NULL;
    int version = 0;
    for (size_t i = 0; !papi && i < sizeof versions / sizeof *versions; i++) {
        version = versions[i];
        snprintf(library, size, "libpapi.so.%d.%d", version >> 24, version >> 16 & 255);
        papi = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!papi)
        return "libpapi of PAPI 6 or 7 is not there (Debian: libpapi-dev)";
    int (*start)(int) = (int (*)(int))dlsym(papi, "PAPI_library_init");
    int (*create)(int *) = (int (*)(int *))dlsym(papi, "PAPI_create_eventset");
    int (*add)(int, const char *) = (int (*)(int, const char *))dlsym(papi, "PAPI_add_named_event");
    int (*begin)(int) = (int (*)(int))dlsym(papi, "PAPI_start");
    int (*end)(int, long long *) = (int (*)(int, long long *))dlsym(papi, "PAPI_stop");
    int set = -1; /* PAPI_NULL */
    if (!start || !create || !add || !begin || !end)
        return "libpapi lacks a function";
    if (start(version) != version)
        return "PAPI_library_init fails";
    if (create(&set) != 0 || add(set, "sde:::hopbyte::hopbyte_record_messages") != 0)
        return "PAPI has no event sde:::hopbyte::hopbyte_record_messages (PAPI without its component for software-defined events?)";
    if (begin(set) != 0)
        return "PAPI_start fails";
    MPI_Send(counted, 1, MPI_LONG_LONG, 1, 9, MPI_COMM_WORLD);
    return end(set, counted) == 0 ? NULL : "PAPI_stop fails";
}

/* Rank 0 sends one message, and PAPI's count must be one more. */
static int papi_try(const struct hopbyte_world *world) {
    long long counted = 0, unused = 0;
    char library[64] = "", error[160] = "";
    hopbyte_deadline_set(trial_seconds(), "PAPI");
    if (world->rank != 0) {
        MPI_Recv(&unused, 1, MPI_LONG_LONG, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return HOPBYTE_DONE;
    }
    const char *why = papi_read(library, sizeof library, &counted);
    if (why) {
        snprintf(error, sizeof error, "%s", why);
        if (strcmp(why, "PAPI_stop fails") != 0)
            MPI_Send(&unused, 1, MPI_LONG_LONG, 1, 9, MPI_COMM_WORLD);
    } else if (counted != 1)
        snprintf(error, sizeof error, "one message was counted as %lld", counted);
    printf("{\"schema\": \"hopbyte.abilities/1\", \"tried\": \"papi\", \"works\": %s, \"found\": ", *error ? "false" : "true");
    hopbyte_json_text(stdout, library);
    printf(", \"error\": ");
    hopbyte_json_text(stdout, error);
    printf("}\n");
    fflush(stdout);
    return *error ? HOPBYTE_NO : HOPBYTE_DONE;
}

static int accept_try(const char *path) {
    char port[MPI_MAX_PORT_NAME] = "", temporary[4096];
    MPI_Comm client = MPI_COMM_NULL;
    hopbyte_deadline_set(trial_seconds(), "MPI_Comm_accept");
    int rc = MPI_Open_port(MPI_INFO_NULL, port);
    if (rc != MPI_SUCCESS)
        return answer("accept", rc);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *out = fopen(temporary, "w");
    if (!out || fprintf(out, "%s", port) < 0 || fclose(out) != 0 || rename(temporary, path) != 0) {
        fprintf(stderr, "abilities: cannot write %s\n", path);
        return HOPBYTE_LACKING;
    }
    rc = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &client);
    if (rc == MPI_SUCCESS)
        rc = exchange(client, 0);
    if (client != MPI_COMM_NULL)
        MPI_Comm_disconnect(&client);
    MPI_Close_port(port);
    return answer("accept", rc);
}

static int connect_try(const char *path) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm server = MPI_COMM_NULL;
    hopbyte_deadline_set(trial_seconds(), "MPI_Comm_connect");
    FILE *in = NULL;
    while (!(in = fopen(path, "r")))
        usleep(20000);
    size_t length = fread(port, 1, sizeof port - 1, in);
    fclose(in);
    port[length] = 0;
    int rc = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &server);
    if (rc == MPI_SUCCESS)
        rc = exchange(server, 1);
    if (server != MPI_COMM_NULL)
        MPI_Comm_disconnect(&server);
    return answer("connect", rc);
}

int main(int argc, char **argv) {
    struct hopbyte_world world;
    const char *what = argc > 2 && strcmp(argv[1], "--try") == 0 ? argv[2] : "";
    bool spawned = argc > 1 && strcmp(argv[1], "--child") == 0, file = argc > 3;
    hopbyte_world_open(&world, &argc, &argv, MPI_THREAD_MULTIPLE, "abilities");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = HOPBYTE_BAD_INPUT;
    if (spawned)
        code = child();
    else if (argc == 1)
        code = basics(&world);
    else if (strcmp(what, "spawn") == 0)
        code = spawn_try(argv);
    else if (strcmp(what, "notify") == 0)
        code = notify_try(&world);
    else if (strcmp(what, "papi") == 0 && world.size > 1)
        code = papi_try(&world);
    else if (strcmp(what, "accept") == 0 && file)
        code = accept_try(argv[3]);
    else if (strcmp(what, "connect") == 0 && file)
        code = connect_try(argv[3]);
    else
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "expected nothing, --try spawn, --try notify, --try papi (two ranks), --try accept FILE or --try connect FILE");
    return hopbyte_world_close(code);
}
