/* Waiting for MPI, polling or napping.
 *
 * MPI libraries poll while they wait. With more ranks than cores, as in an emulated cluster, polling takes the
 * processor from busy ranks, and the network looks slow. With hopbyte_nap_us above zero, every function here
 * sleeps that long between two polls. Otherwise they are the plain MPI calls. */
#ifndef HOPBYTE_WAIT_H
#define HOPBYTE_WAIT_H

#include <mpi.h>
#include <stdint.h>

/* Set from the command line (--nap). */
extern int hopbyte_nap_us;

/* Sleeps. */
void hopbyte_nap(int microseconds);
void hopbyte_wait_all(int count, MPI_Request *requests);
/* Always with naps, for waits in which many ranks share a processor with ranks that send or receive. */
void hopbyte_wait_quietly(int count, MPI_Request *requests);
/* Until another process of this host has stored a value in shared memory; with naps as above. */
void hopbyte_wait_word(const uint32_t *word, uint32_t value);
void hopbyte_wait_send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
void hopbyte_wait_receive(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm);
void hopbyte_wait_allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void hopbyte_wait_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);

/* A broadcast in which waiting ranks always nap. */
void hopbyte_quiet_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);

/* A barrier in which waiting ranks always nap, so that they do not disturb a measurement. Ranks leave it up to some
 * 0.1 ms apart. */
void hopbyte_quiet_barrier(MPI_Comm comm);

#endif
