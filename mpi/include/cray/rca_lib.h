/* Topology calls of Cray's resiliency communication agent, over coordinates that hopbyte wrote. 0, or a negative errno. */
#ifndef HOPBYTE_CRAY_RCA_LIB_H
#define HOPBYTE_CRAY_RCA_LIB_H

#include "rs_id.h"
#include "rs_meshcoord.h"

#ifdef __cplusplus
extern "C" {
#endif

int rca_get_nodeid(rs_node_t *node);
int rca_get_meshcoord(uint16_t nid, rca_mesh_coord_t *at);
/* The highest coordinate of each dimension: length - 1. */
int rca_get_max_dimension(rca_mesh_coord_t *highest);

#ifdef __cplusplus
}
#endif

#endif
