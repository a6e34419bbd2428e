/* Coordinates of a node in a network of three dimensions. */
#ifndef HOPBYTE_CRAY_RS_MESHCOORD_H
#define HOPBYTE_CRAY_RS_MESHCOORD_H

#include <stdint.h>

typedef struct mesh_coord {
    uint16_t mesh_x, mesh_y, mesh_z;
} mesh_coord_t;
typedef mesh_coord_t rca_mesh_coord_t;

#endif
