/* A running job maps its tasks with libhopbyte.
 *
 *   cc -o remap remap.c $(pkg-config --cflags --libs hopbyte)
 *   remap FABRIC [ORACLE]        for example: remap torus:2x2x8 /run/hopbyte/oracle
 *
 * 64 tasks on a grid of 4x4x4, each sending 20,000 bytes to its six neighbours, on every second of 32 nodes. */
#include <hopbyte.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 4, TASKS = SIDE * SIDE * SIDE, NODES = 16, EACH = TASKS / NODES };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, hopbyte_error_text());
    return 1;
}

static hopbyte_status stencil(hopbyte_traffic *traffic) {
    static const int step[3] = {SIDE * SIDE, SIDE, 1};
    for (uint32_t task = 0; task < TASKS; task++)
        for (int d = 0; d < 3; d++) {
            uint32_t next = task + (uint32_t)step[d];
            double bytes[2] = {20000, 20000};
            uint32_t from[2] = {task, next}, to[2] = {next, task};
            if (task / (uint32_t)step[d] % SIDE == SIDE - 1)
                continue;
            hopbyte_status status = hopbyte_traffic_add(traffic, 2, from, to, bytes);
            if (status != HOPBYTE_OK)
                return status;
        }
    return HOPBYTE_OK;
}

int main(int argc, char **argv) {
    uint32_t nodes[NODES], slots[NODES], places[TASKS];
    uint64_t version = 0;
    float cost;
    if (argc < 2) {
        fprintf(stderr, "usage: remap FABRIC [ORACLE]\n");
        return 2;
    }
    if (hopbyte_version() != HOPBYTE_VERSION)
        return failed("another version of libhopbyte");
    hopbyte_machine *machine = hopbyte_machine_open(argv[1], NULL);
    if (!machine || hopbyte_machine_node_count(machine) < 2 * NODES)
        return failed(argv[1]);
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i] = 2 * i;
        slots[i] = EACH;
    }
    hopbyte_oracle *oracle = hopbyte_oracle_connect(machine, argc > 2 ? argv[2] : NULL);
    if (!oracle || hopbyte_oracle_refresh(oracle, &version, NULL) != HOPBYTE_OK)
        return failed("oracle");
    if (hopbyte_oracle_costs(oracle, HOPBYTE_HOPS, HOPBYTE_SUM, HOPBYTE_REQUEST, 1, nodes, nodes + NODES - 1, &cost))
        return failed("cost");
    printf("%g hops from %s to %s\n", (double)cost, hopbyte_machine_node_name(machine, nodes[0]),
           hopbyte_machine_node_name(machine, nodes[NODES - 1]));

    hopbyte_traffic *traffic = hopbyte_traffic_create(TASKS);
    if (!traffic || stencil(traffic) != HOPBYTE_OK)
        return failed("traffic");
    const hopbyte_map_options options = {.objective = HOPBYTE_WORST_LINK, .trials = 20000, .seed = 1, .threads = 1};
    hopbyte_mapping *mapping =
        hopbyte_mapping_create(machine, oracle, traffic, NODES, nodes, slots, NULL, &options);
    hopbyte_map_worth worth;
    if (!mapping || hopbyte_mapping_places(mapping, places, NULL) || hopbyte_mapping_worth(mapping, &worth))
        return failed("mapping");
    printf("snapshot %llu: worst link %.3f us in order, %.3f us mapped, no less than %.3f us; %zu of %d tasks move\n",
           (unsigned long long)worth.version, worth.before_seconds * 1e6, worth.after_seconds * 1e6,
           worth.bound_seconds * 1e6, worth.moved, TASKS);
    printf("task 0 goes to %s\n", hopbyte_machine_node_name(machine, places[0]));

    hopbyte_mapping_free(mapping);
    hopbyte_traffic_free(traffic);
    hopbyte_oracle_close(oracle);
    hopbyte_machine_close(machine);
    return worth.after_seconds <= worth.before_seconds ? 0 : 1;
}
