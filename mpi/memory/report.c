/* Requested and delivered memory per rank: printed when the job ends, in the order of ranks. */
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const memory_call_names[CALLS] = {"MPI_Alloc_mem", "MPI_Win_allocate", "MPI_Win_allocate_shared",
                                              "internal memory"};

/* Calls with equal requests. */
struct entry {
    enum memory_call call;
    struct mem_request request;
    uint64_t calls, failed, requested;
    struct mem_delivered delivered;
    struct entry *next;
};
static struct entry *entries;
static uint64_t unnoted;
static bool reported;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *memory_request_text(const struct mem_request *request, char *text, size_t room)
{
    char list[128], page[32];
    bool listed = request->kind == MEM_LIST;
    int length = snprintf(text, room, "%s%s, %s", listed ? "node " : mem_kind_name(request->kind),
                          listed ? mem_list_text(&request->list, list, sizeof list) : "", mem_policy_name(request->policy));
    if (request->page && length > 0 && (size_t)length < room)
        snprintf(text + length, room - (size_t)length, ", pages of %s", mem_page_text(request->page, page));
    return text;
}

/* With the lock. */
static struct entry *entry_of(enum memory_call call, const struct mem_request *request)
{
    struct entry **at = &entries;
    for (; *at; at = &(*at)->next) {
        const struct mem_request *r = &(*at)->request;
        if ((*at)->call == call && r->kind == request->kind && r->policy == request->policy && r->page == request->page &&
            (r->kind != MEM_LIST || memcmp(&r->list, &request->list, sizeof r->list) == 0))
            return *at;
    }
    *at = calloc(1, sizeof **at);
    if (*at) {
        (*at)->call = call;
        (*at)->request = *request;
    } else {
        unnoted++;
    }
    return *at;
}

void memory_note(enum memory_call call, const struct mem_request *request, uint64_t bytes, const struct mem_delivered *d)
{
    pthread_mutex_lock(&lock);
    struct entry *entry = entry_of(call, request);
    if (entry) {
        entry->calls++;
        entry->requested += bytes;
        mem_delivered_add(&entry->delivered, d);
    }
    pthread_mutex_unlock(&lock);
}

void memory_note_failed(enum memory_call call, const struct mem_request *request, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct entry *entry = entry_of(call, request);
    if (entry) {
        entry->calls++;
        entry->failed++;
        entry->requested += bytes;
    }
    pthread_mutex_unlock(&lock);
}

/* --- printing --- */

static void text_write(FILE *out, const struct entry *e, int rank, const char *host)
{
    char request[256], bytes[32];
    fprintf(out, "hopbyte memory: rank %d on %s: %s", rank, host, memory_call_names[e->call]);
    fprintf(out, " (%s): ", memory_request_text(&e->request, request, sizeof request));
    if (e->call != CALL_INTERNAL)
        fprintf(out, "%llu calls, %s; ", (unsigned long long)e->calls, mem_bytes_text(e->requested, bytes));
    if (e->failed)
        fprintf(out, "%llu failed; ", (unsigned long long)e->failed);
    fprintf(out, "delivered ");
    if (e->delivered.bytes)
        mem_delivered_write(out, &memory_settings.machine, &e->delivered);
    else
        fprintf(out, "nothing");
    if (*e->delivered.reason)
        fprintf(out, "; NOT AS ASKED: %s", e->delivered.reason);
    fprintf(out, "\n");
}

static void json_write(FILE *out, const struct entry *e, int rank, const char *host)
{
    char nodes[256];
    fprintf(out, "{\"schema\":\"hopbyte.memory/1\",\"rank\":%d,\"host\":", rank);
    hopbyte_json_text(out, host);
    fprintf(out, ",\"call\":\"%s\",\"kind\":\"%s\"", memory_call_names[e->call],
            e->request.kind == MEM_LIST ? "nodes" : mem_kind_name(e->request.kind));
    if (e->request.kind == MEM_LIST)
        fprintf(out, ",\"nodes\":\"%s\"", mem_list_text(&e->request.list, nodes, sizeof nodes));
    fprintf(out, ",\"policy\":\"%s\",\"page_bytes\":%llu,\"calls\":%llu,\"failed\":%llu,\"requested_bytes\":%llu,",
            mem_policy_name(e->request.policy), (unsigned long long)e->request.page, (unsigned long long)e->calls,
            (unsigned long long)e->failed, (unsigned long long)e->requested);
    mem_delivered_json(out, &memory_settings.machine, &e->delivered);
    fprintf(out, "}\n");
}

static char *lines_make(bool json, int rank, size_t *length)
{
    char host[256], *text = NULL;
    hopbyte_host_read(host, sizeof host);
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    pthread_mutex_lock(&lock);
    for (const struct entry *e = entries; e; e = e->next)
        (json ? json_write : text_write)(out, e, rank, host);
    if (unnoted && !json)
        fprintf(out, "hopbyte memory: rank %d on %s: %llu calls are not in this report: out of memory\n", rank, host,
                (unsigned long long)unnoted);
    pthread_mutex_unlock(&lock);
    fclose(out);
    return text;
}

static void lines_put(const char *path, const char *text, size_t length)
{
    int fd = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : STDERR_FILENO;
    if (fd < 0) {
        hopbyte_say("cannot write %s: %m", path);
        return;
    }
    for (size_t done = 0; done < length;) {
        ssize_t step = write(fd, text + done, length - done);
        if (step <= 0) {
            hopbyte_say("cannot write %s: %m", path ? path : "standard error");
            break;
        }
        done += (size_t)step;
    }
    if (fd != STDERR_FILENO)
        close(fd);
}

/* All ranks' lines at rank 0, in order. */
static void lines_gather(bool json, const char *path)
{
    int rank, size;
    size_t length = 0, all = 0;
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    NEXT(Comm_size)(MPI_COMM_WORLD, &size);
    char *own = lines_make(json, rank, &length), *text = NULL;
    int count = own ? (int)length : 0, *counts = NULL, *offsets = NULL;
    if (rank == 0)
        counts = calloc(2 * (size_t)size, sizeof *counts);
    int good = rank != 0 || counts;
    NEXT(Bcast)(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (good)
        NEXT(Gather)(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (good && rank == 0) {
        offsets = counts + size;
        for (int i = 0; i < size; i++) {
            offsets[i] = (int)all;
            all += (size_t)counts[i];
        }
        text = all < INT32_MAX ? malloc(all + 1) : NULL;
        good = text != NULL;
    }
    NEXT(Bcast)(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (good)
        NEXT(Gatherv)(own, count, MPI_CHAR, text, counts, offsets, MPI_CHAR, 0, MPI_COMM_WORLD);
    else if (rank == 0)
        hopbyte_say("no memory at rank 0 for the report of %d ranks", size);
    if (good && rank == 0)
        lines_put(path, text, all);
    free(text);
    free(counts);
    free(own);
}

static bool text_asked(void)
{
    const char *text = getenv("HOPBYTE_MEMORY_REPORT"), *path = getenv("HOPBYTE_MEMORY_OUTPUT");
    return (text && *text && strcmp(text, "0") != 0) || (path && *path);
}

/* One line for the job where something was not delivered and no report was asked for. */
static void summary_say(int shortfalls, int ranks, int size)
{
    if (shortfalls)
        hopbyte_say("not delivered as asked at %d of %d ranks with requests (%d ranks); HOPBYTE_MEMORY_REPORT=1 prints what "
                    "was delivered",
                    shortfalls, ranks, size);
}

void memory_report(void)
{
    int rank, size, own[3] = {0}, all[3];
    const char *json = getenv("HOPBYTE_MEMORY_JSON");
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    NEXT(Comm_size)(MPI_COMM_WORLD, &size);
    for (const struct entry *e = entries; e; e = e->next) {
        own[0] = 1;
        own[1] |= e->failed > 0 || *e->delivered.reason;
    }
    own[2] = (text_asked() ? 1 : 0) + (json && *json ? 1 << 16 : 0);
    own[2] = rank == 0 ? own[2] : 0;
    NEXT(Allreduce)(own, all, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    reported = true;
    if (all[0] == 0)
        return;
    if (all[2] & 0xffff)
        lines_gather(false, getenv("HOPBYTE_MEMORY_OUTPUT"));
    else if (rank == 0)
        summary_say(all[1], all[0], size);
    if (all[2] >> 16)
        lines_gather(true, json);
}

/* Of a program that uses sessions only, or ends without MPI_Finalize. */
void memory_report_own(void)
{
    const char *json = getenv("HOPBYTE_MEMORY_JSON"), *path = getenv("HOPBYTE_MEMORY_OUTPUT");
    size_t length = 0;
    char *text;
    if (reported || !entries)
        return;
    reported = true;
    if (text_asked() && (text = lines_make(false, -1, &length))) {
        lines_put(path, text, length);
        free(text);
    }
    if (json && *json && (text = lines_make(true, -1, &length))) {
        lines_put(json, text, length);
        free(text);
    }
}
