#include "wait.h"

#include <time.h>

enum { LOOKS_BEFORE_NAPS = 20, QUIET_NAP_US = 50 };

int hopbyte_nap_us;

void hopbyte_nap(int microseconds) {
    struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000L};
    nanosleep(&time, NULL);
}

static void look_and_nap(int count, MPI_Request *requests, int microseconds) {
    for (int looks = 0, done = 0;; looks++) {
        MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            return;
        if (looks >= LOOKS_BEFORE_NAPS)
            hopbyte_nap(microseconds);
    }
}

void hopbyte_wait_all(int count, MPI_Request *requests) {
    if (hopbyte_nap_us)
        look_and_nap(count, requests, hopbyte_nap_us);
    else
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

void hopbyte_wait_quietly(int count, MPI_Request *requests) {
    look_and_nap(count, requests, hopbyte_nap_us ? hopbyte_nap_us : QUIET_NAP_US);
}

void hopbyte_wait_word(const uint32_t *word, uint32_t value) {
    for (int looks = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; looks++)
        if (looks >= LOOKS_BEFORE_NAPS)
            hopbyte_nap(QUIET_NAP_US);
}

void hopbyte_wait_send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    MPI_Request request;
    if (!hopbyte_nap_us) {
        MPI_Send(buffer, count, type, to, tag, comm);
        return;
    }
    MPI_Isend(buffer, count, type, to, tag, comm, &request);
    look_and_nap(1, &request, hopbyte_nap_us);
}

void hopbyte_wait_receive(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm) {
    MPI_Request request;
    MPI_Irecv(buffer, count, type, from, tag, comm, &request);
    hopbyte_wait_all(1, &request);
}

void hopbyte_wait_allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    MPI_Request request;
    if (!hopbyte_nap_us) {
        MPI_Allreduce(in, out, count, type, op, comm);
        return;
    }
    MPI_Iallreduce(in, out, count, type, op, comm, &request);
    look_and_nap(1, &request, hopbyte_nap_us);
}

void hopbyte_wait_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    MPI_Request request;
    if (!hopbyte_nap_us) {
        MPI_Bcast(buffer, count, type, root, comm);
        return;
    }
    MPI_Ibcast(buffer, count, type, root, comm, &request);
    look_and_nap(1, &request, hopbyte_nap_us);
}

void hopbyte_quiet_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    MPI_Request request;
    MPI_Ibcast(buffer, count, type, root, comm, &request);
    hopbyte_wait_quietly(1, &request);
}

void hopbyte_quiet_barrier(MPI_Comm comm) {
    MPI_Request request;
    MPI_Ibarrier(comm, &request);
    hopbyte_wait_quietly(1, &request);
}
