#include "world.h"

#include "report.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { LARGEST_FILE = 64000000 };

static struct hopbyte_world *world_open;
static char deadline_message[512];

void hopbyte_world_open(struct hopbyte_world *world, int *argc, char ***argv, int threads, const char *program) {
    MPI_Init_thread(argc, argv, threads, &world->threads);
    world->comm = MPI_COMM_WORLD;
    world->program = program;
    MPI_Comm_rank(world->comm, &world->rank);
    MPI_Comm_size(world->comm, &world->size);
    char processor[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    MPI_Get_processor_name(processor, &length);
    const char *given = getenv("HOPBYTE_NODE");
    snprintf(world->node, sizeof world->node, "%.*s", HOPBYTE_NAME_ROOM - 1, given && *given ? given : processor);
    world_open = world;
}

int hopbyte_world_close(int code) {
    hopbyte_deadline_set(60, "MPI_Finalize");
    MPI_Finalize();
    hopbyte_deadline_set(0, "");
    return code;
}

static void say(const char *who, const char *format, va_list arguments) {
    char text[2048];
    int used = snprintf(text, sizeof text, "%s: ", who);
    vsnprintf(text + used, sizeof text - (size_t)used - 1, format, arguments);
    strcat(text, "\n");
    fflush(stdout);
    fputs(text, stderr); /* one call, so that lines of several ranks do not mix */
    fflush(stderr);
}

void hopbyte_world_say(const char *format, ...) {
    if (world_open->rank != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    say(world_open->program, format, arguments);
    va_end(arguments);
}

void hopbyte_world_refuse(int code, const char *format, ...) {
    if (world_open->rank == 0) {
        va_list arguments;
        va_start(arguments, format);
        say(world_open->program, format, arguments);
        va_end(arguments);
    }
    exit(hopbyte_world_close(code));
}

void hopbyte_world_abort(int code, const char *format, ...) {
    char who[HOPBYTE_NAME_ROOM + 64];
    snprintf(who, sizeof who, "%s: rank %d on %s", world_open->program, world_open->rank, world_open->node);
    va_list arguments;
    va_start(arguments, format);
    say(who, format, arguments);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

static void deadline_pass(int signal_number) {
    (void)signal_number;
    ssize_t written = write(STDERR_FILENO, deadline_message, strlen(deadline_message));
    (void)written;
    _exit(HOPBYTE_LACKING); /* the launcher ends the others; MPI_Abort may wait for a lock that this thread holds */
}

void hopbyte_deadline_set(double seconds, const char *doing) {
    struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
    struct itimerval off = {0};
    setitimer(ITIMER_REAL, &off, NULL);
    if (seconds <= 0)
        return;
    snprintf(deadline_message, sizeof deadline_message, "%s: rank %d on %s: no end after %g s of %s\n",
             world_open->program, world_open->rank, world_open->node, seconds, doing);
    struct sigaction action = {.sa_handler = deadline_pass};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void hopbyte_mpi_name(char *name, size_t room) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n,")] = '\0';
    char *to = text;
    for (const char *at = text; *at; at++) { /* blanks and tabs become one blank */
        bool blank = *at == ' ' || *at == '\t';
        if (!blank || (to > text && to[-1] != ' '))
            *to++ = blank ? ' ' : *at;
    }
    *to = '\0';
    snprintf(name, room, "%s", text);
}

void hopbyte_world_header(const struct hopbyte_world *world, const char *schema, const char *what, bool json) {
    char name[160], *nodes = hopbyte_memory((size_t)world->size * HOPBYTE_NAME_ROOM, "node names");
    hopbyte_mpi_name(name, sizeof name);
    MPI_Gather(world->node, HOPBYTE_NAME_ROOM, MPI_CHAR, nodes, HOPBYTE_NAME_ROOM, MPI_CHAR, 0, world->comm);
    if (world->rank == 0 && json) {
        printf("{\"schema\":\"%s\",\"run\":{\"probe\":", schema);
        hopbyte_json_string(stdout, what);
        fputs(",\"mpi\":", stdout);
        hopbyte_json_string(stdout, name);
        printf(",\"ranks\":%d,\"nodes\":[", world->size);
        for (int i = 0; i < world->size; i++) {
            fputs(i ? "," : "", stdout);
            hopbyte_json_string(stdout, nodes + (size_t)i * HOPBYTE_NAME_ROOM);
        }
        puts("]}}");
    } else if (world->rank == 0) {
        printf("# %s%s%s, %s, %d ranks, rank 0 on %s, last on %s\n", world->program,
               strcmp(world->program, what) ? " " : "", strcmp(world->program, what) ? what : "", name, world->size,
               nodes, nodes + (size_t)(world->size - 1) * HOPBYTE_NAME_ROOM);
    }
    fflush(stdout);
    free(nodes);
}

void *hopbyte_memory(size_t bytes, const char *what) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        hopbyte_world_abort(HOPBYTE_LACKING, "no memory: %.1f MB for %s", (double)bytes / 1e6, what);
    return memory;
}

void *hopbyte_room_make(void *array, int count, int *room, size_t size) {
    if (count < *room)
        return array;
    *room = *room ? 2 * *room : 64;
    void *larger = realloc(array, (size_t)*room * size);
    if (!larger)
        hopbyte_world_abort(HOPBYTE_LACKING, "no memory: %.1f MB", (double)*room * (double)size / 1e6);
    return larger;
}

/* The file's text and its length, or a negative errno. */
static long file_read(const char *path, char **text) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return -errno;
    size_t room = 1 << 16, used = 0;
    *text = hopbyte_memory(room, path);
    for (size_t got; (got = fread(*text + used, 1, room - used - 1, file)) > 0;) {
        used += got;
        if (used > LARGEST_FILE)
            break;
        if (room - used < room / 2) {
            char *larger = realloc(*text, room *= 2);
            if (!larger)
                hopbyte_world_abort(HOPBYTE_LACKING, "no memory: %.1f MB for %s", (double)room / 1e6, path);
            *text = larger;
        }
    }
    int failed = ferror(file) ? errno : 0;
    fclose(file);
    (*text)[used] = '\0';
    if (used > LARGEST_FILE)
        return -EFBIG;
    return failed ? -failed : memchr(*text, '\0', used) ? -EILSEQ : (long)used;
}

char *hopbyte_file_try(const char *path, const char **reason) {
    char *text = NULL;
    long length = world_open->rank == 0 ? file_read(path, &text) : 0;
    MPI_Bcast(&length, 1, MPI_LONG, 0, world_open->comm);
    if (length < 0) {
        *reason = length == -EILSEQ ? "holds a zero byte; expected text" : strerror((int)-length);
        free(text);
        return NULL;
    }
    if (world_open->rank != 0)
        text = hopbyte_memory((size_t)length + 1, path);
    MPI_Bcast(text, (int)length + 1, MPI_CHAR, 0, world_open->comm);
    return text;
}

char *hopbyte_file_share(const char *path) {
    const char *reason;
    char *text = hopbyte_file_try(path, &reason);
    if (!text)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s: %s", path, reason);
    return text;
}
