/* The file of a server. */
#include "dpm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void line_read(const char *path, char *text, size_t room)
{
    FILE *in = fopen(path, "re");
    *text = 0;
    if (in && !fgets(text, (int)room, in))
        *text = 0;
    if (in)
        fclose(in);
    text[strcspn(text, "\n")] = 0;
}

/* When a process started; 0 if there is none. */
static unsigned long long started(long pid)
{
    char path[64], line[1024];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    line_read(path, line, sizeof line);
    /* The second field, a name in parentheses, may hold anything. */
    char *at = strrchr(line, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        ticks = strtoull(at, NULL, 10);
    /* A process that has ended and waits for its parent. */
    at = strrchr(line, ')');
    return at && at[1] == ' ' && at[2] == 'Z' ? 0 : ticks;
}

void hopbyte_dpm_self(struct hopbyte_dpm_file *file)
{
    hopbyte_host_read(file->host, sizeof file->host);
    line_read("/proc/sys/kernel/random/boot_id", file->boot, sizeof file->boot);
    file->pid = (long)getpid();
    file->started = started(file->pid);
}

static bool pair_parse(char *line, struct hopbyte_dpm_port *port)
{
    char *tab = strchr(line, '\t');
    if (!tab || tab - line >= DPM_NAME || strlen(tab + 1) >= MPI_MAX_PORT_NAME || !tab[1])
        return false;
    *tab = 0;
    strcpy(port->service, strcmp(line, "-") == 0 ? "" : line);
    strcpy(port->port, tab + 1);
    return true;
}

/* Fills `file`; the number of the first line that is wrong, 0 if none is. */
static int parse(FILE *in, struct hopbyte_dpm_file *file)
{
    char *line = NULL;
    size_t room = 0;
    int number = 0, bad = 0;
    bool whole = false;
    memset(file, 0, sizeof *file);
    while (!bad && getline(&line, &room, in) > 0) {
        bool cut = !strchr(line, '\n');
        number++;
        line[strcspn(line, "\n")] = 0;
        bool fine = !cut && !whole;
        if (number == 1)
            fine = fine && strcmp(line, "# hopbyte-dpm 1") == 0;
        else if (strncmp(line, "host\t", 5) == 0)
            snprintf(file->host, sizeof file->host, "%s", line + 5);
        else if (strncmp(line, "boot\t", 5) == 0)
            snprintf(file->boot, sizeof file->boot, "%s", line + 5);
        else if (strncmp(line, "process\t", 8) == 0)
            fine = fine && sscanf(line + 8, "%ld\t%llu", &file->pid, &file->started) == 2;
        else if (strncmp(line, "port\t", 5) == 0)
            fine = fine && file->count < DPM_PORTS && pair_parse(line + 5, &file->ports[file->count++]);
        else
            fine = fine && (whole = strcmp(line, "end") == 0);
        bad = fine ? 0 : number;
    }
    free(line);
    if (!bad && (!whole || !file->pid || !*file->host))
        bad = number + 1;
    return bad;
}

enum hopbyte_dpm_state hopbyte_dpm_read(const char *path, struct hopbyte_dpm_file *file, char reason[DPM_REASON])
{
    struct hopbyte_dpm_file self = {.count = 0};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    FILE *in = fopen(path, "re");
    if (!in) {
        snprintf(reason, DPM_REASON, "cannot open %.400s: %s; is the server running, and has it opened a port?", path,
                 strerror(errno));
        return DPM_ABSENT;
    }
    int bad = parse(in, file);
    bool held = fcntl(fileno(in), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    fclose(in);
    if (bad) {
        snprintf(reason, DPM_REASON, "%.400s:%d: not the file of a server", path, bad);
        return DPM_BROKEN;
    }
    hopbyte_dpm_self(&self);
    *reason = 0;
    if (strcmp(self.host, file->host) == 0 && (strcmp(self.boot, file->boot) != 0 || started(file->pid) != file->started)) {
        snprintf(reason, DPM_REASON, "%.400s is stale: its server, process %ld on %.100s, has ended", path, file->pid,
                 file->host);
        return DPM_STALE;
    }
    if (strcmp(self.host, file->host) == 0 || held)
        return DPM_ALIVE;
    snprintf(reason, DPM_REASON, "%.400s: process %ld on %.100s holds no lock that is seen here; it may have ended", path,
             file->pid, file->host);
    return DPM_UNCHECKED;
}

bool hopbyte_dpm_write(const char *path, const struct hopbyte_dpm_file *file, struct hopbyte_own *lock,
                       char reason[DPM_REASON])
{
    struct hopbyte_own fresh;
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(fresh.path, sizeof fresh.path, "%s.%ld.tmp", path, (long)getpid());
    /* A port lets anyone who has it into the job. */
    bool open = hopbyte_own_open(&fresh, O_RDWR | O_CREAT | O_TRUNC, 0600);
    FILE *out = open ? fdopen(dup(fresh.fd), "w") : NULL;
    bool fine = out != NULL;
    if (fine) {
        fprintf(out, "# hopbyte-dpm 1\nhost\t%s\nboot\t%s\nprocess\t%ld\t%llu\n", file->host, file->boot, file->pid,
                file->started);
        for (int i = 0; i < file->count; i++)
            fprintf(out, "port\t%s\t%s\n", *file->ports[i].service ? file->ports[i].service : "-", file->ports[i].port);
        fprintf(out, "end\n");
        fine = !(ferror(out) | fclose(out));
    }
    /* After the stream's copy is closed, which would give the lock up. File systems without locks are told apart by the
     * reader. */
    if (fine)
        fcntl(fresh.fd, F_SETLK, &range);
    fine = fine && rename(fresh.path, path) == 0;
    if (!fine) {
        snprintf(reason, DPM_REASON, "cannot write %.400s: %s", path, strerror(errno));
        unlink(fresh.path);
        hopbyte_own_close(&fresh);
        return false;
    }
    hopbyte_own_close(lock);
    *lock = fresh;
    return true;
}
