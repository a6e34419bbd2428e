#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Below the usual limit of 1024 descriptors. */
enum { NUMBER_FIRST = 960 };

static int high_open(const char *path, int flags, mode_t mode)
{
    int low = open(path, flags | O_CLOEXEC, mode);
    int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, NUMBER_FIRST);
    if (high < 0)
        return low;
    close(low);
    return high;
}

bool hopbyte_own_open(struct hopbyte_own *own, int flags, mode_t mode)
{
    struct stat now;
    own->fd = high_open(own->path, flags, mode);
    if (own->fd < 0)
        return false;
    if (fstat(own->fd, &now) != 0) {
        int error = errno;
        close(own->fd);
        own->fd = -1;
        errno = error;
        return false;
    }
    own->flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC);
    own->device = now.st_dev;
    own->inode = now.st_ino;
    own->process = getpid();
    return true;
}

bool hopbyte_own_held(const struct hopbyte_own *own)
{
    struct stat now;
    return own->fd >= 0 && fstat(own->fd, &now) == 0 && now.st_dev == own->device && now.st_ino == own->inode;
}

bool hopbyte_own_hold(struct hopbyte_own *own)
{
    if (hopbyte_own_held(own))
        return true;
    int fd = high_open(own->path, own->flags, 0);
    if (fd < 0) {
        own->fd = -1;
        return false;
    }
    own->fd = fd;
    if (hopbyte_own_held(own))
        return true;
    close(fd);
    own->fd = -1;
    errno = ESTALE;
    return false;
}

void hopbyte_own_close(struct hopbyte_own *own)
{
    if (hopbyte_own_held(own))
        close(own->fd);
    own->fd = -1;
}

ssize_t hopbyte_own_write(int fd, const void *data, size_t size)
{
    sigset_t limit, before, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    bool earlier = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    ssize_t written = write(fd, data, size);
    int error = errno;
    if (written < 0 && error == EFBIG && !earlier)
        sigtimedwait(&limit, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

static ssize_t stream_write(void *cookie, const char *data, size_t size)
{
    struct hopbyte_own *own = cookie;
    if (own->process != getpid())
        return (ssize_t)size;
    for (size_t done = 0; done < size;) {
        ssize_t step = hopbyte_own_hold(own) ? hopbyte_own_write(own->fd, data + done, size - done) : -1;
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0)
            return 0;
        done += (size_t)step;
    }
    return (ssize_t)size;
}

/* Some file systems tell only here that there was no space. */
static int stream_close(void *cookie)
{
    struct hopbyte_own *own = cookie;
    int code = hopbyte_own_held(own) ? close(own->fd) : 0;
    own->fd = -1;
    return code;
}

FILE *hopbyte_own_stream(struct hopbyte_own *own)
{
    FILE *stream = fopencookie(own, "w", (cookie_io_functions_t){.write = stream_write, .close = stream_close});
    if (stream)
        setvbuf(stream, NULL, _IOFBF, 1 << 16);
    return stream;
}

/* A link refuses a name that exists, where a renaming would replace the file. */
static bool name_take(const char *complete, const char *name)
{
    if (link(complete, name) == 0) {
        unlink(complete);
        return true;
    }
    if (errno == EEXIST)
        return false;
    if (access(name, F_OK) == 0) { /* on a file system without links */
        errno = EEXIST;
        return false;
    }
    return rename(complete, name) == 0;
}

bool hopbyte_own_name(const char *complete, char *name, size_t room)
{
    if (name_take(complete, name))
        return true;
    char extension[16], *dot = strrchr(name, '.');
    if (errno != EEXIST || !dot)
        return false;
    snprintf(extension, sizeof extension, "%s", dot);
    snprintf(dot, room - (size_t)(dot - name), ".%ld%s", (long)getpid(), extension);
    return name_take(complete, name);
}
