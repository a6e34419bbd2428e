/* Maps with TreeMatch, the copy inside Open MPI's topo/treematch: link with that module.
 *
 * treematch TRAFFIC.metis LEVELS ORDER OUT.map
 * LEVELS has the distance across every level of a binary tree over the hosts, lowest first; ORDER the hosts as the
 * leaves of that tree. Ranks of a host are one more level. OUT.map gets a host a task. The matrix is dense.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEVELS = 64 };

/* Interface of the module, which has no headers. */
typedef struct tm_topology tm_topology;
typedef struct tm_matrix tm_matrix;
typedef struct tm_tree tm_tree;
typedef struct {
    int *sigma;
    size_t sigma_length;
} tm_solution;

tm_topology *tm_build_synthetic_topology(int *arity, double *cost, int levels, int *numbering, int cores);
tm_matrix *tm_build_affinity_mat(double **matrix, int order);
tm_tree *tm_build_tree_from_topology(tm_topology *topology, tm_matrix *matrix, double *weights, double *speed);
tm_solution *tm_compute_mapping(tm_topology *topology, tm_tree *tree);

static void check(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "treematch: %s\n", what);
        exit(3);
    }
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    check(file == NULL, path);
    return file;
}

/* Numbers of a file, one a line. */
static int numbers(const char *path, int *list, int room)
{
    FILE *file = open_file(path, "r");
    int count = 0;
    while (count < room && fscanf(file, "%d", &list[count]) == 1) {
        count++;
    }
    fclose(file);
    return count;
}

/* The weights of a METIS graph as a dense matrix. */
static double **matrix(const char *path, int *tasks)
{
    FILE *file = open_file(path, "r");
    char *line = NULL;
    size_t room = 0;
    check(getline(&line, &room, file) < 0 || sscanf(line, "%d", tasks) != 1, path);
    size_t n = (size_t)*tasks;
    double **rows = malloc(n * sizeof *rows);
    check(rows == NULL, "memory");
    for (size_t i = 0; i < n; i++) {
        rows[i] = calloc(n, sizeof **rows);
        check(rows[i] == NULL || getline(&line, &room, file) < 0, path);
        char *rest = line;
        for (;;) {
            char *end = NULL;
            long to = strtol(rest, &end, 10);
            if (end == rest) {
                break;
            }
            check(to < 1 || (size_t)to > n, path);
            rows[i][to - 1] = (double)strtol(end, &rest, 10);
        }
    }
    free(line);
    fclose(file);
    return rows;
}

int main(int argc, char **argv)
{
    check(argc != 5, "usage: treematch TRAFFIC LEVELS ORDER OUT");
    int tasks = 0;
    int distance[LEVELS];
    double **rows = matrix(argv[1], &tasks);
    int levels = numbers(argv[2], distance, LEVELS - 2);
    int hosts = 1 << levels;
    int *order = malloc((size_t)hosts * sizeof *order);
    check(order == NULL || numbers(argv[3], order, hosts) != hosts || tasks % hosts, argv[3]);
    int arity[LEVELS];
    double cost[LEVELS];
    int depth = 0;
    for (; depth < levels; depth++) {
        arity[depth] = 2;
        cost[depth] = distance[levels - 1 - depth];
    }
    int ranks = tasks / hosts;
    if (ranks > 1) {
        arity[depth] = ranks;
        cost[depth++] = 0.5;
    }
    arity[depth] = 0;
    cost[depth++] = 0;
    int numbering[1] = {0};
    tm_topology *topology = tm_build_synthetic_topology(arity, cost, depth, numbering, 1);
    tm_tree *tree = tm_build_tree_from_topology(topology, tm_build_affinity_mat(rows, tasks), NULL, NULL);
    tm_solution *solution = tm_compute_mapping(topology, tree);
    check(solution->sigma_length != (size_t)tasks, "a solution of another size");
    FILE *out = open_file(argv[4], "w");
    for (int i = 0; i < tasks; i++) {
        fprintf(out, "%d\n", order[solution->sigma[i] / ranks]);
    }
    check(fclose(out) != 0, argv[4]);
    return 0;
}
