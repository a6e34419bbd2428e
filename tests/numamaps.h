/* The line of /proc/self/numa_maps for an address: what the kernel says, apart from what hopbyte reports. */
#ifndef NUMAMAPS_H
#define NUMAMAPS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes "policy=… N0=… kernelpagesize_kB=…". */
static char *numa_maps_text(const void *address, char *text, size_t room)
{
    char line[4096], best[4096] = "none none";
    FILE *file = fopen("/proc/self/numa_maps", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strtoul(line, NULL, 16) > (uintptr_t)address)
            break;
        strcpy(best, line);
    }
    if (file)
        fclose(file);
    char *rest = NULL, *word = strtok_r(best, " \n", &rest);
    word = strtok_r(NULL, " \n", &rest);
    size_t length = (size_t)snprintf(text, room, "policy=%s", word);
    while ((word = strtok_r(NULL, " \n", &rest)) && length < room)
        if (word[0] == '(' || word[0] == 'N' || strncmp(word, "kernelpagesize", 14) == 0)
            length += (size_t)snprintf(text + length, room - length, "%s%s", word[0] == '(' ? "" : " ", word);
    return text;
}

#endif
