/* Coordinates of nodes: the file of `topobw --coords` (probes/README.md), which `hopbyte fabric convert --to coords` writes.
 * Errors are texts, because a preload library must not end the process for a line that it cannot read. */
#ifndef HOPBYTE_COORDS_H
#define HOPBYTE_COORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { COORDS_DIMENSIONS = 6, COORDS_NAME = 128, COORDS_ERROR = 512, COORDS_WORDS = 16 };

struct hopbyte_coords_node {
    char host[COORDS_NAME]; /* or rank:N */
    char name[COORDS_NAME]; /* empty if the file has none */
    int at[COORDS_DIMENSIONS];
    int nid; /* of the file; where it has none, the node's place in the file from 0 */
    bool numbered; /* the file has one */
};

/* A line `kinds`, `kind`, `router` or `link`, which only topobw uses. */
struct hopbyte_coords_line {
    int number, count;
    char *words[COORDS_WORDS]; /* in the text that was parsed */
};

struct hopbyte_coords {
    int dimensions, length[COORDS_DIMENSIONS];
    bool closed[COORDS_DIMENSIONS]; /* a ring */
    int count, other_count;
    struct hopbyte_coords_node *nodes;
    int *by_host; /* the nodes in the order of their hosts */
    struct hopbyte_coords_line *others;
};

/* Reads a file whole, to be freed; NULL after an error. */
char *hopbyte_coords_load(const char *path, char error[COORDS_ERROR]);
/* Parses its text, which it changes. `path` is for messages. */
bool hopbyte_coords_parse(char *text, const char *path, struct hopbyte_coords *coords, char error[COORDS_ERROR]);
void hopbyte_coords_free(struct hopbyte_coords *coords);

/* The node of a rank on a host: its line `rank:N`, else that of the host; -1 without one. */
int hopbyte_coords_find(const struct hopbyte_coords *coords, int rank, const char *host);
int hopbyte_coords_find_nid(const struct hopbyte_coords *coords, int nid);
/* One name may be the full one of the other. */
bool hopbyte_host_same(const char *a, const char *b);

#endif
