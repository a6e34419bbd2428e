/* Ranks that share a node, by host name. */
#include "reorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hopbyte_nodes_free(struct hopbyte_nodes *n)
{
    free(n->node);
    free(n->counts);
    free(n->names);
    free(n->network.at);
    memset(n, 0, sizeof *n);
}

/* HOPBYTE_REORDER_RANKS_PER_NODE emulates nodes on one host: blocks of that many launch ranks. */
static void node_name(char name[64])
{
    char host[256];
    long per_node = hopbyte_env_number("HOPBYTE_REORDER_RANKS_PER_NODE", 0, 0);
    hopbyte_host_read(host, sizeof host);
    memset(name, 0, 64);
    if (per_node)
        snprintf(name, 64, "node%ld", hopbyte_world.launch_rank / per_node);
    else
        snprintf(name, 64, "%.63s", host);
}

static bool names_number(struct hopbyte_nodes *n, const char (*all)[64])
{
    n->node = calloc((size_t)n->ranks, sizeof *n->node);
    n->counts = calloc((size_t)n->ranks, sizeof *n->counts);
    n->names = calloc((size_t)n->ranks, sizeof *n->names);
    if (!n->node || !n->counts || !n->names)
        return false;
    for (int r = 0, last = 0; r < n->ranks; r++) {
        /* Shortcuts for block and round-robin order: the node of the rank before, or of one round of nodes earlier. */
        int k = n->nodes && memcmp(n->names[last], all[r], 64) == 0 ? last : 0;
        while (k < n->nodes && memcmp(n->names[k], all[r], 64) != 0)
            k++;
        if (k == n->nodes)
            memcpy(n->names[n->nodes++], all[r], 64);
        n->node[r] = last = k;
        n->counts[k]++;
    }
    return true;
}

bool hopbyte_nodes_learn(MPI_Comm comm, struct hopbyte_nodes *n)
{
    char name[64], (*all)[64] = NULL;
    int rank, fine = 1;
    memset(n, 0, sizeof *n);
    NEXT(Comm_rank)(comm, &rank);
    if (rank == 0) {
        NEXT(Comm_size)(comm, &n->ranks);
        all = calloc((size_t)n->ranks, sizeof *all);
        fine = all != NULL;
    }
    NEXT(Bcast)(&fine, 1, MPI_INT, 0, comm);
    if (!fine)
        return false;
    node_name(name);
    NEXT(Gather)(name, 64, MPI_CHAR, all, 64, MPI_CHAR, 0, comm);
    if (rank == 0)
        fine = names_number(n, (const char(*)[64])all);
    if (rank == 0 && fine)
        hopbyte_network_read(n, n->problem, sizeof n->problem);
    free(all);
    NEXT(Bcast)(&fine, 1, MPI_INT, 0, comm);
    if (!fine)
        hopbyte_nodes_free(n);
    return fine;
}
