/* MPI-IO timers: which part of every collective read or write is exchange, file system and waiting (paper 004, VIII.C).
 *
 * A call of the application is timed as a whole. Within it, the library's own MPI calls and the file operations it
 * reaches libc with are timed too; what is left is packing and other work of the library. Before a blocking collective
 * the ranks meet in a barrier, whose time is the wait for late ranks. */
#ifndef HOPBYTE_IO_H
#define HOPBYTE_IO_H

#include "../common/deep.h"

#include <stdio.h>
#include <sys/types.h>

enum hopbyte_io_part { IO_WRITE_ALL, IO_READ_ALL, IO_WRITE, IO_READ, IO_PARTS };

/* Sums of one kind of call at one rank. Seconds, bytes. Copied between ranks as bytes: no pointers. */
struct hopbyte_io_sums {
    double total;    /* from the start of the arrival barrier to the return; the sum of the next five */
    double arrival;  /* in the barrier before the call */
    double agree;    /* in the library's calls that move no file data: counts, offsets, error codes */
    double exchange; /* in the library's calls that move file data between ranks */
    double file;     /* with a file operation outstanding */
    double other;
    uint64_t calls, requested, delivered, sent;
    uint64_t read_bytes, written_bytes, reads, writes; /* of the file itself */
    uint64_t inner;                                    /* MPI calls of the library that were seen */
    uint64_t failed, later; /* calls that returned an error; nonblocking ones, whose completion is not timed */
    uint64_t file_errors;   /* file operations that failed */
};

/* One collective call, in seconds since the barrier: its file operations from the first to the last, their sum, the
 * otherwise unexplained seconds, and the end. */
struct hopbyte_io_span {
    double first, last, file, rest, end;
};

struct hopbyte_io_file {
    MPI_File handle;
    MPI_Comm comm;
    int rank, size;
    char *name;
    dev_t device;
    ino_t inode;
    bool known; /* device and inode are set */
    double meta; /* open, close, set_size, preallocate, sync */
    struct hopbyte_io_sums sums[IO_PARTS];
    /* Every collective read and write in turn; the calls from SPANS_MOST on are not kept. */
    struct hopbyte_io_span *spans[2];
    size_t room[2];
    struct hopbyte_io_file *next;
};

enum { SPANS_MOST = 1 << 16 };

/* A call that is under way in this thread. */
struct hopbyte_io_call {
    struct hopbyte_io_file *file;
    enum hopbyte_io_part part;
    struct hopbyte_io_sums sums;
    double begun;
    double first, last; /* of the file operations */
    int inside;         /* nesting of the library's MPI calls */
    int outstanding;    /* file operations */
    double since;       /* when the first of them began, or the last MPI call of the library ended */
    MPI_Status status;  /* for callers that ignore it */
    MPI_Status *used;
};

/* Whether timers were asked for. */
extern bool hopbyte_io_on;
/* The call under way in this thread, or NULL. */
extern _Thread_local struct hopbyte_io_call *hopbyte_io_now;

double hopbyte_io_seconds(void);

/* Start and end of a call of the application on a file. `bytes`: requested. */
void hopbyte_io_begin(struct hopbyte_io_call *call, MPI_File handle, enum hopbyte_io_part part, bool meet,
                      uint64_t bytes);
void hopbyte_io_end(struct hopbyte_io_call *call, int rc);
/* Sums of this process over all files and kinds of calls so far. */
void hopbyte_io_all(struct hopbyte_io_sums *sums);
uint64_t hopbyte_io_bytes(uint64_t count, MPI_Datatype type);
/* The status to pass to the library. */
MPI_Status *hopbyte_io_status(struct hopbyte_io_call *call, MPI_Status *given);

/* Around an MPI call of the library. Returns whether it is the outermost one. */
static inline bool hopbyte_io_inner_begin(struct hopbyte_io_call *call, double *begun)
{
    bool outermost = call->inside++ == 0;
    if (outermost) {
        *begun = hopbyte_io_seconds();
        if (call->outstanding > 0)
            call->sums.file += *begun - call->since;
    }
    return outermost;
}
void hopbyte_io_inner_end(struct hopbyte_io_call *call, bool outermost, bool data, double begun);

enum { IO_PHASES = 5 };
/* The parts of a call's seconds, by Cray's names. */
extern const struct hopbyte_io_phase {
    const char *text, *key, *colour;
    size_t offset; /* of the double in struct hopbyte_io_sums */
} hopbyte_io_phases[IO_PHASES];

/* The report of a file at its close; collective over its communicator. `info` may be MPI_INFO_NULL. */
void hopbyte_io_report(struct hopbyte_io_file *file, MPI_Info info);
/* A stacked bar for every rank, as SVG in `folder`. `rows` are the sums of one part at every rank. */
void hopbyte_io_picture(const char *folder, const struct hopbyte_io_file *file, const char *title,
                        const struct hopbyte_io_sums *rows);

/* Appends text with `<`, `&` and quotes escaped for XML. */
void hopbyte_io_xml(FILE *out, const char *text);

#endif
