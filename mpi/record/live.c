/* Memory that outlives the process: a file of the record's folder, mapped. Nothing has to run when the process is
 * killed, by any signal: the pages belong to the file. They survive the process, not a crash of its host.
 *
 * Space is allocated before it is mapped, since a store to a page without space would end the application. */
#include "record.h"

#include "../common/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct hopbyte_live private_memory;
struct hopbyte_live *hopbyte_live = &private_memory;

static struct {
    struct hopbyte_own file;
    uint64_t bytes, page;
    bool open, complained;
} live;

static void live_complain(const char *doing, int error)
{
    /* Every table asks for space of its own; a rank says once that there is none. */
    if (live.complained)
        return;
    live.complained = true;
    hopbyte_say("cannot %s %s: %s; if rank %d is killed, later counts are lost", doing, live.file.path,
                strerror(error), hopbyte_recorder.rank);
}

/* Beyond the limit, an allocation would not fail but raise a signal. */
static bool size_allowed(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

/* Held until the process ends: tells a reader that the rank is running. Not every file system has locks. */
static void live_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(live.file.fd, F_SETLK, &lock);
}

/* Extends the file; 0 or an error. */
static int live_extend(uint64_t bytes)
{
    if (!hopbyte_own_held(&live.file)) {
        if (!hopbyte_own_hold(&live.file))
            return errno;
        live_lock();
    }
    if (!size_allowed(live.bytes + bytes))
        return EFBIG;
    return posix_fallocate(live.file.fd, (off_t)live.bytes, (off_t)bytes);
}

void *hopbyte_live_take(size_t bytes, uint64_t *offset)
{
    *offset = 0;
    if (!live.open)
        return NULL;
    bytes = (bytes + live.page - 1) / live.page * live.page;
    int error = live_extend(bytes);
    void *memory = error ? MAP_FAILED
                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, live.file.fd, (off_t)live.bytes);
    if (memory == MAP_FAILED) {
        live_complain("extend", error ? error : errno);
        return NULL;
    }
    *offset = live.bytes;
    live.bytes += bytes;
    return memory;
}

void hopbyte_live_init(const char *path)
{
    const char *setting = getenv("HOPBYTE_RECORD_LIVE");
    if (setting && strcmp(setting, "off") == 0)
        return;
    snprintf(live.file.path, sizeof live.file.path, "%s", path);
    live.page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!hopbyte_own_open(&live.file, O_RDWR | O_CREAT | O_TRUNC, 0666)) {
        live_complain("create", errno);
        return;
    }
    live.open = true;
    uint64_t offset;
    struct hopbyte_live *header = hopbyte_live_take(sizeof *header, &offset);
    if (!header) {
        hopbyte_live_finish();
        return;
    }
    live_lock();
    *header = private_memory;
    header->order = LIVE_ORDER;
    memcpy(header->magic, LIVE_MAGIC, sizeof LIVE_MAGIC);
    hopbyte_live = header;
}

void hopbyte_live_commit(struct hopbyte_live_state next)
{
    uint64_t to = !hopbyte_live->current;
    hopbyte_live->states[to] = next;
    hopbyte_live_order();
    __atomic_store_n(&hopbyte_live->current, to, __ATOMIC_RELAXED);
    hopbyte_live_order();
}

static double clock_read(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void hopbyte_live_cause(enum hopbyte_cause cause, int detail)
{
    if (!live.open)
        return;
    hopbyte_live->stopped = clock_read(CLOCK_REALTIME);
    hopbyte_live->stopped_monotonic = clock_read(CLOCK_MONOTONIC);
    hopbyte_live->detail = (uint64_t)detail;
    hopbyte_live->cause = cause;
}

/* The memory stays mapped: threads may still be counting. */
void hopbyte_live_finish(void)
{
    if (!live.open)
        return;
    live.open = false;
    unlink(live.file.path);
    hopbyte_own_close(&live.file);
}

void hopbyte_live_leave(void)
{
    if (live.open)
        hopbyte_own_close(&live.file);
    live.open = false;
}
