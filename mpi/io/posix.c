/* File operations of the MPI library, as it calls them in libc. Outside a timed call they are passed on at once. */
#include "io.h"

#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define LIBC(name) HOPBYTE_FOUND(libc_find, __typeof__(&name), #name)

static void *libc_find(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        hopbyte_say("the C library lacks %s", name);
        _exit(3);
    }
    return symbol;
}

static void access_begin(struct hopbyte_io_call *call)
{
    if (call->outstanding++ > 0)
        return;
    double now = hopbyte_io_seconds();
    if (call->first == 0)
        call->first = now;
    if (call->inside == 0)
        call->since = now;
}

static void access_end(struct hopbyte_io_call *call)
{
    if (call->outstanding == 0 || --call->outstanding > 0)
        return;
    call->last = hopbyte_io_seconds();
    if (call->inside == 0)
        call->sums.file += call->last - call->since;
}

/* Sockets, pipes and devices of the transports are no file operations. */
static bool regular(int fd, bool *own, const struct hopbyte_io_file *file)
{
    struct stat at;
    if (fstat(fd, &at) != 0 || !S_ISREG(at.st_mode))
        return false;
    *own = !file->known || (at.st_dev == file->device && at.st_ino == file->inode);
    return true;
}

static void moved(struct hopbyte_io_call *call, bool write, bool own, ssize_t bytes)
{
    if (own && bytes < 0)
        call->sums.file_errors++;
    if (!own || bytes < 0)
        return;
    if (write) {
        call->sums.writes++;
        call->sums.written_bytes += (uint64_t)bytes;
    } else {
        call->sums.reads++;
        call->sums.read_bytes += (uint64_t)bytes;
    }
}

/* A function of libc on a file; `after` runs when a timed one has returned `done`. */
#define TIMED(returns, name, parameters, arguments, after)                                                             \
    __attribute__((visibility("default"))) returns name parameters                                                     \
    {                                                                                                                  \
        struct hopbyte_io_call *call = hopbyte_io_now;                                                                 \
        bool own;                                                                                                      \
        if (__builtin_expect(!call, 1) || !regular(fd, &own, call->file))                                              \
            return LIBC(name) arguments;                                                                               \
        access_begin(call);                                                                                            \
        returns done = LIBC(name) arguments;                                                                           \
        int error = errno;                                                                                             \
        access_end(call);                                                                                              \
        after;                                                                                                         \
        errno = error;                                                                                                 \
        return done;                                                                                                   \
    }

/* `writing`: whether bytes go to the file. */
#define MOVE(returns, name, writing, parameters, arguments)                                                            \
    TIMED(returns, name, parameters, arguments, moved(call, writing, own, (ssize_t)done))

/* An operation without bytes. */
#define WORK(returns, name, parameters, arguments) TIMED(returns, name, parameters, arguments, (void)0)

MOVE(ssize_t, read, false, (int fd, void *buffer, size_t bytes), (fd, buffer, bytes))
MOVE(ssize_t, readv, false, (int fd, const struct iovec *parts, int count), (fd, parts, count))
MOVE(ssize_t, pread, false, (int fd, void *buffer, size_t bytes, off_t at), (fd, buffer, bytes, at))
MOVE(ssize_t, preadv, false, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
MOVE(ssize_t, write, true, (int fd, const void *buffer, size_t bytes), (fd, buffer, bytes))
MOVE(ssize_t, writev, true, (int fd, const struct iovec *parts, int count), (fd, parts, count))
MOVE(ssize_t, pwrite, true, (int fd, const void *buffer, size_t bytes, off_t at), (fd, buffer, bytes, at))
MOVE(ssize_t, pwritev, true, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WORK(int, fsync, (int fd), (fd))
WORK(int, fdatasync, (int fd), (fd))
WORK(int, ftruncate, (int fd, off_t length), (fd, length))

#ifdef __GLIBC__
/* In other C libraries these names are those above. The ones with checks are called by programs built with
 * _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off64_t at, size_t room);

MOVE(ssize_t, __read_chk, false, (int fd, void *buffer, size_t bytes, size_t room), (fd, buffer, bytes, room))
MOVE(ssize_t, pread64, false, (int fd, void *buffer, size_t bytes, off64_t at), (fd, buffer, bytes, at))
MOVE(ssize_t, __pread_chk, false, (int fd, void *buffer, size_t bytes, off_t at, size_t room),
     (fd, buffer, bytes, at, room))
MOVE(ssize_t, __pread64_chk, false, (int fd, void *buffer, size_t bytes, off64_t at, size_t room),
     (fd, buffer, bytes, at, room))
MOVE(ssize_t, preadv64, false, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
MOVE(ssize_t, pwrite64, true, (int fd, const void *buffer, size_t bytes, off64_t at), (fd, buffer, bytes, at))
MOVE(ssize_t, pwritev64, true, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
WORK(int, ftruncate64, (int fd, off64_t length), (fd, length))
#endif

/* Waiting for a lock is waiting for the file system. All commands take one word at most. */
#define CONTROL(name)                                                                                                  \
    __attribute__((visibility("default"))) int name(int fd, int command, ...)                                          \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, command);                                                                                       \
        void *argument = va_arg(list, void *);                                                                         \
        va_end(list);                                                                                                  \
        struct hopbyte_io_call *call = hopbyte_io_now;                                                                 \
        bool own, lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLKW;                         \
        if (__builtin_expect(!call, 1) || !lock || !regular(fd, &own, call->file))                                     \
            return LIBC(name)(fd, command, argument);                                                                  \
        access_begin(call);                                                                                            \
        int done = LIBC(name)(fd, command, argument), error = errno;                                                   \
        access_end(call);                                                                                              \
        errno = error;                                                                                                 \
        return done;                                                                                                   \
    }
CONTROL(fcntl)
#ifdef __GLIBC__
CONTROL(fcntl64)
#endif

/* Asynchronous operations (OMPIO's collective writes) are outstanding until the library fetches their result. */
#define START(name, type)                                                                                              \
    __attribute__((visibility("default"))) int name(struct type *block)                                                \
    {                                                                                                                  \
        struct hopbyte_io_call *call = hopbyte_io_now;                                                                 \
        int done = LIBC(name)(block);                                                                                  \
        if (__builtin_expect(call && done == 0, 0))                                                                    \
            access_begin(call);                                                                                        \
        return done;                                                                                                   \
    }
START(aio_read, aiocb)
START(aio_write, aiocb)
#ifdef __GLIBC__
START(aio_read64, aiocb64)
START(aio_write64, aiocb64)
#endif

#define FINISH(name, type, writing)                                                                                    \
    __attribute__((visibility("default"))) ssize_t name(struct type *block)                                            \
    {                                                                                                                  \
        struct hopbyte_io_call *call = hopbyte_io_now;                                                                 \
        bool own;                                                                                                      \
        ssize_t done = LIBC(name)(block);                                                                              \
        if (__builtin_expect(call && regular(block->aio_fildes, &own, call->file), 0)) {                               \
            access_end(call);                                                                                          \
            moved(call, writing, own, done);                                                                           \
        }                                                                                                              \
        return done;                                                                                                   \
    }
/* The block does not say the direction; a collective write starts no asynchronous reads in the libraries known. */
FINISH(aio_return, aiocb, call->part == IO_WRITE_ALL || call->part == IO_WRITE)
#ifdef __GLIBC__
FINISH(aio_return64, aiocb64, call->part == IO_WRITE_ALL || call->part == IO_WRITE)
#endif
