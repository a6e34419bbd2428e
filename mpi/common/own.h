/* Files that a library writes while the program runs. A program may close descriptors that it did not open, and its next
 * file gets the number: before every use the descriptor is compared with the file, and opened again if it differs. */
#ifndef HOPBYTE_OWN_H
#define HOPBYTE_OWN_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct hopbyte_own {
    int fd, flags; /* flags: to open it again */
    dev_t device;
    ino_t inode;
    pid_t process;
    char path[PATH_MAX + 64];
};

/* Opens the file at `own->path`, under a number above those that programs use; false with errno. */
bool hopbyte_own_open(struct hopbyte_own *own, int flags, mode_t mode);
/* Whether the descriptor still denotes the file. */
bool hopbyte_own_held(const struct hopbyte_own *own);
/* The same, after the file was opened again if need be; false with errno, ESTALE if another file has its path. */
bool hopbyte_own_hold(struct hopbyte_own *own);
/* Leaves a descriptor alone that is the program's by now. */
void hopbyte_own_close(struct hopbyte_own *own);
/* A stream that appends to the open file and closes it. What a forked child inherits in its buffer is not written. */
FILE *hopbyte_own_stream(struct hopbyte_own *own);
/* Gives a complete file its name. If another job's file has it, `name` becomes one with the process in front of its
 * extension. False with errno. */
bool hopbyte_own_name(const char *complete, char *name, size_t room);
/* write(2) without the signal of a file that reached its size limit: the error alone. */
ssize_t hopbyte_own_write(int fd, const void *data, size_t size);

#endif
