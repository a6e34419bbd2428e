#define _GNU_SOURCE /* processor sets */
#include "cores.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096, LIST_ROOM = 8192, LEVELS = 4 };

/* A processor's enclosing objects, each by its first processor: package, L3, L2, core. */
struct processor {
    int first[LEVELS];
};

void cores_list(const cpu_set_t *set, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET(first, set))
            continue;
        int last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        if (used + 16 > room) {
            snprintf(text + used, room - used, ",…");
            return;
        }
        used += (size_t)snprintf(text + used, room - used, first == last ? "%s%d" : "%s%d-%d", used ? "," : "", first, last);
        first = last;
    }
}

static bool line_read(const char *path, char *line, int room) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool read = fgets(line, room, file) != NULL;
    fclose(file);
    return read;
}

/* A file of numbers such as 0-3,8. */
static bool set_read(const char *path, cpu_set_t *set) {
    char line[LIST_ROOM];
    if (!line_read(path, line, sizeof line))
        return false;
    CPU_ZERO(set);
    for (char *at = line; *at >= '0' && *at <= '9';) {
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-')
            last = strtol(at + 1, &at, 10);
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET((int)cpu, set);
        at += *at == ',';
    }
    return CPU_COUNT(set) > 0;
}

/* Processors allowed by the control group, version 1 or 2. */
static bool group_read(cpu_set_t *set) {
    FILE *file = fopen("/proc/self/cgroup", "r");
    if (!file)
        return false;
    char line[PATH_ROOM], path[PATH_ROOM + 64];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        const char *folder = strncmp(line, "0::", 3) == 0 ? line + 3 : NULL;
        const char *old = strstr(line, ":cpuset:");
        if (old)
            snprintf(path, sizeof path, "/sys/fs/cgroup/cpuset%s/cpuset.effective_cpus", old + strlen(":cpuset:"));
        else if (folder)
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpuset.cpus.effective", folder);
        else
            continue;
        found = set_read(path, set);
    }
    fclose(file);
    return found;
}

/* First processor of a list in a processor's folder, or itself. */
static int first_of(int cpu, const char *file) {
    char path[PATH_ROOM];
    cpu_set_t set;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, file);
    if (!set_read(path, &set))
        return -1;
    int first = 0;
    while (!CPU_ISSET(first, &set))
        first++;
    return first;
}

static int first_of_cache(int cpu, int level) {
    for (int i = 0; i < 16; i++) {
        char path[PATH_ROOM], line[16];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/level", cpu, i);
        if (!line_read(path, line, sizeof line))
            break;
        if (atoi(line) != level)
            continue;
        snprintf(path, sizeof path, "cache/index%d/shared_cpu_list", i);
        return first_of(cpu, path);
    }
    return 0;
}

static int compare(const void *a, const void *b) {
    const struct processor *x = a, *y = b;
    for (int level = 0; level < LEVELS; level++)
        if (x->first[level] != y->first[level])
            return x->first[level] < y->first[level] ? -1 : 1;
    return 0;
}

void cores_of(const cpu_set_t *cpus, cpu_set_t *cores) {
    cpu_set_t online, group;
    CPU_ZERO(cores);
    if (!set_read("/sys/devices/system/cpu/online", &online))
        return;
    if (group_read(&group))
        CPU_AND(&online, &online, &group);
    static struct processor of[CPU_SETSIZE], all[CPU_SETSIZE];
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &online))
            continue;
        int core = first_of(cpu, "topology/thread_siblings_list");
        if (core < 0)
            return;
        of[cpu] = (struct processor){{first_of(cpu, "topology/core_siblings_list"), first_of_cache(cpu, 3),
                                      first_of_cache(cpu, 2), core}};
        all[count++] = of[cpu];
    }
    qsort(all, (size_t)count, sizeof *all, compare);
    for (int i = 0, core = 0; i < count; i++) {
        if (i > 0 && compare(&all[i - 1], &all[i]) == 0)
            continue;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &online) && CPU_ISSET(cpu, cpus) && compare(&of[cpu], &all[i]) == 0)
                CPU_SET(core, cores);
        core++;
    }
}
