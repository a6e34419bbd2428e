/* libhopbyte's API at its limits: invalid arguments are refused with a message, threads may share handles as
 * documented, and nothing leaks (run with the address sanitizer). */
#include <hopbyte.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #what, hopbyte_error_text());            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int said(const char *words) {
    return strstr(hopbyte_error_text(), words) != NULL;
}

static void refusals(const hopbyte_machine *machine) {
    uint32_t node = 77, nodes[2] = {0, 1}, slots[2] = {1, 1}, bad[2] = {0, 4096};
    double bytes[2] = {1, NAN};
    float costs[4] = {5, 5, 5, 5};
    CHECK(!hopbyte_machine_open(NULL, NULL) && said("found no fabric"));
    CHECK(!hopbyte_machine_open("\xff", NULL) && said("UTF-8"));
    CHECK(!hopbyte_machine_open("torus:0x0", NULL) && said("torus"));
    CHECK(!hopbyte_machine_open("/nonexistent", NULL) && *hopbyte_error_text());
    CHECK(hopbyte_machine_find_node(machine, "nobody", &node) == HOPBYTE_BAD_INPUT && node == 77);
    CHECK(hopbyte_machine_find_node(machine, NULL, &node) == HOPBYTE_BAD_INPUT);
    CHECK(hopbyte_machine_find_node(machine, "n0-0-0", NULL) == HOPBYTE_BAD_INPUT);
    CHECK(hopbyte_machine_find_node(machine, "n0-0-1", &node) == HOPBYTE_OK && node == 1 && !*hopbyte_error_text());
    CHECK(!hopbyte_machine_node_name(machine, 4096) && said("found node 4096"));
    CHECK(hopbyte_machine_node_count(NULL) == 0 && said("no machine"));
    CHECK(!hopbyte_oracle_connect(machine, "/nonexistent") && said("oracle serve"));
    CHECK(!hopbyte_oracle_connect(machine, "http://") && said("HOST:PORT"));
    CHECK(!hopbyte_oracle_connect(NULL, NULL) && said("no machine"));

    hopbyte_oracle *oracle = hopbyte_oracle_connect(machine, NULL);
    CHECK(oracle);
    CHECK(hopbyte_oracle_costs(oracle, 17, HOPBYTE_MAX, HOPBYTE_REQUEST, 2, nodes, nodes, costs) == HOPBYTE_BAD_INPUT);
    CHECK(said("metric 17"));
    CHECK(hopbyte_oracle_costs(oracle, HOPBYTE_HOPS, HOPBYTE_MAX, HOPBYTE_REQUEST, 2, nodes, bad, costs) && said("4096"));
    CHECK(hopbyte_oracle_costs(oracle, HOPBYTE_HOPS, HOPBYTE_MAX, HOPBYTE_REQUEST, 2, nodes, NULL, costs) && said("NULL"));
    CHECK(hopbyte_oracle_costs(oracle, HOPBYTE_HOPS, HOPBYTE_MAX, HOPBYTE_REQUEST, SIZE_MAX, nodes, nodes, costs));
    CHECK(hopbyte_oracle_matrix(oracle, HOPBYTE_HOPS, HOPBYTE_MAX, HOPBYTE_REQUEST, SIZE_MAX, nodes, costs));
    CHECK(costs[0] == 5 && costs[3] == 5);
    CHECK(hopbyte_oracle_matrix(oracle, HOPBYTE_HOPS, HOPBYTE_SUM, HOPBYTE_BOTH, 2, nodes, costs) == HOPBYTE_OK);
    CHECK(costs[0] == 0 && costs[1] == 2 && costs[2] == 2);
    /* Missing is not zero. */
    CHECK(hopbyte_oracle_matrix(oracle, HOPBYTE_USED, HOPBYTE_SUM, HOPBYTE_BOTH, 2, nodes, costs) == HOPBYTE_OK);
    CHECK(costs[0] == 0 && isnan(costs[1]));

    CHECK(!hopbyte_traffic_create(0) && !hopbyte_traffic_create(SIZE_MAX) && said("tasks"));
    hopbyte_traffic *traffic = hopbyte_traffic_create(2);
    CHECK(hopbyte_traffic_add(traffic, 2, nodes, nodes, bytes) == HOPBYTE_BAD_INPUT && said("NaN bytes"));
    CHECK(hopbyte_traffic_add(traffic, 1, nodes, bad + 1, bytes) == HOPBYTE_BAD_INPUT && said("task 4096"));
    CHECK(hopbyte_traffic_add(NULL, 1, nodes, nodes, bytes) == HOPBYTE_BAD_INPUT);
    CHECK(hopbyte_traffic_add(traffic, 1, nodes, nodes + 1, bytes) == HOPBYTE_OK);
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 1, nodes, slots, NULL, NULL) && said("2"));
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 2, bad, slots, NULL, NULL) && said("4096"));
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 2, nodes, slots, bad, NULL));
    hopbyte_map_options options = {.seconds = NAN};
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 2, nodes, slots, NULL, &options) && said("seconds"));
    options = (hopbyte_map_options){.threads = -1};
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 2, nodes, slots, NULL, &options) && said("-1 threads"));
    options = (hopbyte_map_options){.objective = 9};
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 2, nodes, slots, NULL, &options) && said("objective 9"));
    options = (hopbyte_map_options){.keep = 2};
    CHECK(!hopbyte_mapping_create(machine, oracle, traffic, 2, nodes, slots, NULL, &options) && said("keep 2"));
    hopbyte_machine *other = hopbyte_machine_open("torus:4x4x4", NULL);
    CHECK(!hopbyte_mapping_create(other, oracle, traffic, 2, nodes, slots, NULL, NULL) && said("another machine"));
    hopbyte_machine_close(other);
    hopbyte_mapping *mapping = hopbyte_mapping_create(machine, oracle, traffic, 2, nodes, slots, nodes, NULL);
    CHECK(mapping && hopbyte_mapping_places(mapping, NULL, NULL) == HOPBYTE_BAD_INPUT);
    CHECK(hopbyte_mapping_worth(mapping, NULL) == HOPBYTE_BAD_INPUT);
    hopbyte_mapping_free(mapping);
    hopbyte_traffic_free(traffic);
    hopbyte_oracle_close(oracle);
    hopbyte_machine_close(NULL);
    hopbyte_oracle_close(NULL);
    hopbyte_traffic_free(NULL);
    hopbyte_mapping_free(NULL);
}

static void *share(void *argument) {
    hopbyte_oracle *oracle = argument;
    uint32_t from[600], to[600];
    float costs[600];
    for (uint32_t i = 0; i < 600; i++) {
        from[i] = i % 64;
        to[i] = (i * 7 + 1) % 64;
    }
    for (int round = 0; round < 5; round++) {
        uint64_t version;
        CHECK(hopbyte_oracle_refresh(oracle, &version, NULL) == HOPBYTE_OK);
        CHECK(hopbyte_oracle_costs(oracle, HOPBYTE_HOPS, HOPBYTE_SUM, HOPBYTE_REQUEST, 600, from, to, costs) == 0);
        for (int i = 0; i < 600; i++)
            CHECK(costs[i] >= (from[i] != to[i]) && costs[i] <= 6);
        /* The error text is per thread. */
        CHECK(hopbyte_oracle_costs(oracle, 9, 0, 0, 1, from, to, costs) && said("metric 9"));
    }
    return NULL;
}

int main(int argc, char **argv) {
    hopbyte_machine *machine = hopbyte_machine_open("torus:4x4x4", NULL);
    CHECK(machine && hopbyte_version() == HOPBYTE_VERSION && hopbyte_machine_node_count(machine) == 64);
    refusals(machine);
    hopbyte_oracle *oracle = hopbyte_oracle_connect(machine, argc > 1 ? argv[1] : NULL);
    CHECK(oracle);
    /* The data that other handles need stays allocated. */
    hopbyte_machine_close(machine);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, share, oracle) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    hopbyte_oracle_close(oracle);
    puts("the border holds");
    return 0;
}
