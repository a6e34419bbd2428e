/* Maps with Scotch's library, so that figures are of one build with 64-bit numbers.
 *
 * scotch_map TRAFFIC.grf OUT.map TARGET.tgt           a target that Scotch describes
 * scotch_map TRAFFIC.grf OUT.map MACHINE.grf VERTICES part of any machine graph (SCOTCH_archBuild2)
 * VERTICES has a count and machine vertices; OUT.map gets `task terminal` lines as gmap writes them.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <scotch.h>

static void check(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "scotch_map: %s failed\n", what);
        exit(3);
    }
}

static void graph_load(SCOTCH_Graph *graph, const char *path)
{
    FILE *file = fopen(path, "r");
    check(file == NULL, path);
    check(SCOTCH_graphInit(graph) || SCOTCH_graphLoad(graph, file, 0, 0), path);
    fclose(file);
}

static SCOTCH_Num *terminals_load(const char *path, SCOTCH_Num *count)
{
    FILE *file = fopen(path, "r");
    int64_t value = 0;
    check(file == NULL || fscanf(file, "%" SCNd64, &value) != 1 || value < 1, path);
    *count = value;
    SCOTCH_Num *list = malloc((size_t)value * sizeof *list);
    check(list == NULL, "memory");
    for (SCOTCH_Num i = 0; i < *count; i++) {
        check(fscanf(file, "%" SCNd64, &value) != 1, path);
        list[i] = value;
    }
    fclose(file);
    return list;
}

static SCOTCH_Num arch_load(SCOTCH_Arch *arch, int count, char **files)
{
    check(SCOTCH_archInit(arch), "archInit");
    if (count == 1) {
        FILE *file = fopen(files[0], "r");
        check(file == NULL || SCOTCH_archLoad(arch, file), files[0]);
        fclose(file);
        return SCOTCH_archSize(arch);
    }
    SCOTCH_Graph machine;
    SCOTCH_Num terminals = 0;
    graph_load(&machine, files[0]);
    SCOTCH_Num *list = terminals_load(files[1], &terminals);
    check(SCOTCH_archBuild2(arch, &machine, terminals, list), "archBuild2");
    return terminals;
}

int main(int argc, char **argv)
{
    check(argc != 4 && argc != 5, "usage: scotch_map TRAFFIC OUT TARGET | MACHINE VERTICES:");
    SCOTCH_Graph traffic;
    SCOTCH_Arch arch;
    SCOTCH_Strat strategy;
    SCOTCH_Num tasks = 0;
    graph_load(&traffic, argv[1]);
    SCOTCH_graphSize(&traffic, &tasks, NULL);
    SCOTCH_Num terminals = arch_load(&arch, argc - 3, argv + 3);
    check(SCOTCH_stratInit(&strategy), "stratInit");
    SCOTCH_Num flags = SCOTCH_STRATQUALITY;
    check(SCOTCH_stratGraphMapBuild(&strategy, flags, terminals, 0.0), "strategy");
    SCOTCH_Num *part = malloc((size_t)tasks * sizeof *part);
    check(part == NULL || SCOTCH_graphMap(&traffic, &arch, &strategy, part), "graphMap");
    FILE *out = fopen(argv[2], "w");
    check(out == NULL, argv[2]);
    fprintf(out, "%" PRId64 "\n", (int64_t)tasks);
    for (SCOTCH_Num i = 0; i < tasks; i++) {
        fprintf(out, "%" PRId64 "\t%" PRId64 "\n", (int64_t)i, (int64_t)part[i]);
    }
    check(fclose(out) != 0, argv[2]);
    return 0;
}
