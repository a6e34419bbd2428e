/* Predicted time of a schedule on a placement. */
#ifndef HOPBYTE_SHMEM_COST_H
#define HOPBYTE_SHMEM_COST_H

#include "schedule.h"

/* Seconds and bytes per second. The network's figures are those of one node's link, each direction; the node's those of
 * one copy between two of its members; folds_per_second is the rate of combining two arrays, in bytes of one. */
struct cost_rates {
    double network_latency, network_bandwidth, node_latency, node_bandwidth, fold_bandwidth;
};

/* Rounds follow each other; in a round, a node's link carries the pieces of all its members in turn. `element` is in
 * bytes. Negative without memory. */
double cost_seconds(const struct schedule *s, size_t element, const struct cost_rates *rates);

#endif
