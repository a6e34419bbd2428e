/* topobw's torus or mesh: extents, nodes at coordinates, names and kinds of links. */
#ifndef HOPBYTE_GRID_H
#define HOPBYTE_GRID_H

#include "plan.h"

#include <stdbool.h>

/* A router's name or a link's kind that differs from the default rule. */
struct hopbyte_exception {
    long router;   /* position */
    int dimension; /* -1: the router's name */
    bool up;
    char text[HOPBYTE_NAME_ROOM];
};

struct hopbyte_grid {
    int dimensions;
    int length[HOPBYTE_DIMENSIONS_MOST];
    bool closed[HOPBYTE_DIMENSIONS_MOST];
    bool gemini; /* kinds by the cabling rules of a Cray XE */
    char kind[HOPBYTE_DIMENSIONS_MOST][HOPBYTE_NAME_ROOM];
    int exception_count, exception_room;
    struct hopbyte_exception *exceptions;
    long *position; /* of each node's router, row-major, by node of the plan */
    int position_room;
};

/* Fills grid and nodes from a file, or from every rank's environment. */
void hopbyte_grid_file(struct hopbyte_grid *grid, struct hopbyte_plan *plan, const char *path);
void hopbyte_grid_environment(struct hopbyte_grid *grid, struct hopbyte_plan *plan, const struct hopbyte_world *world);

/* Row-major position of a coordinate, and back. */
long hopbyte_grid_position(const struct hopbyte_grid *grid, const int *coordinate);
void hopbyte_grid_coordinate(const struct hopbyte_grid *grid, long position, int *coordinate);
/* Number of routers. */
long hopbyte_grid_routers(const struct hopbyte_grid *grid);

/* Sorts the exceptions, for the names and kinds below; a second one for the same place is refused. */
void hopbyte_grid_exceptions_sort(struct hopbyte_grid *grid, const char *source);

/* Stores the position of the plan's last node. */
void hopbyte_grid_place(struct hopbyte_grid *grid, const struct hopbyte_plan *plan, long position);

/* Name of the router at a node, as in hopbyte's fabrics: given, else the cname of its Gemini, else r0-0-5. */
void hopbyte_grid_router_name(const struct hopbyte_grid *grid, const struct hopbyte_plan *plan, int node, char *name,
                              size_t room);

/* Kind of the link that a transfer between nodes of neighbouring routers (or of one router) uses. */
const char *hopbyte_grid_kind(const struct hopbyte_grid *grid, const struct hopbyte_plan *plan, int from, int to,
                              int dimension, bool up);

#endif
