/* The plan of topobw's measurement: nodes, and phases of directed transfers between them. */
#ifndef HOPBYTE_PLAN_H
#define HOPBYTE_PLAN_H

#include "world.h"

#include <stdbool.h>
#include <stdio.h>

enum { HOPBYTE_DIMENSIONS_MOST = 6 };

/* Letters of the dimensions, as everywhere in hopbyte. */
extern const char hopbyte_dimension_letters[HOPBYTE_DIMENSIONS_MOST + 1];

struct hopbyte_node {
    char host[HOPBYTE_NAME_ROOM]; /* identifier on the ranks: node name, or `rank:N` */
    char name[HOPBYTE_NAME_ROOM]; /* displayed name, e.g. c0-0c0s5n1 */
    int nid;                      /* -1: none */
    int rank;                     /* the measuring rank; -1: not in this job */
    int router, slot;             /* position of its router; its index among that router's nodes in the job */
};

/* Whether a transfer has its link exclusively. */
enum hopbyte_use { HOPBYTE_COUNTED, HOPBYTE_USED_ALONE, HOPBYTE_USED_SHARED };

/* One directed transfer of a phase. Strings are owned by the plan. */
struct hopbyte_transfer {
    int from, to;     /* nodes */
    const char *link; /* hopbyte's name of it: `r0-0-5 X+` */
    const char *kind;
    enum hopbyte_use use;
    bool shared; /* another transfer uses the link in this phase, or `use` is shared */
};

struct hopbyte_phase {
    const char *name;
    int first, count; /* transfers */
};

struct hopbyte_plan {
    int node_count, node_room, transfer_count, transfer_room, phase_count, phase_room, string_count, string_room;
    struct hopbyte_node *nodes;
    struct hopbyte_transfer *transfers;
    struct hopbyte_phase *phases;
    char **strings;
};

/* Nodes of a router that send at once (paper 002, III.B and D). */
enum hopbyte_mode { HOPBYTE_SHARED, HOPBYTE_EXCLUSIVE, HOPBYTE_BOTH };

/* Appends a node and returns it, zeroed, with no nid and no rank. */
struct hopbyte_node *hopbyte_plan_node(struct hopbyte_plan *plan, const char *host);
/* Starts a phase. */
void hopbyte_plan_phase(struct hopbyte_plan *plan, const char *name);
/* Adds a transfer to the last phase. */
void hopbyte_plan_transfer(struct hopbyte_plan *plan, int from, int to, const char *link, const char *kind,
                           enum hopbyte_use use);
/* Drops phases without transfers, and marks the counted transfers whose link another one of the phase uses. */
void hopbyte_plan_finish(struct hopbyte_plan *plan);

/* Gives every node its lowest rank. Refuses when a rank's node is not in the plan and `all_known`. */
void hopbyte_plan_ranks(struct hopbyte_plan *plan, const struct hopbyte_world *world, const char *source,
                        bool all_known);

/* Neighbours on a torus or mesh, coordinates from a file (format: README.md) or, when `path` is "env", from every
 * rank's environment. Refuses links whose other end is not in the job unless `partial`. */
void hopbyte_plan_grid(struct hopbyte_plan *plan, const struct hopbyte_world *world, const char *path,
                       enum hopbyte_mode mode, bool partial);

/* The phases of a schedule file, checked: no node takes part twice in a phase. */
void hopbyte_plan_schedule(struct hopbyte_plan *plan, const struct hopbyte_world *world, const char *path);

/* Every ordered pair of nodes of the job, by a round robin tournament; every rank is a node of its own when `ranks`. */
void hopbyte_plan_tournament(struct hopbyte_plan *plan, const struct hopbyte_world *world, bool ranks);

/* Writes a plan as a schedule file. */
void hopbyte_plan_write(const struct hopbyte_plan *plan, FILE *out);

/* Dimension of a link named `… X+` and whether it goes up; -1 when it is not named so. */
int hopbyte_link_dimension(const char *link, bool *up);

/* Node names of all ranks, one after the other, each HOPBYTE_NAME_ROOM long. */
char *hopbyte_node_names(const struct hopbyte_world *world);

#endif
