/* Number of a node, as Cray's resiliency communication agent gives it. */
#ifndef HOPBYTE_CRAY_RS_ID_H
#define HOPBYTE_CRAY_RS_ID_H

#include <stdint.h>

typedef union rs_node {
    uint64_t rs_node_flat;
    struct {
        uint64_t _node_id : 32;
        uint64_t _node_unused : 32;
    } rs_node_s;
} rs_node_t;

#endif
