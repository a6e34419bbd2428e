/* Preload: every read and write of at least 4096 bytes to a regular file takes HOPBYTE_SLOW_MS longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void slow(int fd, size_t bytes)
{
    struct stat at;
    const char *text = getenv("HOPBYTE_SLOW_MS");
    if (text && bytes >= 4096 && fstat(fd, &at) == 0 && S_ISREG(at.st_mode))
        usleep((useconds_t)atoi(text) * 1000);
}

static size_t total(const struct iovec *parts, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    slow(fd, bytes);
    return NEXT(pwrite)(fd, data, bytes, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    slow(fd, total(parts, count));
    return NEXT(pwritev)(fd, parts, count, at);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    slow(fd, bytes);
    return NEXT(pread)(fd, data, bytes, at);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at)
{
    slow(fd, total(parts, count));
    return NEXT(preadv)(fd, parts, count, at);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    slow(fd, bytes);
    return NEXT(read)(fd, data, bytes);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    slow(fd, bytes);
    return NEXT(write)(fd, data, bytes);
}
