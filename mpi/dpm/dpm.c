/* Ports and names of a server, and their users. */
#include "dpm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char hopbyte_tool[] = "dpm";

static struct {
    bool serves;
    char server[DPM_PATH], client[DPM_PATH];
    struct hopbyte_dpm_file file; /* of this server */
    struct hopbyte_own lock;
    pid_t process;
    bool written;
} dpm = {.lock.fd = -1};

static const char *setting(const char *ours, const char *crays)
{
    const char *value = getenv(ours);
    if (!value || !*value)
        value = getenv(crays);
    return value && *value ? value : NULL;
}

static void path_make(const char *name, char path[DPM_PATH])
{
    char folder[DPM_PATH / 2] = "";
    if (*name != '/' && getcwd(folder, sizeof folder))
        snprintf(path, DPM_PATH, "%s/%.2000s", folder, name);
    else
        snprintf(path, DPM_PATH, "%.4000s", name);
}

__attribute__((constructor)) static void dpm_start(void)
{
    const char *server = setting("HOPBYTE_DPM_SERVER", "MPICH_DPM_SERVER");
    const char *client = setting("HOPBYTE_DPM_CLIENT", "MPICH_DPM_CLIENT"), *file = getenv("HOPBYTE_DPM_FILE");
    char name[300], host[200];
    if (server && strcmp(server, "0") != 0) {
        if (strcmp(server, "1") != 0)
            file = server;
        hopbyte_host_read(host, sizeof host);
        snprintf(name, sizeof name, "hopbyte-dpm.%s.%ld", host, (long)getpid());
        path_make(file && *file ? file : name, dpm.server);
        dpm.serves = true;
    }
    if (client)
        path_make(client, dpm.client);
    dpm.process = getpid();
}

static void file_remove(void)
{
    if (!dpm.written || dpm.process != getpid())
        return;
    dpm.written = false;
    unlink(dpm.server);
    hopbyte_own_close(&dpm.lock);
}

__attribute__((destructor)) static void dpm_stop(void)
{
    file_remove();
}

HOPBYTE_DEFINE(int, Finalize, (void))
{
    file_remove();
    return NEXT(Finalize)();
}

/* --- server --- */

/* Puts the list into the file; without a port there is none. */
static int server_write(void)
{
    char reason[DPM_REASON];
    struct hopbyte_dpm_file other;
    if (!dpm.file.count) {
        file_remove();
        return MPI_SUCCESS;
    }
    if (!dpm.written && hopbyte_dpm_read(dpm.server, &other, reason) == DPM_ALIVE) {
        hopbyte_say("%s belongs to a running server, process %ld on %s; choose another with HOPBYTE_DPM_SERVER=FILE",
                    dpm.server, other.pid, other.host);
        return MPI_ERR_PORT;
    }
    if (!dpm.written)
        hopbyte_dpm_self(&dpm.file);
    if (!hopbyte_dpm_write(dpm.server, &dpm.file, &dpm.lock, reason)) {
        hopbyte_say("%s", reason);
        return MPI_ERR_PORT;
    }
    if (!dpm.written)
        hopbyte_say("clients connect with MPICH_DPM_CLIENT=%s", dpm.server);
    dpm.written = true;
    return MPI_SUCCESS;
}

static int fail(MPI_Comm comm, int code)
{
    NEXT(Comm_call_errhandler)(comm, code);
    return code;
}

/* Control characters end a line of the file. */
static bool plain(const char *text, size_t room)
{
    size_t length = strnlen(text, room);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ')
            return false;
    return length > 0 && length < room;
}

static int server_add(const char *service, const char *port)
{
    if (!plain(port, MPI_MAX_PORT_NAME) || (*service && !plain(service, DPM_NAME)) || strcmp(service, "-") == 0) {
        hopbyte_say("a port or a service name is empty, too long or has control characters; it is not in the file");
        return *service ? MPI_ERR_SERVICE : MPI_ERR_PORT;
    }
    if (dpm.file.count == DPM_PORTS) {
        hopbyte_say("more than %d ports and names", DPM_PORTS);
        return MPI_ERR_PORT;
    }
    struct hopbyte_dpm_port *fresh = &dpm.file.ports[dpm.file.count++];
    snprintf(fresh->service, sizeof fresh->service, "%s", service);
    snprintf(fresh->port, sizeof fresh->port, "%s", port);
    int rc = server_write();
    if (rc != MPI_SUCCESS)
        dpm.file.count--;
    return rc;
}

static int server_take_away(const char *service, const char *port)
{
    int kept = 0;
    for (int i = 0; i < dpm.file.count; i++) {
        struct hopbyte_dpm_port *p = &dpm.file.ports[i];
        if (service ? strcmp(p->service, service) != 0 : strcmp(p->port, port) != 0)
            dpm.file.ports[kept++] = *p;
    }
    dpm.file.count = kept;
    return server_write();
}

HOPBYTE_DEFINE(int, Open_port, (MPI_Info info, char *port_name))
{
    int rc = NEXT(Open_port)(info, port_name);
    if (rc != MPI_SUCCESS || !dpm.serves)
        return rc;
    rc = server_add("", port_name);
    if (rc == MPI_SUCCESS)
        return rc;
    NEXT(Close_port)(port_name);
    return fail(MPI_COMM_WORLD, rc);
}

HOPBYTE_DEFINE(int, Close_port, (const char *port_name))
{
    if (dpm.serves && port_name && dpm.written)
        server_take_away(NULL, port_name);
    return NEXT(Close_port)(port_name);
}

HOPBYTE_DEFINE(int, Publish_name, (const char *service_name, MPI_Info info, const char *port_name))
{
    if (!dpm.serves)
        return NEXT(Publish_name)(service_name, info, port_name);
    for (int i = 0; i < dpm.file.count; i++)
        if (strcmp(dpm.file.ports[i].service, service_name) == 0) {
            hopbyte_say("service %s is published already", service_name);
            return fail(MPI_COMM_WORLD, MPI_ERR_SERVICE);
        }
    int rc = server_add(service_name, port_name);
    return rc == MPI_SUCCESS ? rc : fail(MPI_COMM_WORLD, rc);
}

HOPBYTE_DEFINE(int, Unpublish_name, (const char *service_name, MPI_Info info, const char *port_name))
{
    if (!dpm.serves)
        return NEXT(Unpublish_name)(service_name, info, port_name);
    int before = dpm.file.count;
    server_take_away(service_name, NULL);
    if (before != dpm.file.count)
        return MPI_SUCCESS;
    hopbyte_say("service %s is not published", service_name);
    return fail(MPI_COMM_WORLD, MPI_ERR_SERVICE);
}

/* --- client --- */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const struct hopbyte_dpm_port *port_of(const struct hopbyte_dpm_file *file, const char *service)
{
    for (int i = 0; i < file->count; i++)
        if (service ? strcmp(file->ports[i].service, service) == 0 : true)
            return &file->ports[i];
    return NULL;
}

/* Waits for a running server's file with the service, or with any port; NULL after a message at the deadline. */
static const struct hopbyte_dpm_port *client_wait(const char *service, struct hopbyte_dpm_file *file)
{
    long patience = hopbyte_env_number("HOPBYTE_DPM_SECONDS", 60, 0);
    double until = seconds_now() + (double)patience;
    char reason[DPM_REASON];
    for (;;) {
        enum hopbyte_dpm_state state = hopbyte_dpm_read(dpm.client, file, reason);
        bool usable = state == DPM_ALIVE || state == DPM_UNCHECKED;
        const struct hopbyte_dpm_port *port = usable ? port_of(file, service) : NULL;
        if (port && state == DPM_UNCHECKED)
            hopbyte_say("note: %s", reason);
        if (port)
            return port;
        if (usable && service)
            snprintf(reason, sizeof reason, "%.400s has no service %.100s", dpm.client, service);
        if (seconds_now() >= until)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    hopbyte_say("%s (waited %ld s, HOPBYTE_DPM_SECONDS)", reason, patience);
    return NULL;
}

HOPBYTE_DEFINE(int, Lookup_name, (const char *service_name, MPI_Info info, char *port_name))
{
    if (!*dpm.client)
        return NEXT(Lookup_name)(service_name, info, port_name);
    static struct hopbyte_dpm_file file;
    const struct hopbyte_dpm_port *port = client_wait(service_name, &file);
    if (!port)
        return fail(MPI_COMM_WORLD, MPI_ERR_NAME);
    strcpy(port_name, port->port);
    return MPI_SUCCESS;
}

/* Collective: the root finds the port, and all learn whether it did. An empty port is that of the file. */
HOPBYTE_DEFINE(int, Comm_connect, (const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm))
{
    static struct hopbyte_dpm_file file;
    int rank, fine = 1;
    if (!*dpm.client)
        return NEXT(Comm_connect)(port_name, info, root, comm, newcomm);
    NEXT(Comm_rank)(comm, &rank);
    if (rank == root && (!port_name || !*port_name)) {
        const struct hopbyte_dpm_port *port = client_wait(NULL, &file);
        fine = port != NULL;
        port_name = port ? port->port : "";
    }
    int rc = NEXT(Bcast)(&fine, 1, MPI_INT, root, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    return fine ? NEXT(Comm_connect)(port_name, info, root, comm, newcomm) : fail(comm, MPI_ERR_PORT);
}
