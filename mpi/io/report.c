/* The report of a file at its close: the phases of paper 004's MPICH_MPIIO_TIMERS, as text and JSON.
 *
 * Where the library's MPI calls are not seen (OMPIO calls its own internals), waiting is inferred: in each collective
 * call, a rank waits while another has file operations under way, between the first and the last of all ranks, in
 * the proportion in which the busiest rank has them; clocks are compared from the barrier before the call. The rest of
 * the unexplained time is exchange. */
#include "../common/json.h"
#include "../common/numbers.h"
#include "io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const part_names[IO_PARTS] = {"write", "read", "independent write", "independent read"};
static const char *const part_keys[IO_PARTS] = {"write_all", "read_all", "write", "read"};

enum { HOST_ROOM = 64, HINT_ROOM = 256 };
static const double MIB = 1 << 20;

static const char *const hints[] = {"cb_nodes",        "cb_buffer_size",  "romio_cb_write", "romio_cb_read",
                                    "romio_ds_write",  "romio_ds_read",   "striping_factor", "striping_unit",
                                    "num_aggregators", "collective_buffering"};

/* All ranks' sums of one part, at rank 0. */
struct table {
    struct hopbyte_io_file *file;
    struct hopbyte_io_sums *rows;
    const double *meta;
    const char (*hosts)[HOST_ROOM];
    MPI_Info info;
    bool inferred;
};

/* Writes whole blocks of text, so that reports of files that close at once do not mix. */
static void text_write(const char *path, const char *text, size_t length)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : STDOUT_FILENO;
    if (fd < 0) {
        hopbyte_say("cannot write %s: %m", path);
        return;
    }
    if (!path)
        fflush(stdout);
    for (size_t done = 0; done < length;) {
        ssize_t step = write(fd, text + done, length - done);
        if (step <= 0) {
            hopbyte_say("cannot write %s: %m", path ? path : "standard output");
            break;
        }
        done += (size_t)step;
    }
    if (path)
        close(fd);
}

/* Seconds for which a rank waits for others' file operations in a call that spans `all` over all ranks. */
static double waiting_of(const struct hopbyte_io_span *own, const struct hopbyte_io_span *all)
{
    double width = all->last - all->first, until = own->end < all->last ? own->end : all->last;
    if (!(width > 0) || until <= all->first)
        return 0;
    double waits = (until - all->first) * (all->file < width ? all->file / width : 1) - own->file;
    return waits < 0 ? 0 : waits < own->rest ? waits : own->rest;
}

/* Moves the unexplained seconds of calls whose inner MPI calls are not seen to waiting and exchange. Collective. */
static bool waiting_infer(struct hopbyte_io_file *file, int part)
{
    struct hopbyte_io_sums *s = &file->sums[part];
    uint64_t seen = 0, inner = s->inner;
    int count = (int)(s->calls < file->room[part] ? s->calls : file->room[part]), least = 0;
    NEXT(Allreduce)(&inner, &seen, 1, MPI_UINT64_T, MPI_SUM, file->comm);
    NEXT(Allreduce)(&count, &least, 1, MPI_INT, MPI_MIN, file->comm);
    if (seen > 0 || least == 0 || file->size == 1)
        return false;
    /* The earliest first, the latest last and the longest sum of every call, in one maximum. */
    double(*most)[3] = calloc((size_t)least, sizeof *most);
    int good = most != NULL, every;
    NEXT(Allreduce)(&good, &every, 1, MPI_INT, MPI_MIN, file->comm);
    if (!every) {
        free(most);
        return false;
    }
    const struct hopbyte_io_span *spans = file->spans[part];
    for (int i = 0; i < least; i++) {
        most[i][0] = -spans[i].first;
        most[i][1] = spans[i].last;
        most[i][2] = spans[i].file;
    }
    NEXT(Allreduce)(MPI_IN_PLACE, most, 3 * least, MPI_DOUBLE, MPI_MAX, file->comm);
    for (int i = 0; i < least; i++) {
        struct hopbyte_io_span all = {.first = -most[i][0], .last = most[i][1], .file = most[i][2]};
        s->agree += waiting_of(&spans[i], &all);
    }
    s->exchange = s->total - s->arrival - s->agree - s->file;
    s->other = 0;
    free(most);
    return true;
}

struct spread {
    double least, most, sum;
    int least_rank, most_rank;
};

static struct spread spread_of(const struct table *t, size_t offset)
{
    struct spread s = {0};
    for (int rank = 0; rank < t->file->size; rank++) {
        double value = *(const double *)((const char *)&t->rows[rank] + offset);
        if (rank == 0 || value < s.least)
            s.least = value, s.least_rank = rank;
        if (rank == 0 || value > s.most)
            s.most = value, s.most_rank = rank;
        s.sum += value;
    }
    return s;
}

const struct hopbyte_io_phase hopbyte_io_phases[IO_PHASES] = {
    {"wait for coll", "wait_seconds", "#bab0ac", offsetof(struct hopbyte_io_sums, arrival)},
    {"collective", "collective_seconds", "#e15759", offsetof(struct hopbyte_io_sums, agree)},
    {"data send", "exchange_seconds", "#4e79a7", offsetof(struct hopbyte_io_sums, exchange)},
    {"file system", "file_seconds", "#59a14f", offsetof(struct hopbyte_io_sums, file)},
    {"other", "other_seconds", "#edc948", offsetof(struct hopbyte_io_sums, other)},
};

static uint64_t file_bytes(const struct hopbyte_io_sums *s, int part)
{
    return part == IO_WRITE_ALL || part == IO_WRITE ? s->written_bytes : s->read_bytes;
}

static void text_part(FILE *out, const struct table *t, int part)
{
    int users = 0, size = t->file->size;
    uint64_t bytes = 0, sent = 0, asked = 0, delivered = 0, operations = 0, extra = 0, failed = 0, later = 0,
             errors = 0;
    bool write = part == IO_WRITE_ALL || part == IO_WRITE;
    for (int rank = 0; rank < size; rank++) {
        const struct hopbyte_io_sums *s = &t->rows[rank];
        users += file_bytes(s, part) > 0;
        bytes += file_bytes(s, part);
        extra += write ? s->read_bytes : s->written_bytes;
        operations += write ? s->writes : s->reads;
        sent += s->sent;
        asked += s->requested;
        delivered += s->delivered;
        failed += s->failed;
        later += s->later;
        errors += s->file_errors;
    }
    fprintf(out, "+--------------------------------------------------------------------------+\n");
    fprintf(out, "| MPIIO %s by phases, all ranks, for %s\n", part_names[part], t->file->name);
    fprintf(out, "|   number of ranks %-14s = %10d\n", write ? "writing" : "reading", users);
    fprintf(out, "|   number of ranks not %-10s = %10d\n", write ? "writing" : "reading", size - users);
    fprintf(out, "|                                        min s       max s       ave s\n");
    double least = t->meta[0], most = t->meta[0], sum = 0;
    for (int rank = 0; rank < size; rank++) {
        least = t->meta[rank] < least ? t->meta[rank] : least;
        most = t->meta[rank] > most ? t->meta[rank] : most;
        sum += t->meta[rank];
    }
    fprintf(out, "|   open/close/trunc time          = %10.6f  %10.6f  %10.6f\n", least, most, sum / size);
    struct spread total = spread_of(t, offsetof(struct hopbyte_io_sums, total));
    fprintf(out, "|   total                          = %10.6f  %10.6f  %10.6f\n", total.least, total.most,
            total.sum / size);
    for (int i = 0; i < IO_PHASES; i++) {
        struct spread s = spread_of(t, hopbyte_io_phases[i].offset);
        fprintf(out, "|   %-15s                = %10.6f  %10.6f  %10.6f %3.0f%%\n", hopbyte_io_phases[i].text, s.least, s.most,
                s.sum / size, total.sum > 0 ? 100 * s.sum / total.sum : 0);
    }
    struct spread file = spread_of(t, offsetof(struct hopbyte_io_sums, file));
    struct spread send = spread_of(t, offsetof(struct hopbyte_io_sums, exchange));
    fprintf(out, "|\n|   calls of the program           = %10llu\n", (unsigned long long)t->rows[0].calls);
    fprintf(out, "|   bytes asked, delivered         = %10llu  %10llu\n", (unsigned long long)asked,
            (unsigned long long)delivered);
    fprintf(out, "|   bytes at the file system       = %10llu in %llu operations\n", (unsigned long long)bytes,
            (unsigned long long)operations);
    if (extra)
        fprintf(out, "|   %-30s = %10llu bytes\n", write ? "read-modify-write" : "written while reading",
                (unsigned long long)extra);
    fprintf(out, "|   bytes sent between ranks       = ");
    if (t->inferred)
        fprintf(out, "not seen\n");
    else
        fprintf(out, "%10llu\n", (unsigned long long)sent);
    if (!t->inferred && send.most > 0)
        fprintf(out, "|   data send BW (MiB/s)           = %10.3f\n", (double)sent / MIB / send.most);
    if (file.most > 0)
        fprintf(out, "|   raw %-5s BW (MiB/s)           = %10.3f\n", write ? "write" : "read",
                (double)bytes / MIB / file.most);
    if (total.most > 0)
        fprintf(out, "|   net %-5s BW (MiB/s)           = %10.3f\n", write ? "write" : "read",
                (double)delivered / MIB / total.most);
    if (part <= IO_READ_ALL) {
        fprintf(out, "|   aggregators:   rank  host                 file system s  operations       bytes\n");
        for (int rank = 0; rank < size; rank++) {
            const struct hopbyte_io_sums *s = &t->rows[rank];
            if (file_bytes(s, part) > 0)
                fprintf(out, "|            %9d  %-20s %13.6f  %10llu  %10llu\n", rank, t->hosts[rank], s->file,
                        (unsigned long long)(write ? s->writes : s->reads), (unsigned long long)file_bytes(s, part));
        }
        if (users == size && size > 1)
            fprintf(out, "|   every rank used the file itself: nothing was aggregated, or every rank is an aggregator\n");
    }
    if (t->inferred)
        fprintf(out, "|   the library's messages are not seen: \"collective\" is inferred from the slowest rank's "
                     "file operations\n");
    if (failed)
        fprintf(out, "|   calls that returned an error   = %10llu\n", (unsigned long long)failed);
    if (errors)
        fprintf(out, "|   file operations that failed    = %10llu%s\n", (unsigned long long)errors,
                failed ? "" : "   though every call returned success");
    if (later)
        fprintf(out, "|   nonblocking calls, timed only while they start = %llu\n", (unsigned long long)later);
    fprintf(out, "+--------------------------------------------------------------------------+\n");
}

static void json_hints(FILE *out, MPI_Info info)
{
    bool first = true;
    fprintf(out, "\"hints\":{");
    for (size_t i = 0; info != MPI_INFO_NULL && i < sizeof hints / sizeof *hints; i++) {
        char value[HINT_ROOM] = "";
        int found = 0;
        NEXT(Info_get)(info, hints[i], HINT_ROOM - 1, value, &found);
        if (!found)
            continue;
        fprintf(out, "%s\"%s\":", first ? "" : ",", hints[i]);
        hopbyte_json_text(out, value);
        first = false;
    }
    fprintf(out, "},");
}

static void json_part(FILE *out, const struct table *t, int part)
{
    bool first = true;
    fprintf(out, "{\"schema\":\"hopbyte.io/1\",\"file\":");
    hopbyte_json_text(out, t->file->name);
    fprintf(out, ",\"kind\":\"%s\",\"ranks\":%d,\"calls\":%llu,\"waiting\":\"%s\",", part_keys[part], t->file->size,
            (unsigned long long)t->rows[0].calls, t->inferred ? "inferred" : "measured");
    json_hints(out, t->info);
    fprintf(out, "\"aggregators\":[");
    for (int rank = 0; rank < t->file->size; rank++)
        if (file_bytes(&t->rows[rank], part) > 0) {
            fprintf(out, "%s%d", first ? "" : ",", rank);
            first = false;
        }
    fprintf(out, "],\"rows\":[");
    for (int rank = 0; rank < t->file->size; rank++) {
        const struct hopbyte_io_sums *s = &t->rows[rank];
        fprintf(out, "%s{\"rank\":%d,\"host\":", rank ? "," : "", rank);
        hopbyte_json_text(out, t->hosts[rank]);
        fprintf(out, ",\"open_close_seconds\":%.9f,\"total_seconds\":%.9f", t->meta[rank], s->total);
        for (int i = 0; i < IO_PHASES; i++)
            fprintf(out, ",\"%s\":%.9f", hopbyte_io_phases[i].key, *(const double *)((const char *)s + hopbyte_io_phases[i].offset));
        fprintf(out,
                ",\"calls\":%llu,\"failed\":%llu,\"file_errors\":%llu,\"nonblocking\":%llu,\"requested_bytes\":%llu,\"delivered_bytes\":%llu,"
                "\"sent_bytes\":",
                (unsigned long long)s->calls, (unsigned long long)s->failed, (unsigned long long)s->file_errors,
                (unsigned long long)s->later,
                (unsigned long long)s->requested, (unsigned long long)s->delivered);
        if (t->inferred)
            fprintf(out, "null");
        else
            fprintf(out, "%llu", (unsigned long long)s->sent);
        fprintf(out,
                ",\"file_written_bytes\":%llu,\"file_read_bytes\":%llu,\"file_writes\":%llu,\"file_reads\":%llu}",
                (unsigned long long)s->written_bytes, (unsigned long long)s->read_bytes, (unsigned long long)s->writes,
                (unsigned long long)s->reads);
    }
    fprintf(out, "]}\n");
}

static void part_print(const struct table *t, int part)
{
    const char *json = getenv("HOPBYTE_IO_JSON"), *pictures = getenv("HOPBYTE_IO_PICTURES");
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return;
    text_part(out, t, part);
    if (fclose(out) == 0)
        text_write(getenv("HOPBYTE_IO_OUTPUT"), text, length);
    free(text);
    if (json && *json && (out = open_memstream(&text, &length))) {
        json_part(out, t, part);
        if (fclose(out) == 0)
            text_write(json, text, length);
        free(text);
    }
    if (pictures && *pictures)
        hopbyte_io_picture(pictures, t->file, part_keys[part], t->rows);
}

void hopbyte_io_report(struct hopbyte_io_file *file, MPI_Info info)
{
    MPI_Comm comm = file->comm;
    char host[HOST_ROOM];
    size_t ranks = file->rank == 0 ? (size_t)file->size : 1;
    struct table t = {.file = file, .info = info, .rows = malloc(ranks * sizeof *t.rows)};
    double *meta = malloc(ranks * sizeof *meta);
    char(*hosts)[HOST_ROOM] = malloc(ranks * HOST_ROOM);
    int good = t.rows && meta && hosts, all;
    hopbyte_host_read(host, sizeof host);
    NEXT(Allreduce)(&good, &all, 1, MPI_INT, MPI_MIN, comm);
    if (!all)
        hopbyte_say("no memory for the report of %s", file->name);
    if (all) {
        NEXT(Gather)(&file->meta, 1, MPI_DOUBLE, meta, 1, MPI_DOUBLE, 0, comm);
        NEXT(Gather)(host, HOST_ROOM, MPI_CHAR, hosts, HOST_ROOM, MPI_CHAR, 0, comm);
        t.meta = meta;
        t.hosts = (const char(*)[HOST_ROOM])hosts;
    }
    for (int part = 0; all && part < IO_PARTS; part++) {
        uint64_t mine = file->sums[part].calls, calls = 0;
        NEXT(Allreduce)(&mine, &calls, 1, MPI_UINT64_T, MPI_SUM, comm);
        if (!calls)
            continue;
        t.inferred = part <= IO_READ_ALL && waiting_infer(file, part);
        int bytes = (int)sizeof *t.rows;
        NEXT(Gather)(&file->sums[part], bytes, MPI_BYTE, t.rows, bytes, MPI_BYTE, 0, comm);
        if (file->rank == 0) {
            locale_t numbers = hopbyte_numbers_begin();
            part_print(&t, part);
            hopbyte_numbers_end(numbers);
        }
    }
    free(t.rows);
    free(meta);
    free(hosts);
}
