/* A program's view of a reordered world: order [cart X Y | graph X Y | none]; every check aborts on failure.
 * Every rank prints `rank R launched L host H`. A node is a host, or a block of HOPBYTE_REORDER_RANKS_PER_NODE. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, launched, node;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "order: rank %d: %s is false (line %d)\n", rank, #condition, __LINE__);                    \
            MPI_Abort(MPI_COMM_WORLD, 9);                                                                              \
        }                                                                                                              \
    } while (0)

static int from_environment(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

static int node_number(void)
{
    const char *per_node = getenv("HOPBYTE_REORDER_RANKS_PER_NODE");
    char host[256], *digits = host;
    gethostname(host, sizeof host);
    if (per_node)
        return launched / atoi(per_node);
    digits += strcspn(host, "0123456789");
    return atoi(digits);
}

static int attribute_copies;
static int attribute_copy(MPI_Comm c, int k, void *x, void *in, void *out, int *flag)
{
    (void)c, (void)k, (void)x;
    attribute_copies++;
    *(void **)out = in;
    return *flag = 1, MPI_SUCCESS;
}

static void world_behaves(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, token = rank, got = -1, sum, flag, other, result;
    MPI_Sendrecv(&token, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == left);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    int root_says = rank;
    MPI_Bcast(&root_says, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    CHECK(root_says == size - 1);

    MPI_Comm copy, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_rank(copy, &other);
    MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
    CHECK(other == rank && result == MPI_CONGRUENT);
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_IDENT);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_rank(half, &other);
    CHECK(other == rank / 2);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);

    MPI_Group world, reversed;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_rank(world, &other);
    CHECK(other == rank);
    int range[1][3] = {{size - 1, 0, -1}};
    MPI_Group_range_incl(world, 1, range, &reversed);
    MPI_Comm_create(MPI_COMM_WORLD, reversed, &half);
    MPI_Comm_rank(half, &other);
    CHECK(other == size - 1 - rank);
    MPI_Comm_free(&half);
    MPI_Group_free(&reversed);
    MPI_Group_free(&world);

    int *tag_limit, key, value = 5, *found;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_limit, &flag);
    CHECK(flag && *tag_limit >= 32767);
    MPI_Comm_create_keyval(attribute_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &found, &flag);
    CHECK(!flag);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &found, &flag);
    CHECK(flag && found == &value);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    CHECK(attribute_copies == 1);
    MPI_Comm_free(&copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);

    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0);
#if !defined(MPI_ABI) /* Fortran handles are not part of it */
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
#endif

    MPI_Win win;
    int *base;
    MPI_Win_allocate(256, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    base[0] = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(base[0] == left);
    MPI_Win_free(&win);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Send(&rank, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    MPI_Datatype type;
    CHECK(MPI_Type_contiguous(-1, MPI_INT, &type) != MPI_SUCCESS); /* raised on the real world */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Prints the directed neighbour links between nodes, of a communicator whose ranks are known to sit on `nodes`. */
static void off_node_print(const char *what, MPI_Comm comm, const int *neighbors, int count)
{
    int mine, off = 0, moved, all_off, all_moved, *nodes = malloc((size_t)size * sizeof *nodes);
    MPI_Comm_rank(comm, &mine);
    MPI_Allgather(&node, 1, MPI_INT, nodes, 1, MPI_INT, comm);
    for (int i = 0; i < count; i++)
        off += neighbors[i] >= 0 && nodes[neighbors[i]] != node;
    moved = mine != rank;
    MPI_Reduce(&off, &all_off, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&moved, &all_moved, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s off-node %d moved %d\n", what, all_off, all_moved);
    free(nodes);
}

static void cart(int argc, char **argv)
{
    int dims[8], periods[8] = {0}, ndims = argc, cells = 1, at[8];
    for (int d = 0; d < ndims; d++) {
        periods[d] = strchr(argv[d], 'p') != NULL;
        dims[d] = atoi(argv[d]);
        cells *= dims[d];
    }
    for (int reorder = 0; reorder < 2; reorder++) {
        MPI_Comm grid;
        MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, reorder, &grid);
        if (cells < size) {
            int in = grid != MPI_COMM_NULL, all;
            MPI_Allreduce(&in, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK(all == cells);
            if (in)
                MPI_Comm_free(&grid);
            continue;
        }
        int mine, neighbors[16];
        MPI_Comm_rank(grid, &mine);
        MPI_Cart_coords(grid, mine, ndims, at);
        for (int d = 0; d < ndims; d++) {
            MPI_Cart_shift(grid, d, 1, &neighbors[2 * d], &neighbors[2 * d + 1]);
            int out = mine, in = -7;
            MPI_Sendrecv(&out, 1, MPI_INT, neighbors[2 * d + 1], 1, &in, 1, MPI_INT, neighbors[2 * d], 1, grid,
                         MPI_STATUS_IGNORE);
            CHECK(in == (neighbors[2 * d] >= 0 ? neighbors[2 * d] : -7));
        }
        off_node_print(reorder ? "cart reorder" : "cart plain", grid, neighbors, 2 * ndims);
        MPI_Comm_free(&grid);
    }
}

/* The vertices of a grid of X by Y, neighbours to the right and below and back, heavier along Y. */
static int vertex_neighbors(int v, int X, int Y, int *to, int *weights)
{
    int x = v % X, y = v / X, n = 0;
    const int step[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    for (int i = 0; i < 4; i++) {
        int nx = x + step[i][0], ny = y + step[i][1];
        if (nx >= 0 && nx < X && ny >= 0 && ny < Y) {
            to[n] = ny * X + nx;
            weights[n++] = i < 2 ? 3 : 5;
        }
    }
    return n;
}

static void graph(int X, int Y, int weighted)
{
    for (int reorder = 0; reorder < 2; reorder++) {
        int to[4], weights[4], n = vertex_neighbors(rank, X, Y, to, weights), mine;
        MPI_Comm comm;
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n, to, weighted ? weights : MPI_UNWEIGHTED, n, to,
                                       weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &comm);
        MPI_Comm_rank(comm, &mine);
        /* This rank is vertex `mine` now: its neighbours must be that vertex's. */
        int in, out, is_weighted, from[4], from_weights[4], back[4], back_weights[4];
        n = vertex_neighbors(mine, X, Y, to, weights);
        MPI_Dist_graph_neighbors_count(comm, &in, &out, &is_weighted);
        CHECK(in == n && out == n && !is_weighted == !weighted);
        MPI_Dist_graph_neighbors(comm, in, from, from_weights, out, back, back_weights);
        for (int i = 0; i < n; i++)
            CHECK(from[i] == to[i] && back[i] == to[i] &&
                  (!weighted || (from_weights[i] == weights[i] && back_weights[i] == weights[i])));
        int sent[4] = {mine, mine, mine, mine}, got[4] = {-1, -1, -1, -1};
        MPI_Neighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
        for (int i = 0; i < n; i++)
            CHECK(got[i] == to[i]);
        off_node_print(reorder ? "graph reorder" : "graph plain", comm, to, n);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    char host[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    launched = from_environment();
    node = node_number();
    gethostname(host, sizeof host);
    printf("rank %d launched %d host %s\n", rank, launched, host);
    world_behaves();
    if (argc > 2 && strcmp(argv[1], "cart") == 0)
        cart(argc - 2, argv + 2);
    if (argc > 3 && strncmp(argv[1], "graph", 5) == 0)
        graph(atoi(argv[2]), atoi(argv[3]), strcmp(argv[1], "graphw") == 0);
    MPI_Finalize();
    return 0;
}
