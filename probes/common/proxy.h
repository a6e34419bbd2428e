/* Common parts of the proxy applications: options, first line, and verdict. */
#ifndef HOPBYTE_PROXY_H
#define HOPBYTE_PROXY_H

#include "blocks.h"
#include "options.h"
#include "payload.h"
#include "report.h"

extern const char hopbyte_proxy_schema[];

struct hopbyte_proxy {
    struct hopbyte_world world;
    int grid[3];
    bool periodic, json;
    const char *map, *traffic;
    double deadline;
    int threads; /* of a rank; set by the options of programs that have several, else 1 */
};

/* How a proxy with threads communicates: point-to-point, or puts with signals (hopbyte_notify.h). */
enum { HOPBYTE_MESSAGES, HOPBYTE_NOTIFIED };
#define HOPBYTE_TRANSPORTS "messages|notified"

/* Starts MPI and reads the command line: the common options, then the program's own, ended by a NULL name. */
void hopbyte_proxy_open(struct hopbyte_proxy *proxy, int argc, char **argv, const char *program, const char *what,
                        const struct hopbyte_option *own);

/* A record of the proxy with its name and ranks. */
void hopbyte_proxy_record(const struct hopbyte_proxy *proxy, struct hopbyte_record *record, const char *kind);

/* Prints a record on rank 0, as a JSON line or as `name value` pairs on a line. */
void hopbyte_proxy_print(const struct hopbyte_proxy *proxy, const struct hopbyte_record *record);

/* Prints the last record, with the wrong values of all ranks, and ends MPI; returns main's exit code. `code` is the
 * exit code if no value is wrong. */
int hopbyte_proxy_close(struct hopbyte_proxy *proxy, struct hopbyte_record *record, long long wrong, int code);

/* Adds threads, transport, and the sum of the ranks' checksums, which does not depend on either. Collective. */
void hopbyte_proxy_threads(struct hopbyte_proxy *proxy, struct hopbyte_record *record, int transport,
                           long long checksum);

/* The maximum over the ranks, on all ranks. */
double hopbyte_proxy_slowest(const struct hopbyte_proxy *proxy, double mine);

/* Folds a whole number into -1024 … 1024 by multiples of 2048 and so keeps its value modulo 2048: exact arithmetic
 * for iterations that would otherwise grow. |value| below 2^50. */
static inline double hopbyte_fold(double value) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to a whole number */
    double turns = (value * (1.0 / 2048) + shift) - shift;
    return value - 2048 * turns;
}

#endif
