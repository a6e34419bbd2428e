/* A rank's file in the format of ../FORMAT.md, written under a temporary name and renamed when complete. Its phases
 * and groups are written at once, its counts when the table is full and at the end. */
#include "record.h"

#include "../common/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    char final[PATH_MAX], library[MPI_MAX_LIBRARY_VERSION_STRING];
    struct hopbyte_own temporary;
    FILE *stream;
    bool failed, spawned;
    int phases_written, groups_written;
    uint64_t lines, bytes;
    double start;
} file;

static double clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void file_complain(const char *doing)
{
    if (!file.failed)
        hopbyte_say("cannot %s %s: %s; rank %d is not recorded", doing, file.temporary.path, strerror(errno),
                    hopbyte_recorder.rank);
    file.failed = true;
}

/* Creates the folder of the file and its parents. */
static void folder_make(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file.final);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777); /* most exist; a permanent failure shows when the file is opened */
        *slash = '/';
    }
}

/* Copies at most room-1 bytes of a small file, control characters replaced by blanks. */
static void text_read(const char *path, char *text, size_t room)
{
    FILE *in = fopen(path, "r");
    size_t length = in ? fread(text, 1, room - 1, in) : 0;
    if (in)
        fclose(in);
    while (length && (unsigned char)text[length - 1] <= ' ')
        length--;
    text[length] = 0;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = ' ';
}

static void cpus_read(char *text, size_t room)
{
    char *line = NULL;
    size_t size = 0;
    FILE *in = fopen("/proc/self/status", "r");
    snprintf(text, room, "-");
    while (in && getline(&line, &size, in) > 0)
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
            snprintf(text, room, "%s", line + 18 + strspn(line + 18, " \t"));
            text[strcspn(text, "\n")] = 0;
        }
    free(line);
    if (in)
        fclose(in);
}

__attribute__((format(printf, 1, 2))) static void line_write(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vfprintf(file.stream, format, list);
    va_end(list);
    if (length < 0 || fputc('\n', file.stream) == EOF)
        file_complain("write");
    file.lines++;
    file.bytes += (uint64_t)length + 1;
}

/* The library, and variables that select algorithms of collectives, as the launcher passed them on. */
void hopbyte_library_write(FILE *out)
{
    fprintf(out, "library\t%s\n", file.library);
    for (char **each = environ; each && *each; each++) {
        const char *value = strchr(*each, '=');
        bool ompi = strncmp(*each, "OMPI_MCA_coll", 13) == 0;
        bool selects = strstr(*each, "_ALGORITHM") || strstr(*each, "_MSG_SIZE") || strstr(*each, "_JSON_FILE");
        bool mpich = strncmp(*each, "MPIR_CVAR_", 10) == 0 && selects;
        if (value && (ompi || mpich) && !strpbrk(value, "\t\n"))
            fprintf(out, "setting\t%.*s\t%s\n", (int)(value - *each), *each, value + 1);
    }
}

/* The launcher's name of the job, the same on all of its ranks: PMIx names it, Hydra does not. */
static void job_write(void)
{
    const char *job = getenv("PMIX_NAMESPACE");
    if (job && *job && !strpbrk(job, "\t\n"))
        line_write("job\t%s", job);
}

/* Lines that were made as text. */
static void lines_write(char *text)
{
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        line_write("%.*s", (int)(end - line), line);
        line = end + 1;
    }
    free(text);
}

static void header_write(void)
{
    char host[256], cpus[1024], command[1024];
    hopbyte_host_read(host, sizeof host);
    cpus_read(cpus, sizeof cpus);
    text_read("/proc/self/cmdline", command, sizeof command);
    line_write("# hopbyte-record 2");
    line_write("rank\t%d", hopbyte_recorder.rank);
    line_write("size\t%d", hopbyte_recorder.size);
    line_write("host\t%s", host);
    line_write("cpus\t%s", cpus);
    line_write("pid\t%ld", (long)getpid());
    line_write("spawned\t%d", file.spawned);
    line_write("start\t%.6f", file.start);
    line_write("command\t%s", command);
    job_write();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        hopbyte_library_write(out);
        fclose(out);
    }
    lines_write(text);
}

void hopbyte_file_init(bool spawned)
{
    const char *folder = getenv("HOPBYTE_RECORD_DIR");
    char host[256];
    if (!folder || !*folder)
        folder = "hopbyte-record";
    hopbyte_host_read(host, sizeof host);
    int length = 0;
    NEXT(Get_library_version)(file.library, &length);
    file.library[strcspn(file.library, "\n")] = 0;
    /* MPICH 4 has a tab before its version. */
    for (char *tab = file.library; (tab = strchr(tab, '\t'));) *tab = ' ';
    file.spawned = spawned;
    file.start = clock_now();
    if (spawned)
        snprintf(file.final, sizeof file.final, "%s/spawned.%s.%ld.hbr", folder, host, (long)getpid());
    else
        snprintf(file.final, sizeof file.final, "%s/rank.%d.hbr", folder, hopbyte_recorder.rank);
    snprintf(file.temporary.path, sizeof file.temporary.path, "%s.%ld.tmp", file.final, (long)getpid());
    char live[sizeof file.final + 32];
    snprintf(live, sizeof live, "%s.%ld.live", file.final, (long)getpid());
    folder_make();
    if (hopbyte_own_open(&file.temporary, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666))
        file.stream = hopbyte_own_stream(&file.temporary);
    if (!file.stream) {
        file_complain("create");
        return;
    }
    hopbyte_live_init(live);
    header_write();
}

const char *hopbyte_file_stem(void)
{
    static char stem[PATH_MAX];
    snprintf(stem, sizeof stem, "%s", file.final);
    stem[strlen(stem) - strlen(".hbr")] = 0;
    return stem;
}

uint64_t hopbyte_file_flush(void)
{
    if (file.stream && fflush(file.stream) != 0)
        file_complain("write");
    return file.bytes;
}

/* World ranks in order, runs of equal steps as first-last or first-last:step. */
static void ranks_write(FILE *out, const struct hopbyte_group *g)
{
    for (int i = 0; i < g->size;) {
        int from = hopbyte_group_world_rank(g, i), run = 1, step = 0;
        if (i + 1 < g->size && from >= 0)
            step = hopbyte_group_world_rank(g, i + 1) - from;
        while (step > 0 && i + run < g->size && hopbyte_group_world_rank(g, i + run) == from + run * step)
            run++;
        if (run == 2 && step != 1)
            run = 1;
        fprintf(out, i ? "," : "");
        if (from < 0)
            fputc('x', out);
        else if (run == 1)
            fprintf(out, "%d", from);
        else if (step == 1)
            fprintf(out, "%d-%d", from, from + run - 1);
        else
            fprintf(out, "%d-%d:%d", from, from + (run - 1) * step, step);
        i += run;
    }
}

/* Only a group's first member lists the members; a list in every file would be redundant. */
void hopbyte_group_write(FILE *out, const struct hopbyte_group *g)
{
    fprintf(out, "group\t%016" PRIx64 "\t%d\t", g->id, g->size);
    if ((g->me == 0 || g->me == RANK_OUTSIDE) && g->size)
        ranks_write(out, g);
    else
        fputc('-', out);
}

static void group_write(const struct hopbyte_group *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        hopbyte_group_write(out, g);
        fclose(out);
    }
    if (text)
        line_write("%s", text);
    free(text);
}

/* Lines so far outlive the process. */
static void text_commit(void)
{
    struct hopbyte_live_state state = hopbyte_live_state();
    state.text = hopbyte_file_flush();
    hopbyte_live_commit(state);
}

void hopbyte_file_define(void)
{
    if (!file.stream)
        return;
    while (file.phases_written < hopbyte_phase_count()) {
        line_write("phase\t%d\t%s", file.phases_written, hopbyte_phase_name(file.phases_written));
        file.phases_written++;
    }
    for (const struct hopbyte_group *g; (g = hopbyte_group_at((uint16_t)file.groups_written)); file.groups_written++)
        group_write(g);
    text_commit();
}

/* The group of a line, `-` if it has no number. */
static const char *group_text(const struct hopbyte_item *item, char text[20])
{
    const struct hopbyte_group *g = hopbyte_group_at(hopbyte_key_group(item->key));
    snprintf(text, 20, g ? "%016" PRIx64 : "-", g ? g->id : 0);
    return text;
}

static void call_write(const struct hopbyte_item *item)
{
    char id[20], size[24] = "-", how[40];
    if (hopbyte_key_class(item->key) == CLASS_CALL)
        snprintf(size, sizeof size, "%s%" PRIu64, item->size & SIZE_ROUNDED ? "~" : "",
                 item->size & ~(SIZE_ROUNDED | HOW_BITS));
    hopbyte_how_text(item->size, how);
    line_write("K\t%u\t%s\t%s\t%d\t%s\t%" PRIu64 "\t%" PRIu64 "%s%s", hopbyte_key_phase(item->key),
               group_text(item, id), hopbyte_kind_names[hopbyte_key_kind(item->key)], hopbyte_key_rank(item->key), size,
               item->bytes, item->messages, *how ? "\t" : "", how);
}

static void item_write(const struct hopbyte_item *item)
{
    uint32_t phase = hopbyte_key_phase(item->key);
    enum hopbyte_class what = hopbyte_key_class(item->key);
    int rank = hopbyte_key_rank(item->key);
    char id[20];
    if (what == CLASS_POINT)
        line_write("P\t%u\t%d\t%" PRIu64 "\t%" PRIu64, phase, rank, item->bytes, item->messages);
    else if (what == CLASS_PAIR)
        line_write("C\t%u\t%s\t%s\t%d\t%" PRIu64 "\t%" PRIu64, phase, group_text(item, id),
                   hopbyte_kind_names[hopbyte_key_kind(item->key)], rank, item->bytes, item->messages);
    else if (what == CLASS_CALL || what == CLASS_DIRECT)
        call_write(item);
    else
        line_write("R\t%u\t%s\t%s\t%d\t%" PRIu64 "\t%" PRIu64, phase, hopbyte_kind_names[hopbyte_key_kind(item->key)],
                   what == CLASS_PUT ? "out" : "in", rank, item->bytes, item->messages);
}

static void item_drop(const struct hopbyte_item *item)
{
    (void)item;
}

void hopbyte_file_spill(void)
{
    hopbyte_table_drain(file.stream ? item_write : item_drop);
}

void hopbyte_unknown(const char *name, const char *reason)
{
    enum { NAMES = 256 };
    static const char *names[NAMES];
    static int count;
    hopbyte_lock();
    int at = 0;
    while (at < count && strcmp(names[at], name) != 0)
        at++;
    if (at == count && count < NAMES && file.stream) {
        names[count++] = name;
        line_write("unknown\t%s\t%s", name, reason);
        text_commit();
    }
    hopbyte_unlock();
}

void hopbyte_started(int root, MPI_Comm comm, MPI_Comm children)
{
    int me = RANK_OUTSIDE, count = 0;
    NEXT(Comm_rank)(comm, &me);
    NEXT(Comm_remote_size)(children, &count);
    if (me != root)
        return;
    hopbyte_lock();
    if (file.stream) {
        line_write("started\t%d", count);
        text_commit();
    }
    hopbyte_unlock();
}

void hopbyte_file_call(int call)
{
    if (!file.stream)
        return;
    line_write("call\t%d\t%s", call, hopbyte_call_names[call]);
    text_commit();
}

static void times_write(void)
{
    double tick = hopbyte_tick_seconds();
    for (int i = 0; i < hopbyte_phase_count(); i++) {
        uint64_t entries;
        double seconds = hopbyte_phase_seconds(i, &entries);
        line_write("time\t%d\t%.6f\t%" PRIu64 "\t%.6f", i, seconds, entries,
                   tick * (double)hopbyte_phase_ticks[i]);
    }
    for (int i = 0; i < hopbyte_call_count; i++)
        if (hopbyte_call_times[i].calls)
            line_write("mpi\t%s\t%" PRIu64 "\t%.6f", hopbyte_call_names[i], hopbyte_call_times[i].calls,
                       tick * (double)hopbyte_call_times[i].ticks);
    char *order = hopbyte_phase_order();
    if (order)
        line_write("order\t%s", order);
    free(order);
}

static void trailer_write(const char *ended)
{
    times_write();
    lines_write(hopbyte_variables_text());
    uint64_t threads = __atomic_load_n(&hopbyte_live->threads, __ATOMIC_RELAXED);
    if (threads > 1)
        line_write("threads\t%" PRIu64, threads);
    if (hopbyte_live->rounded)
        line_write("rounded\t%" PRIu64, hopbyte_live->rounded);
    line_write("cpu\t%d", sched_getcpu());
    line_write("stop\t%.6f", clock_now());
    line_write("ended\t%s", ended);
    line_write("end\t%" PRIu64, file.lines);
}

void hopbyte_file_finish(const char *ended)
{
    hopbyte_tallies_gather();
    hopbyte_file_spill();
    if (!file.stream)
        return;
    trailer_write(ended);
    if (ferror(file.stream) | fclose(file.stream))
        file_complain("write");
    file.stream = NULL;
    if (!file.failed && !hopbyte_own_name(file.temporary.path, file.final, sizeof file.final))
        file_complain("rename");
    /* Empty, it tells `hopbyte record` that the rank said why. */
    if (file.failed && truncate(file.temporary.path, 0) != 0)
        unlink(file.temporary.path);
    hopbyte_live_finish();
}

/* The stream's buffer is the parent's. */
void hopbyte_file_leave(void)
{
    if (file.stream)
        hopbyte_own_close(&file.temporary);
    file.stream = NULL;
    hopbyte_live_leave();
}
