/* Command lines: `--name value`, `--name=value`, strict numbers, sizes with units. */
#ifndef HOPBYTE_OPTIONS_H
#define HOPBYTE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum hopbyte_option_kind {
    HOPBYTE_FLAG,   /* bool *; takes no value */
    HOPBYTE_COUNT,  /* int *, not below `least` */
    HOPBYTE_BYTES,  /* size_t *; 4096, 64kB, 4MB (10^6), 4MiB (2^20), … */
    HOPBYTE_REAL,   /* double *, not below `least` */
    HOPBYTE_TEXT,   /* const char ** */
    HOPBYTE_CHOICE, /* int *; position in `choices`, words joined by | */
    HOPBYTE_SIZES,  /* struct hopbyte_sizes *; comma list of bytes */
    HOPBYTE_TRIPLE, /* int[3]; A,B,C, each not below `least` */
};

enum { HOPBYTE_SIZES_MOST = 64 };

struct hopbyte_sizes {
    int count;
    size_t bytes[HOPBYTE_SIZES_MOST];
};

struct hopbyte_option {
    const char *name; /* without dashes */
    enum hopbyte_option_kind kind;
    void *value;
    int least;
    const char *choices;
    const char *help;
    unsigned group; /* for hopbyte_options_pick; 0: always */
};

/* Reads argv[first…] into the options' values; the table ends with a NULL name. 0: done; 1: --help was given; -1:
 * `problem` states the words found and expected. */
int hopbyte_options_read(const struct hopbyte_option *options, int argc, char **argv, int first, char *problem,
                         size_t room);

/* Copies the entries that belong to one of `groups` (bits), with the ending NULL name; returns their number. */
int hopbyte_options_pick(const struct hopbyte_option *options, unsigned groups, struct hopbyte_option *picked,
                         int most);

/* Prints one line per option on standard output. */
void hopbyte_options_help(const struct hopbyte_option *options);

/* Reads a number of bytes with an optional unit; false when it is malformed or does not fit. */
bool hopbyte_bytes_read(const char *text, size_t *bytes);

#endif
