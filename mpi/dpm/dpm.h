/* Rendezvous of two jobs by a file, as Cray's MPICH_DPM_SERVER and MPICH_DPM_CLIENT (paper 004, VIII.A): the server's ports
 * and published names are in the file, and the client's MPI_Lookup_name and MPI_Comm_connect take them from there. The
 * connection itself is the MPI library's. */
#ifndef HOPBYTE_DPM_H
#define HOPBYTE_DPM_H

#include "../common/deep.h"

#include "../common/own.h"

#include <stdio.h>

enum { DPM_PORTS = 64, DPM_NAME = 256, DPM_PATH = 4096, DPM_REASON = 768 };

struct hopbyte_dpm_port {
    char service[DPM_NAME]; /* empty for a port that was opened and not published */
    char port[MPI_MAX_PORT_NAME];
};

struct hopbyte_dpm_file {
    char host[256], boot[64];
    long pid;
    unsigned long long started; /* of the process, in the kernel's ticks after the boot */
    int count;
    struct hopbyte_dpm_port ports[DPM_PORTS];
};

enum hopbyte_dpm_state { DPM_ABSENT, DPM_BROKEN, DPM_STALE, DPM_ALIVE, DPM_UNCHECKED };

/* Reads the file and checks whether its server is running: surely where it is on this host, by its lock on others. A reason
 * in words for all but DPM_ALIVE. */
enum hopbyte_dpm_state hopbyte_dpm_read(const char *path, struct hopbyte_dpm_file *file, char reason[DPM_REASON]);
/* Identity of this process. */
void hopbyte_dpm_self(struct hopbyte_dpm_file *file);
/* Writes the file under a temporary name, locks and renames it; *lock is its descriptor, which replaces the one before. */
bool hopbyte_dpm_write(const char *path, const struct hopbyte_dpm_file *file, struct hopbyte_own *lock,
                       char reason[DPM_REASON]);

#endif
