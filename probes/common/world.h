/* Start, end, refusal and deadlines: MPI code common to all probes.
 *
 * Exit codes are hopbyte's: 0 done, 1 a result was wrong, 2 bad input, 3 the environment lacks something (also: a
 * deadline passed). */
#ifndef HOPBYTE_WORLD_H
#define HOPBYTE_WORLD_H

#include "wait.h"

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

enum { HOPBYTE_DONE = 0, HOPBYTE_NO = 1, HOPBYTE_BAD_INPUT = 2, HOPBYTE_LACKING = 3 };

/* Longest name of a node, link or kind, with the closing zero. */
enum { HOPBYTE_NAME_ROOM = 128 };

struct hopbyte_world {
    MPI_Comm comm;                /* MPI_COMM_WORLD */
    int rank, size;               /* in comm */
    int threads;                  /* level of thread support that MPI provides */
    const char *program;          /* for messages */
    char node[HOPBYTE_NAME_ROOM]; /* HOPBYTE_NODE, else the processor name */
};

/* Starts MPI with at most the given thread level. Call first, once. */
void hopbyte_world_open(struct hopbyte_world *world, int *argc, char ***argv, int threads, const char *program);

/* Ends MPI and returns main's exit code. */
int hopbyte_world_close(int code);

/* Ends the program on all ranks with a message from rank 0. Every rank must call it with the same arguments. */
_Noreturn void hopbyte_world_refuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the whole job from one rank; the message names the rank. */
_Noreturn void hopbyte_world_abort(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One line on standard error from rank 0. */
void hopbyte_world_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends this process, and with it the job, unless it is called again within `seconds`. `doing` names the late operation
 * in the message; it must outlive the deadline. Zero seconds: no deadline. */
void hopbyte_deadline_set(double seconds, const char *doing);

/* Name and version of the MPI library, first line, shortened. */
void hopbyte_mpi_name(char *name, size_t room);

/* The first line of a report, printed by rank 0: program, MPI, ranks, and in JSON the node of every rank. Collective.
 */
void hopbyte_world_header(const struct hopbyte_world *world, const char *schema, const char *what, bool json);

/* `bytes` of zeroed memory, or the end of the job with a message that names the purpose. */
void *hopbyte_memory(size_t bytes, const char *what);

/* Makes room for one more element in a growing array of `count` elements; returns the array, possibly moved. */
void *hopbyte_room_make(void *array, int count, int *room, size_t size);

/* Rank 0 reads a whole file and broadcasts its text, ended by a zero. Refuses on all ranks when it cannot be
 * read, holds a zero byte, or is larger than 64 MB. */
char *hopbyte_file_share(const char *path);

/* The same for a program that can continue without the file: NULL, with a reason on all ranks, on failure. */
char *hopbyte_file_try(const char *path, const char **reason);

#endif
