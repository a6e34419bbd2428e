/* libhopbyte: current route costs and task mappings for a job that remaps itself.
 *
 * Objects are opaque. The caller owns them from open, connect or create until close or free; NULL may be closed and
 * freed. Objects share ownership of other objects that they use, so the order of closing does not matter. Arguments
 * (names, arrays) are copied before the call returns.
 *
 * Threads: a machine and a mapping are immutable and may be used by any number of threads concurrently. An oracle may
 * be shared as well; its calls are serialised. A traffic may be used by one thread at a time. No object may be used
 * during or after its close. The only state outside the objects is the error text of each thread. Threads that a call
 * starts end before it returns.
 *
 * Functions that can fail return HOPBYTE_OK or another hopbyte_status, or NULL; hopbyte_error_text gives the reason:
 * the found and the expected value and a hint. A failed call does not change its outputs. The library neither exits nor
 * prints, and no exception leaves it. */
#ifndef HOPBYTE_H
#define HOPBYTE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOPBYTE_VERSION 2 /* of this interface; must equal hopbyte_version() of the library */

typedef enum hopbyte_status {
    HOPBYTE_OK = 0,
    HOPBYTE_BAD_INPUT = 2,   /* an invalid argument or file */
    HOPBYTE_ENVIRONMENT = 3, /* no such oracle, no permission, no memory */
    HOPBYTE_BROKEN = 4       /* an internal error of the library */
} hopbyte_status;

/* Metric of a link. */
typedef enum hopbyte_metric {
    HOPBYTE_HOPS = 0,
    HOPBYTE_INVERSE_BANDWIDTH = 1, /* seconds per byte */
    HOPBYTE_USED = 2,              /* share of the capacity, 0 to 1; this and the following need counters */
    HOPBYTE_INPUT_STALL = 3,       /* share of the window, 0 to 1 */
    HOPBYTE_CREDIT_STALL = 4,      /* share of the window, 0 to 1 */
    HOPBYTE_BYTES = 5,
    HOPBYTE_PACKETS = 6,
    HOPBYTE_ERRORS = 7
} hopbyte_metric;

/* Aggregate over the links of a route, and the routes included. */
typedef enum hopbyte_aggregate { HOPBYTE_MAX = 0, HOPBYTE_SUM = 1, HOPBYTE_MEAN = 2 } hopbyte_aggregate;
typedef enum hopbyte_over { HOPBYTE_REQUEST = 0, HOPBYTE_RESPONSE = 1, HOPBYTE_BOTH = 2 } hopbyte_over;

/* Objective of a mapping, minimised. */
typedef enum hopbyte_objective {
    HOPBYTE_WORST_LINK = 0,         /* time of the worst link: bytes over live capacity, host links included */
    HOPBYTE_WORST_NETWORK_LINK = 1, /* the same between routers only */
    HOPBYTE_HOP_BYTES = 2           /* bytes times links */
} hopbyte_objective;

/* Tasks that a mapping keeps together. */
typedef enum hopbyte_keep {
    HOPBYTE_KEEP_NOTHING = 0,
    HOPBYTE_KEEP_HOSTS = 1 /* the tasks of a host move to another host as they are: launchers with a list of hosts */
} hopbyte_keep;

typedef struct hopbyte_machine hopbyte_machine;
typedef struct hopbyte_oracle hopbyte_oracle;
typedef struct hopbyte_traffic hopbyte_traffic;
typedef struct hopbyte_mapping hopbyte_mapping;

int hopbyte_version(void);

/* Error text of this thread's last call; "" if it succeeded. Valid until the thread's next call. Never NULL. */
const char *hopbyte_error_text(void);

/* ---- machine: nodes are numbers from 0 ---- */

/* A machine from a spec (gemini:16x12x24) or a file, and its forwarding tables (NULL: as on the command line). */
hopbyte_machine *hopbyte_machine_open(const char *fabric, const char *routes);
void hopbyte_machine_close(hopbyte_machine *machine);
size_t hopbyte_machine_node_count(const hopbyte_machine *machine);
/* The number of a node by name, host name or number of a Cray node. */
hopbyte_status hopbyte_machine_find_node(const hopbyte_machine *machine, const char *name, uint32_t *node);
/* A node's name, valid as long as the machine is open; NULL if there is no such node. */
const char *hopbyte_machine_node_name(const hopbyte_machine *machine, uint32_t node);

/* ---- oracle: costs of routes ---- */

/* A running `hopbyte oracle serve` of this machine: http://HOST:PORT (if it requires a token, the environment variable
 * HOPBYTE_TOKEN_FILE names its file) or the path of its socket. With a NULL address no server is needed, and only hops and bandwidths are available. */
hopbyte_oracle *hopbyte_oracle_connect(const hopbyte_machine *machine, const char *address);
void hopbyte_oracle_close(hopbyte_oracle *oracle);
/* Timeout of a refresh in seconds (default 30, at most a day). */
hopbyte_status hopbyte_oracle_set_timeout(hopbyte_oracle *oracle, double seconds);
/* After an error (a timeout, an oracle that was restarted) the handle stays valid: the next refresh connects again. An
 * answer that comes after its timeout is never taken for that of a later refresh.
 * Fetches the latest snapshot, which all costs and mappings use until the next call. Version 0: no snapshot yet.
 * `version` and `time_seconds` (Unix time, not-a-number if the source has no clock) may be NULL. */
hopbyte_status hopbyte_oracle_refresh(hopbyte_oracle *oracle, uint64_t *version, double *time_seconds);
/* Costs of `count` routes from from[i] to to[i]: not-a-number if not measured, infinite without a route. */
hopbyte_status hopbyte_oracle_costs(const hopbyte_oracle *oracle, hopbyte_metric metric, hopbyte_aggregate aggregate,
                                    hopbyte_over over, size_t count, const uint32_t *from, const uint32_t *to,
                                    float *costs);
/* Costs of all pairs among `count` nodes, row by row (from): count * count floats. */
hopbyte_status hopbyte_oracle_matrix(const hopbyte_oracle *oracle, hopbyte_metric metric, hopbyte_aggregate aggregate,
                                     hopbyte_over over, size_t count, const uint32_t *nodes, float *costs);

/* ---- traffic: messages between tasks ---- */

hopbyte_traffic *hopbyte_traffic_create(size_t tasks);
void hopbyte_traffic_free(hopbyte_traffic *traffic);
/* Adds `count` messages: bytes[i] from task from[i] to task to[i]. On an error none is added. The number of messages
 * of a pair matters for headers and acknowledgements: add each message, or the bytes of a pair as one large one. */
hopbyte_status hopbyte_traffic_add(hopbyte_traffic *traffic, size_t count, const uint32_t *from, const uint32_t *to,
                                   const double *bytes);

/* ---- mapping: placement of the tasks ---- */

typedef struct hopbyte_map_options {
    hopbyte_objective objective;
    double seconds;  /* wall time of the search */
    uint64_t trials; /* number of swaps to try instead of a time: the same result on any machine; 0: by time */
    uint64_t seed;
    int threads;     /* 0: one per core */
    hopbyte_keep keep;
} hopbyte_map_options;

/* Maps the tasks of `traffic` to `node_count` nodes of which nodes[i] holds slots[i] tasks. `oracle` (NULL: none) gives
 * the load of other jobs, as of its last refresh. `current` (NULL: in order) is the current node of every task; no node
 * may have more tasks than slots. `options` NULL: worst link, 2 seconds, seed 1, every core, nothing kept, as `hopbyte map`.
 * The result is never worse than the current placement. Links of Gemini and InfiniBand machines carry headers and
 * responses on top of the payload. */
hopbyte_mapping *hopbyte_mapping_create(const hopbyte_machine *machine, const hopbyte_oracle *oracle,
                                        const hopbyte_traffic *traffic, size_t node_count, const uint32_t *nodes,
                                        const uint32_t *slots, const uint32_t *current,
                                        const hopbyte_map_options *options);
void hopbyte_mapping_free(hopbyte_mapping *mapping);
/* The node of every task; optionally (`slots` not NULL) its slot there, from 0. */
hopbyte_status hopbyte_mapping_places(const hopbyte_mapping *mapping, uint32_t *nodes, uint32_t *slots);

typedef struct hopbyte_map_worth {
    double before_seconds, after_seconds; /* worst link: current (in order, if none was given), and mapped */
    double bound_seconds;                 /* lower bound of any mapping */
    double before_hop_bytes, after_hop_bytes;
    size_t moved;                         /* tasks on another node than before */
    uint64_t version;                     /* snapshot of the oracle; 0: none */
} hopbyte_map_worth;
hopbyte_status hopbyte_mapping_worth(const hopbyte_mapping *mapping, hopbyte_map_worth *worth);

#ifdef __cplusplus
}
#endif

#endif
