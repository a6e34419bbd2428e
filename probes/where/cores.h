/* Processors as cores, in the numbers that rankfiles use. */
#ifndef HOPBYTE_WHERE_CORES_H
#define HOPBYTE_WHERE_CORES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* processor sets */
#endif
#include <sched.h>
#include <stddef.h>

/* Writes the numbers of a set as 0-3,8, cut off with … where they do not fit. */
void cores_list(const cpu_set_t *set, char *text, size_t room);

/* The cores that contain any of a set of processors, by logical number: package by package, cache by cache, as in hwloc
 * and Open MPI, among those that this process's control group may use. Empty if the system does not report them. */
void cores_of(const cpu_set_t *cpus, cpu_set_t *cores);

#endif
