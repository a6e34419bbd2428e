/* libhopbyte and an oracle that is slow, wrong, cut off or restarted: a fake oracle on a Unix socket, whose snapshot
 * versions count the requests. An answer is to the request that was made, or there is none, and the handle goes on.
 *   slow SOCKET */
#include <hopbyte.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #what, hopbyte_error_text());            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Behaviour of the fake oracle at one request. */
enum way {
    PROMPT,    /* answers */
    LATE,      /* answers after the timeout */
    DRIP,      /* a byte at a time, the whole after the timeout */
    HALF,      /* half an answer, then the end of the connection */
    GARBAGE,   /* a line that is no answer, then goes on */
    OLD,       /* an answer without a number, then goes on */
    OTHER,     /* an answer to another request, then goes on */
    ENDS,      /* answers, then ends the connection: a restart between two requests */
    MUTE,      /* ends the connection without an answer */
    TWICE      /* answers twice: the next request gets an error, not the second answer */
};

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock: the ways of the requests, PROMPT after the last, and the number of requests so far. */
static const enum way *script;
static size_t script_length;
static unsigned long requests;

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static enum way next(unsigned long *number) {
    pthread_mutex_lock(&lock);
    *number = ++requests;
    enum way way = *number <= script_length ? script[*number - 1] : PROMPT;
    pthread_mutex_unlock(&lock);
    return way;
}

static void begin(const enum way *ways, size_t length) {
    pthread_mutex_lock(&lock);
    script = ways;
    script_length = length;
    requests = 0;
    pthread_mutex_unlock(&lock);
}

static void put(int to, const char *text, size_t length) {
    /* The client may have closed the connection: that is its right. */
    if (send(to, text, length, MSG_NOSIGNAL) < 0)
        return;
}

/* False: ends the connection. */
static int answer(int to, const char *line) {
    unsigned long number;
    enum way way = next(&number);
    const char *id = strstr(line, "\"id\":");
    unsigned long long asked = id ? strtoull(id + 5, NULL, 10) : 0;
    char text[160];
    int length = snprintf(text, sizeof text, "{\"id\":%llu,\"version\":%lu}\n", way == OTHER ? asked - 1 : asked, number);
    if (way == OLD)
        length = snprintf(text, sizeof text, "{\"version\":%lu}\n", number);
    if (way == GARBAGE)
        length = snprintf(text, sizeof text, "[\"version\"%lu\n", number);
    if (way == MUTE)
        return 0;
    if (way == LATE)
        pause_ms(600);
    if (way == DRIP) {
        for (int i = 0; i < length; i++, pause_ms(60))
            put(to, text + i, 1);
        return 1;
    }
    put(to, text, way == HALF ? (size_t)length / 2 : (size_t)length);
    if (way == TWICE)
        put(to, text, (size_t)length);
    return way != HALF && way != ENDS;
}

static void *converse(void *of) {
    int from = (int)(size_t)of;
    char line[4096];
    size_t length = 0;
    while (length < sizeof line - 1 && recv(from, line + length, 1, 0) == 1)
        if (line[length++] == '\n') {
            line[length] = 0;
            length = 0;
            if (!answer(from, line))
                break;
        }
    close(from);
    return NULL;
}

static void *serve(void *of) {
    int listener = (int)(size_t)of, client;
    while ((client = accept(listener, NULL, NULL)) >= 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, converse, (void *)(size_t)client) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

static int listen_start(pthread_t *thread) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(address.sun_path);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 16) == 0);
    CHECK(pthread_create(thread, NULL, serve, (void *)(size_t)listener) == 0);
    return listener;
}

static void listen_end(int listener, pthread_t thread) {
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    unlink(address.sun_path);
}

static unsigned long asked(void) {
    pthread_mutex_lock(&lock);
    unsigned long number = requests;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Every way once, each followed by a request that is answered. */
static void every_way(const hopbyte_machine *machine) {
    static const enum way ways[] = {PROMPT, LATE,   PROMPT, DRIP,   PROMPT, HALF, PROMPT, GARBAGE, PROMPT, OLD,
                                    PROMPT, OTHER,  PROMPT, ENDS,   PROMPT, MUTE, PROMPT, TWICE,   PROMPT, PROMPT};
    const size_t length = sizeof ways / sizeof *ways;
    begin(ways, length);
    pthread_t thread;
    int listener = listen_start(&thread);
    hopbyte_oracle *oracle = hopbyte_oracle_connect(machine, address.sun_path);
    CHECK(oracle);
    CHECK(hopbyte_oracle_set_timeout(oracle, 0) == HOPBYTE_BAD_INPUT);
    CHECK(hopbyte_oracle_set_timeout(oracle, -1) == HOPBYTE_BAD_INPUT && strstr(hopbyte_error_text(), "seconds above 0"));
    CHECK(hopbyte_oracle_set_timeout(NULL, 1) == HOPBYTE_BAD_INPUT);
    CHECK(hopbyte_oracle_set_timeout(oracle, 0.3) == HOPBYTE_OK);
    for (size_t i = 0; asked() < length && i < 4 * length; i++) {
        uint64_t version = 0;
        unsigned long before = asked();
        enum way way = ways[before];
        hopbyte_status status = hopbyte_oracle_refresh(oracle, &version, NULL);
        unsigned long after = asked();
        int stale = before > 0 && ways[before - 1] == TWICE;
        int answers = !stale && (way == PROMPT || way == ENDS || way == TWICE);
        if (answers || (way == MUTE && status == HOPBYTE_OK))
            /* A connection that ends before an answer is tried once more. */
            CHECK(status == HOPBYTE_OK && version == after);
        else
            CHECK(status != HOPBYTE_OK && version == 0 && *hopbyte_error_text());
        pause_ms(way == LATE ? 700 : 20); /* the late answer is there before the next question */
    }
    CHECK(asked() >= length);
    hopbyte_oracle_close(oracle);
    listen_end(listener, thread);
}

/* The oracle is away for a while: an error meanwhile, then answers from the new one. */
static void restarted(const hopbyte_machine *machine) {
    begin(NULL, 0);
    pthread_t thread;
    int listener = listen_start(&thread);
    hopbyte_oracle *oracle = hopbyte_oracle_connect(machine, address.sun_path);
    uint64_t version = 0;
    CHECK(oracle && hopbyte_oracle_refresh(oracle, &version, NULL) == HOPBYTE_OK && version == asked());
    listen_end(listener, thread);
    hopbyte_oracle_set_timeout(oracle, 0.3);
    /* The old connection's thread still answers; cut it by a request that ends it. */
    static const enum way end[] = {ENDS};
    begin(end, 1);
    CHECK(hopbyte_oracle_refresh(oracle, &version, NULL) == HOPBYTE_OK);
    pause_ms(50);
    CHECK(hopbyte_oracle_refresh(oracle, &version, NULL) == HOPBYTE_ENVIRONMENT);
    CHECK(strstr(hopbyte_error_text(), "oracle serve"));
    listener = listen_start(&thread);
    CHECK(hopbyte_oracle_refresh(oracle, &version, NULL) == HOPBYTE_OK && version == asked());
    hopbyte_oracle_close(oracle);
    listen_end(listener, thread);
}

struct sharer {
    hopbyte_oracle *oracle;
    unsigned long failed;
};

static void *ask_often(void *of) {
    struct sharer *sharer = of;
    for (int i = 0; i < 50; i++) {
        uint64_t version = 0;
        if (hopbyte_oracle_refresh(sharer->oracle, &version, NULL) != HOPBYTE_OK || version == 0)
            sharer->failed++;
    }
    return NULL;
}

/* Threads share a handle while the oracle ends every third connection. */
static void shared(const hopbyte_machine *machine) {
    static enum way ways[200];
    for (size_t i = 0; i < 200; i++)
        ways[i] = i % 3 == 2 ? ENDS : PROMPT;
    begin(ways, 200);
    pthread_t thread, threads[4];
    int listener = listen_start(&thread);
    struct sharer sharers[4];
    hopbyte_oracle *oracle = hopbyte_oracle_connect(machine, address.sun_path);
    for (int i = 0; i < 4; i++) {
        sharers[i] = (struct sharer){oracle, 0};
        CHECK(pthread_create(&threads[i], NULL, ask_often, &sharers[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK(sharers[i].failed == 0);
    }
    hopbyte_oracle_close(oracle);
    listen_end(listener, thread);
}

int main(int argc, char **argv) {
    if (argc < 2 || strlen(argv[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, argv[1]);
    hopbyte_machine *machine = hopbyte_machine_open("torus:4x4", NULL);
    CHECK(machine);
    every_way(machine);
    restarted(machine);
    shared(machine);
    hopbyte_machine_close(machine);
    puts("slow: every answer was to its question");
    return 0;
}
