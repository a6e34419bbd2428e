/* The transfers: directed, pre-posted, timed by the receiver.
 *
 * A transfer is one untimed message, then the timed window: the receiver posts all receives, starts its clock, signals
 * the sender, and stops at the last arrival. The measured time is thus one message latency too long, never too short: a
 * sender's clock would stop when its bytes are buffered, and one started at the first arrival would miss
 * arrivals that coincide with it. The untimed message opens the connection and empties token buckets on the way. */
#include "run.h"

#include "output.h"
#include "payload.h"

#include <math.h>
#include <stdlib.h>

enum { TAG_READY = 1, TAG_FIRST, TAG_GO, TAG_DATA };

struct buffers {
    unsigned char *memory; /* sender: one message; receiver: the window */
    size_t room;
    MPI_Request *requests;
};

static void buffers_need(struct buffers *buffers, size_t bytes) {
    if (buffers->room >= bytes)
        return;
    free(buffers->memory);
    buffers->memory = hopbyte_memory(bytes, "messages");
    buffers->room = bytes;
}

static void window_send(const struct hopbyte_settings *s, struct buffers *b, const struct hopbyte_world *world, int to,
                        int trial) {
    buffers_need(b, s->bytes);
    hopbyte_payload_fill(b->memory, s->bytes, hopbyte_payload_seed(world->rank, to, trial));
    hopbyte_wait_receive(NULL, 0, MPI_BYTE, to, TAG_READY, world->comm);
    hopbyte_wait_send(b->memory, (int)s->bytes, MPI_BYTE, to, TAG_FIRST, world->comm);
    hopbyte_wait_receive(NULL, 0, MPI_BYTE, to, TAG_GO, world->comm);
    for (int i = 0; i < s->window; i++)
        MPI_Isend(b->memory, (int)s->bytes, MPI_BYTE, to, TAG_DATA, world->comm, &b->requests[i]);
    hopbyte_wait_all(s->window, b->requests);
}

/* Returns the seconds of the window, and the number of wrong bytes. */
static double window_receive(const struct hopbyte_settings *s, struct buffers *b, const struct hopbyte_world *world,
                             int from, int trial, double *wrong) {
    buffers_need(b, s->bytes * (size_t)s->window);
    MPI_Request first;
    MPI_Irecv(b->memory, (int)s->bytes, MPI_BYTE, from, TAG_FIRST, world->comm, &first);
    MPI_Send(NULL, 0, MPI_BYTE, from, TAG_READY, world->comm);
    hopbyte_wait_all(1, &first);
    for (int i = 0; i < s->window; i++)
        MPI_Irecv(b->memory + (size_t)i * s->bytes, (int)s->bytes, MPI_BYTE, from, TAG_DATA, world->comm,
                  &b->requests[i]);
    double start = MPI_Wtime();
    MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, world->comm);
    hopbyte_wait_all(s->window, b->requests);
    double seconds = MPI_Wtime() - start;
    uint64_t seed = hopbyte_payload_seed(from, world->rank, trial);
    for (int i = 0; i < s->window; i++)
        *wrong += (double)hopbyte_payload_wrong(b->memory + (size_t)i * s->bytes, s->bytes, seed);
    return seconds;
}

/* This rank's transfer in a phase, or NULL. */
static const struct hopbyte_transfer *part_find(const struct hopbyte_plan *plan, const struct hopbyte_phase *phase,
                                                int rank) {
    for (int i = phase->first; i < phase->first + phase->count; i++) {
        const struct hopbyte_transfer *t = &plan->transfers[i];
        if (plan->nodes[t->from].rank == rank || plan->nodes[t->to].rank == rank)
            return t;
    }
    return NULL;
}

/* Runs all repetitions of a phase; `seconds` gets one value per timed trial when this rank receives. */
static double phase_run(const struct hopbyte_plan *plan, const struct hopbyte_phase *phase,
                        const struct hopbyte_world *world, const struct hopbyte_settings *s, struct buffers *buffers,
                        double *seconds) {
    const struct hopbyte_transfer *part = part_find(plan, phase, world->rank);
    double wrong = 0;
    for (int trial = -s->warmup; trial < s->trials; trial++) {
        double taken = NAN;
        hopbyte_deadline_set(s->deadline, phase->name);
        hopbyte_quiet_barrier(world->comm);
        if (part && plan->nodes[part->from].rank == world->rank)
            window_send(s, buffers, world, plan->nodes[part->to].rank, trial);
        else if (part)
            taken = window_receive(s, buffers, world, plan->nodes[part->from].rank, trial, &wrong);
        if (trial >= 0)
            seconds[trial] = taken;
    }
    hopbyte_quiet_barrier(world->comm);
    return wrong;
}

int hopbyte_plan_run(const struct hopbyte_plan *plan, const struct hopbyte_world *world,
                     const struct hopbyte_settings *s) {
    struct buffers buffers = {.requests = hopbyte_memory((size_t)s->window * sizeof *buffers.requests, "requests")};
    size_t figures = (size_t)s->trials + 1; /* the trials' seconds, and the wrong bytes */
    double *mine = hopbyte_memory(figures * sizeof *mine, "results");
    double *all = hopbyte_memory(world->rank == 0 ? figures * (size_t)world->size * sizeof *all : 0, "results");
    struct hopbyte_totals *totals = hopbyte_totals_open();
    double wrong = 0;
    for (int i = 0; i < plan->phase_count; i++) {
        const struct hopbyte_phase *phase = &plan->phases[i];
        mine[s->trials] = phase_run(plan, phase, world, s, &buffers, mine);
        hopbyte_deadline_set(s->deadline, "gathering results");
        MPI_Gather(mine, (int)figures, MPI_DOUBLE, all, (int)figures, MPI_DOUBLE, 0, world->comm);
        for (int k = phase->first; world->rank == 0 && k < phase->first + phase->count; k++) {
            const double *figure = all + figures * (size_t)plan->nodes[plan->transfers[k].to].rank;
            wrong += figure[s->trials];
            if (figure[s->trials] > 0)
                hopbyte_world_say("%s: %.0f bytes of %s to %s arrived wrong", phase->name, figure[s->trials],
                                  plan->nodes[plan->transfers[k].from].name, plan->nodes[plan->transfers[k].to].name);
            hopbyte_transfer_print(plan, i, k, figure, s, totals);
        }
    }
    hopbyte_deadline_set(s->deadline, "the end");
    if (world->rank == 0)
        hopbyte_totals_print(totals, s);
    hopbyte_totals_close(totals);
    MPI_Bcast(&wrong, 1, MPI_DOUBLE, 0, world->comm);
    free(buffers.memory);
    free(buffers.requests);
    free(mine);
    free(all);
    return wrong > 0 ? HOPBYTE_NO : HOPBYTE_DONE;
}
