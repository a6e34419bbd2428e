/* Files that are open, the calls on them, and where their seconds go. */
#include "io.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

const char hopbyte_tool[] = "io";

bool hopbyte_io_on;
_Thread_local struct hopbyte_io_call *hopbyte_io_now;

static struct hopbyte_io_file *files;
static struct hopbyte_io_sums all; /* of all files, closed ones too */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool asked(const char *name)
{
    const char *value = getenv(name);
    if (!value || !*value || strcmp(value, "0") == 0)
        return false;
    if (strcmp(value, "1") == 0)
        return true;
    hopbyte_say("%s=\"%s\": found neither 0 nor 1; timers are off", name, value);
    return false;
}

__attribute__((constructor)) static void io_start(void)
{
    hopbyte_io_on = asked("HOPBYTE_IO_TIMERS") || asked("MPICH_MPIIO_TIMERS");
}

__attribute__((destructor)) static void io_stop(void)
{
    for (struct hopbyte_io_file *file = files; file; file = file->next)
        if (file->rank == 0)
            hopbyte_say("%s was not closed: no times for it", file->name);
}

double hopbyte_io_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct hopbyte_io_file *file_find(MPI_File handle)
{
    pthread_mutex_lock(&lock);
    struct hopbyte_io_file *file = files;
    while (file && file->handle != handle)
        file = file->next;
    pthread_mutex_unlock(&lock);
    return file;
}

uint64_t hopbyte_io_bytes(uint64_t count, MPI_Datatype type)
{
    int size = 0;
    hopbyte_depth++;
    NEXT(Type_size)(type, &size);
    hopbyte_depth--;
    return size > 0 ? count * (uint64_t)size : 0;
}

void hopbyte_io_begin(struct hopbyte_io_call *call, MPI_File handle, enum hopbyte_io_part part, bool meet,
                      uint64_t bytes)
{
    memset(call, 0, sizeof *call);
    call->file = file_find(handle);
    if (!call->file)
        return;
    call->part = part;
    call->sums.calls = 1;
    call->sums.requested = bytes;
    call->begun = hopbyte_io_seconds();
    if (meet) {
        NEXT(Barrier)(call->file->comm);
        call->sums.arrival = hopbyte_io_seconds() - call->begun;
    }
    hopbyte_io_now = call;
}

MPI_Status *hopbyte_io_status(struct hopbyte_io_call *call, MPI_Status *given)
{
    call->used = given == MPI_STATUS_IGNORE ? &call->status : given;
    return call->used;
}

void hopbyte_io_inner_end(struct hopbyte_io_call *call, bool outermost, bool data, double begun)
{
    call->inside--;
    if (!outermost)
        return;
    double now = hopbyte_io_seconds(), seconds = now - begun;
    if (call->outstanding > 0)
        call->since = now;
    call->sums.inner++;
    if (data)
        call->sums.exchange += seconds;
    else
        call->sums.agree += seconds;
}

/* Keeps the times of one collective call, to tell waiting from exchange when the library's calls are not seen. */
static void span_keep(struct hopbyte_io_file *file, const struct hopbyte_io_call *call, double end)
{
    int part = call->part;
    double zero = call->begun + call->sums.arrival;
    size_t at = file->sums[part].calls - 1;
    if (at >= SPANS_MOST)
        return;
    if (at >= file->room[part]) {
        size_t room = file->room[part] ? 2 * file->room[part] : 64;
        struct hopbyte_io_span *more = realloc(file->spans[part], room * sizeof *more);
        if (!more)
            return;
        memset(more + file->room[part], 0, (room - file->room[part]) * sizeof *more);
        file->spans[part] = more;
        file->room[part] = room;
    }
    struct hopbyte_io_span *span = &file->spans[part][at];
    span->first = call->first > 0 ? call->first - zero : INFINITY;
    span->last = call->first > 0 ? call->last - zero : 0;
    span->file = call->sums.file;
    span->rest = call->sums.other;
    span->end = end - zero;
}

static uint64_t delivered(struct hopbyte_io_call *call)
{
    MPI_Count bytes = 0;
    if (!call->used)
        return call->sums.requested;
    hopbyte_depth++;
    int rc = NEXT(Get_elements_x)(call->used, MPI_BYTE, &bytes);
    hopbyte_depth--;
    return rc == MPI_SUCCESS && bytes >= 0 ? (uint64_t)bytes : call->sums.requested;
}

static void sums_add(struct hopbyte_io_sums *to, const struct hopbyte_io_sums *s)
{
    to->total += s->total;
    to->arrival += s->arrival;
    to->agree += s->agree;
    to->exchange += s->exchange;
    to->file += s->file;
    to->other += s->other;
    to->calls += s->calls;
    to->requested += s->requested;
    to->delivered += s->delivered;
    to->sent += s->sent;
    to->read_bytes += s->read_bytes;
    to->written_bytes += s->written_bytes;
    to->reads += s->reads;
    to->writes += s->writes;
    to->inner += s->inner;
    to->failed += s->failed;
    to->later += s->later;
    to->file_errors += s->file_errors;
}

void hopbyte_io_all(struct hopbyte_io_sums *sums)
{
    pthread_mutex_lock(&lock);
    *sums = all;
    pthread_mutex_unlock(&lock);
}

void hopbyte_io_end(struct hopbyte_io_call *call, int rc)
{
    if (!call->file)
        return;
    hopbyte_io_now = NULL;
    double now = hopbyte_io_seconds();
    struct hopbyte_io_sums *s = &call->sums;
    /* An asynchronous operation still outstanding goes on after the call. */
    if (call->outstanding > 0) {
        s->file += now - call->since;
        call->last = now;
    }
    s->total = now - call->begun;
    s->other = s->total - s->arrival - s->agree - s->exchange - s->file;
    if (rc == MPI_SUCCESS)
        s->delivered = delivered(call);
    else
        s->failed = 1;
    struct hopbyte_io_file *file = call->file;
    pthread_mutex_lock(&lock);
    sums_add(&file->sums[call->part], s);
    sums_add(&all, s);
    if (call->part <= IO_READ_ALL && s->calls)
        span_keep(file, call, now);
    pthread_mutex_unlock(&lock);
}

static struct hopbyte_io_file *file_add(MPI_File handle, MPI_Comm comm, const char *name)
{
    struct hopbyte_io_file *file = calloc(1, sizeof *file);
    /* ROMIO allows a file system before the name: "ufs:data". */
    const char *colon = strchr(name, ':'), *path = colon && colon - name > 1 ? colon + 1 : name;
    struct stat at;
    int good = file && (file->name = strdup(name)), all;
    NEXT(Allreduce)(&good, &all, 1, MPI_INT, MPI_MIN, comm);
    if (!all) {
        hopbyte_say("no memory for the times of %s", name);
        if (file)
            free(file->name);
        free(file);
        return NULL;
    }
    file->handle = handle;
    NEXT(Comm_dup)(comm, &file->comm);
    NEXT(Comm_rank)(comm, &file->rank);
    NEXT(Comm_size)(comm, &file->size);
    if (stat(path, &at) == 0) {
        file->device = at.st_dev;
        file->inode = at.st_ino;
        file->known = true;
    }
    pthread_mutex_lock(&lock);
    file->next = files;
    files = file;
    pthread_mutex_unlock(&lock);
    return file;
}

static void file_remove(struct hopbyte_io_file *file)
{
    pthread_mutex_lock(&lock);
    struct hopbyte_io_file **at = &files;
    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    pthread_mutex_unlock(&lock);
    for (int part = 0; part < 2; part++)
        free(file->spans[part]);
    free(file->name);
    free(file);
}

HOPBYTE_DEFINE(int, File_open, (MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh))
{
    if (hopbyte_depth || !hopbyte_io_on)
        return NEXT(File_open)(comm, filename, amode, info, fh);
    hopbyte_depth++;
    double begun = hopbyte_io_seconds();
    int rc = NEXT(File_open)(comm, filename, amode, info, fh);
    if (rc == MPI_SUCCESS) {
        double seconds = hopbyte_io_seconds() - begun;
        struct hopbyte_io_file *file = file_add(*fh, comm, filename);
        if (file)
            file->meta = seconds;
    }
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, File_close, (MPI_File * fh))
{
    struct hopbyte_io_file *file = hopbyte_depth || !hopbyte_io_on ? NULL : file_find(*fh);
    if (!file)
        return NEXT(File_close)(fh);
    hopbyte_depth++;
    MPI_Info info = MPI_INFO_NULL;
    if (NEXT(File_get_info)(*fh, &info) != MPI_SUCCESS)
        info = MPI_INFO_NULL;
    double begun = hopbyte_io_seconds();
    int rc = NEXT(File_close)(fh);
    file->meta += hopbyte_io_seconds() - begun;
    hopbyte_io_report(file, info);
    if (info != MPI_INFO_NULL)
        NEXT(Info_free)(&info);
    NEXT(Comm_free)(&file->comm);
    file_remove(file);
    hopbyte_depth--;
    return rc;
}

#define META(name, parameters, arguments)                                                                              \
    HOPBYTE_DEFINE(int, name, parameters)                                                                              \
    {                                                                                                                  \
        struct hopbyte_io_file *file = hopbyte_depth || !hopbyte_io_on ? NULL : file_find(fh);                         \
        double begun = file ? hopbyte_io_seconds() : 0;                                                                \
        int rc = NEXT(name) arguments;                                                                                 \
        if (file)                                                                                                      \
            file->meta += hopbyte_io_seconds() - begun;                                                                \
        return rc;                                                                                                     \
    }
META(File_set_size, (MPI_File fh, MPI_Offset size), (fh, size))
META(File_preallocate, (MPI_File fh, MPI_Offset size), (fh, size))
META(File_sync, (MPI_File fh), (fh))
