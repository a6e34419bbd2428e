/* Elects one leader for each counter domain under any allocation: two nodes of a router in the job or one, ranks
 * placed in blocks or round robin, several cards in a host. The ranks of a host elect first, then the hosts; no rank
 * ever holds a list of all ranks. */
#include "../common/hash.h"
#include "gm.h"

#include <stdlib.h>
#include <string.h>

/* A domain and the list position of its claimant; the lowest position wins. */
struct claim {
    uint64_t hash;
    int place;
};

static int claim_compare(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->place - y->place;
}


/* Marks the first claim of each domain, in the order of the claims. */
static bool *claims_settle(const uint64_t *hashes, int count)
{
    bool *first = gm_alloc((size_t)count + 1, sizeof *first);
    struct claim *claims = gm_alloc((size_t)count + 1, sizeof *claims);
    if (first && claims) {
        for (int i = 0; i < count; i++)
            claims[i] = (struct claim){hashes[i], i};
        qsort(claims, (size_t)count, sizeof *claims, claim_compare);
        for (int i = 0; i < count; i++)
            first[claims[i].place] = i == 0 || claims[i].hash != claims[i - 1].hash;
    }
    gm_free(claims);
    return first;
}

static int *displacements(const int *counts, int size, int *total)
{
    int *places = gm_alloc((size_t)size + 1, sizeof *places);
    *total = 0;
    for (int i = 0; places && i < size; i++) {
        places[i] = *total;
        *total += counts[i];
    }
    return places;
}

/* The domains of all members' lists one after the other, at every member. */
struct gathered {
    uint64_t *hashes;
    int *counts, *places, total;
};

static void gathered_free(struct gathered *g)
{
    gm_free(g->hashes);
    gm_free(g->counts);
    gm_free(g->places);
}

static int hashes_gather(MPI_Comm comm, const uint64_t *mine, int count, struct gathered *g)
{
    int size;
    NEXT(Comm_size)(comm, &size);
    memset(g, 0, sizeof *g);
    g->counts = gm_alloc((size_t)size, sizeof *g->counts);
    if (!g->counts)
        return -1;
    NEXT(Allgather)(&count, 1, MPI_INT, g->counts, 1, MPI_INT, comm);
    g->places = displacements(g->counts, size, &g->total);
    g->hashes = gm_alloc((size_t)g->total + 1, sizeof *g->hashes);
    if (!g->places || !g->hashes)
        return -1;
    NEXT(Allgatherv)(mine, count, MPI_UINT64_T, g->hashes, g->counts, g->places, MPI_UINT64_T, comm);
    return 0;
}

/* kept[i]: this process made the communicator's first claim on hash i. */
static int hashes_claim(MPI_Comm comm, const uint64_t *mine, int count, bool *kept)
{
    struct gathered g;
    int rank, status = hashes_gather(comm, mine, count, &g);
    NEXT(Comm_rank)(comm, &rank);
    bool *first = status == 0 ? claims_settle(g.hashes, g.total) : NULL;
    for (int i = 0; first && i < count; i++)
        kept[i] = first[g.places[rank] + i];
    gm_free(first);
    gathered_free(&g);
    return first ? 0 : -1;
}

/* Ranks of the first election: those of a host, or blocks of HOPBYTE_GM_GROUP ranks. */
static MPI_Comm neighbours_split(MPI_Comm comm)
{
    MPI_Comm near;
    int rank;
    long block = hopbyte_env_number("HOPBYTE_GM_GROUP", 0, 0);
    NEXT(Comm_rank)(comm, &rank);
    if (block)
        NEXT(Comm_split)(comm, (int)(rank / block), rank, &near);
    else
        NEXT(Comm_split_type)(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near);
    return near;
}

/* A host's first rank claims for all ranks of the host in the election between hosts; the result is scattered. */
static int hosts_claim(MPI_Comm comm, MPI_Comm near, const uint64_t *mine, int count, bool *kept)
{
    struct gathered g;
    MPI_Comm heads;
    int rank, near_rank, status = hashes_gather(near, mine, count, &g);
    NEXT(Comm_rank)(comm, &rank);
    NEXT(Comm_rank)(near, &near_rank);
    bool *verdict = status == 0 ? gm_alloc((size_t)g.total + 1, sizeof *verdict) : NULL;
    NEXT(Comm_split)(comm, near_rank == 0 ? 0 : MPI_UNDEFINED, rank, &heads);
    if (near_rank == 0) {
        if (!verdict || hashes_claim(heads, g.hashes, g.total, verdict) != 0)
            status = -1;
        NEXT(Comm_free)(&heads);
    }
    if (verdict) {
        NEXT(Bcast)(verdict, g.total, MPI_BYTE, 0, near);
        memcpy(kept, verdict + g.places[near_rank], (size_t)count * sizeof *kept);
    }
    gm_free(verdict);
    gathered_free(&g);
    return verdict ? status : -1;
}

/* Removes the entries that are not kept from the list and its hashes; returns the number left. */
static int list_filter(char (*ids)[GM_NAME_BYTES], uint64_t *hashes, const bool *kept, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++)
        if (kept[i]) {
            memmove(ids[left], ids[i], GM_NAME_BYTES);
            hashes[left++] = hashes[i];
        }
    return left;
}

int gm_leaders_choose(MPI_Comm comm, char (*ids)[GM_NAME_BYTES], int *count)
{
    uint64_t *hashes = gm_alloc((size_t)*count + 1, sizeof *hashes);
    bool *kept = gm_alloc((size_t)*count + 1, sizeof *kept);
    if (!hashes || !kept)
        return -1; /* out of memory on every rank now: end the job here */
    for (int i = 0; i < *count; i++)
        hashes[i] = hopbyte_fnv1a(HOPBYTE_FNV_BASIS, ids[i], strlen(ids[i]));
    MPI_Comm near = neighbours_split(comm);
    int status = hashes_claim(near, hashes, *count, kept);
    *count = list_filter(ids, hashes, kept, *count);
    if (hosts_claim(comm, near, hashes, *count, kept) != 0)
        status = -1;
    *count = list_filter(ids, hashes, kept, *count);
    NEXT(Comm_free)(&near);
    gm_free(hashes);
    gm_free(kept);
    return status;
}
