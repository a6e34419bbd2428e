/* hopbyte-disturb [--noise PERIOD:DURATION] [--memory SHARE] [--json FILE] -- COMMAND...: runs a command while every processor
 * is interrupted at regular times (paper 001, Figs. 4b and 5b), or beside streams that leave it a share of the memory bandwidth.
 * What is delivered is measured before the command starts; where that is not what was asked for, it is not started.
 * Needs no MPI: one per host, under any launcher, or in the lab. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, BAD_INPUT = 2, LACKING = 3, CPUS = 1024, TRIALS = 7, STEPS = 8 };
static const double TOLERANCE = 0.1;      /* of the noise asked for */
static const double NEAR = 0.05;          /* of the whole bandwidth */
static const double CYCLE = 1e-3;         /* of streams that run part of the time */
static const double SMALLEST = 5e-6;      /* duration: less is lost in waking up */
static const double LARGEST_SHARE = 0.9;  /* the kernel keeps 5 % from real-time threads */

struct request {
    double period, duration, memory; /* 0: not asked for */
    const char *json;
    char **command;
};

/* Noise of one processor. */
struct noise {
    pthread_t thread;
    int cpu, error;
    const struct request *asked;
    atomic_bool *stop;
    _Atomic long count, missed;
    _Atomic double busy, begun, ended;
};

struct stream {
    pthread_t thread;
    int cpu, error;
    double *data;
    size_t count;
    _Atomic double duty;
    atomic_bool *stop;
};

_Noreturn __attribute__((format(printf, 2, 3))) static void refuse(int code, const char *format, ...) {
    va_list words;
    va_start(words, format);
    fputs("hopbyte-disturb: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    exit(code);
}

static double clock_read(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_until(double when) {
    struct timespec at = {(time_t)when, (long)(1e9 * (when - floor(when)))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static int pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* Seconds of "10ms", "25us", "0.5s"; below zero if it is none. */
static double seconds_of(const char *text, char end) {
    char *rest;
    double value = strtod(text, &rest);
    double unit = strncmp(rest, "us", 2) == 0 ? 1e-6 : strncmp(rest, "ms", 2) == 0 ? 1e-3 : *rest == 's' ? 1 : 0;
    rest += unit > 0 && unit < 1 ? 2 : 1;
    return unit > 0 && rest > text && *rest == end && isfinite(value) ? value * unit : -1;
}

static void noise_parse(const char *text, struct request *request) {
    const char *colon = strchr(text, ':');
    request->period = colon ? seconds_of(text, ':') : -1;
    request->duration = colon ? seconds_of(colon + 1, 0) : -1;
    if (request->period <= 0 || request->duration <= 0)
        refuse(BAD_INPUT, "--noise: found '%s', expected PERIOD:DURATION such as 10ms:25us", text);
    if (request->period > 60)
        refuse(BAD_INPUT, "--noise: found a period of %g s, expected at most 60 s", request->period);
    if (request->duration < SMALLEST)
        refuse(BAD_INPUT, "--noise: found a duration of %g s, expected at least %g s", request->duration, SMALLEST);
    if (request->duration > LARGEST_SHARE * request->period)
        refuse(BAD_INPUT, "--noise: found %g s of every %g s, expected at most %g of the time", request->duration, request->period,
               LARGEST_SHARE);
}

static struct request parse(int argc, char **argv) {
    struct request request = {0};
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "--";
        if (strcmp(name, "--noise") != 0 && strcmp(name, "--memory") != 0 && strcmp(name, "--json") != 0)
            refuse(BAD_INPUT, "found '%s', expected --noise PERIOD:DURATION, --memory SHARE, --json FILE or --", name);
        if (strcmp(value, "--") == 0)
            refuse(BAD_INPUT, "%s: found no value behind it", name);
        if (strcmp(name, "--noise") == 0)
            noise_parse(value, &request);
        else if (strcmp(name, "--json") == 0)
            request.json = value;
        else {
            char *rest;
            request.memory = strtod(value, &rest);
            if (*rest || rest == value || !(request.memory > 0 && request.memory < 1))
                refuse(BAD_INPUT, "--memory: found '%s', expected a share above 0 and below 1", value);
        }
    }
    if (i + 1 >= argc)
        refuse(BAD_INPUT, "found no command, expected one behind --");
    if (request.period == 0 && request.memory == 0)
        refuse(BAD_INPUT, "found nothing to do, expected --noise or --memory");
    request.command = argv + i + 1;
    return request;
}

static int processors(const cpu_set_t *allowed, int *list) {
    int count = 0;
    for (int cpu = 0; cpu < CPUS; cpu++)
        if (CPU_ISSET(cpu, allowed))
            list[count++] = cpu;
    return count;
}

/* Spins for the duration at every multiple of the period. Its processor time is what it took from others. */
static void *noise_run(void *argument) {
    struct noise *own = argument;
    struct sched_param priority = {.sched_priority = 50};
    own->error = pin(own->cpu);
    if (!own->error)
        own->error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    if (own->error)
        return NULL;
    double period = own->asked->period, next = clock_read(CLOCK_MONOTONIC) + period;
    while (!atomic_load(own->stop)) {
        sleep_until(next);
        double begun = clock_read(CLOCK_MONOTONIC), used = clock_read(CLOCK_THREAD_CPUTIME_ID);
        if (own->count == 0)
            own->begun = begun;
        while (clock_read(CLOCK_MONOTONIC) - begun < own->asked->duration)
            ;
        own->busy = own->busy + clock_read(CLOCK_THREAD_CPUTIME_ID) - used; /* one writer */
        own->ended = clock_read(CLOCK_MONOTONIC);
        own->count++;
        for (next += period; next < own->ended; next += period)
            own->missed++;
    }
    return NULL;
}

struct delivered {
    double share, least, period;
    long count, missed;
};

/* Over all processors since the last look. */
static struct delivered noise_look(struct noise *all, int count) {
    struct delivered found = {.least = 1};
    for (int i = 0; i < count; i++) {
        double seconds = all[i].ended - all[i].begun + all[i].asked->period - all[i].asked->duration;
        double share = all[i].count ? all[i].busy / seconds : 0;
        found.share += share / count;
        found.least = share < found.least ? share : found.least;
        found.period += all[i].count ? seconds / (double)all[i].count / count : 0;
        found.count += all[i].count;
        found.missed += all[i].missed;
    }
    return found;
}

static bool noise_right(const struct request *asked, const struct delivered *found) {
    double share = asked->duration / asked->period;
    return fabs(found->share / share - 1) <= TOLERANCE && fabs(found->least / share - 1) <= TOLERANCE &&
           fabs(found->period / asked->period - 1) <= TOLERANCE;
}

static void noise_start(struct noise *all, const int *cpus, int count, const struct request *asked, atomic_bool *stop) {
    for (int i = 0; i < count; i++) {
        all[i] = (struct noise){.cpu = cpus[i], .asked = asked, .stop = stop};
        if (pthread_create(&all[i].thread, NULL, noise_run, &all[i]) != 0)
            refuse(LACKING, "--noise: no thread for processor %d", cpus[i]);
    }
    double wait = 20 * asked->period;
    usleep((useconds_t)(1e6 * (wait < 0.5 ? 0.5 : wait > 5 ? 5 : wait)));
    for (int i = 0; i < count; i++)
        if (all[i].error)
            refuse(LACKING, "--noise: processor %d refuses a real-time thread: %s; it takes root or CAP_SYS_NICE", all[i].cpu,
                   strerror(all[i].error));
    struct delivered found = noise_look(all, count);
    if (!noise_right(asked, &found))
        refuse(LACKING,
               "--noise: found %.3f %% of the time every %g ms (least processor %.3f %%), expected %.3f %% every %g ms within %g %%: "
               "the command was not started; longer periods and durations are easier to deliver",
               100 * found.share, 1e3 * found.period, 100 * found.least, 100 * asked->duration / asked->period, 1e3 * asked->period,
               100 * TOLERANCE);
}

/* Twice the last cache, and at least 64 MiB. */
static size_t stream_length(void) {
    long cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file) {
        cache = fscanf(file, "%ldK", &cache) == 1 ? cache << 10 : 0;
        fclose(file);
    }
#endif
    size_t bytes = cache > 32L << 20 ? 2 * (size_t)cache : 64UL << 20;
    return bytes / sizeof(double) / 2;
}

static void stream_pass(double *data, size_t count, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        data[i] = 0.5 * data[i + count] + 1;
    __asm__ volatile("" ::"r"(data) : "memory");
}

static void *stream_run(void *argument) {
    struct stream *own = argument;
    enum { BLOCK = 4096 };
    struct sched_param priority = {.sched_priority = 1};
    own->error = pin(own->cpu);
    /* Other work of this processor shall not interrupt the stream; without the right to it, the measurement tells. */
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    double cycle = clock_read(CLOCK_MONOTONIC);
    for (size_t at = 0; !own->error && !atomic_load(own->stop);) {
        double duty = own->duty, now = clock_read(CLOCK_MONOTONIC);
        if (now - cycle >= duty * CYCLE && duty < 1) {
            sleep_until(cycle + CYCLE > now ? cycle + CYCLE : now);
            cycle = clock_read(CLOCK_MONOTONIC);
            if (duty <= 0)
                continue;
        } else if (now - cycle >= CYCLE)
            cycle = now;
        stream_pass(own->data, own->count, at, at + BLOCK);
        at = at + 2 * BLOCK <= own->count ? at + BLOCK : 0;
    }
    return NULL;
}

static double *stream_memory(size_t count) {
    double *data = malloc(2 * count * sizeof *data);
    if (!data)
        refuse(LACKING, "--memory: no %zu MiB for a stream", (2 * count * sizeof *data) >> 20);
    for (size_t i = 0; i < 2 * count; i++)
        data[i] = (double)i;
    return data;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bandwidth of the calling thread for each second of its processor time: other work on its processor does not count. */
static double bandwidth(double *data, size_t count) {
    double begun = clock_read(CLOCK_THREAD_CPUTIME_ID);
    stream_pass(data, count, 0, count);
    return 3.0 * (double)count * sizeof *data / (clock_read(CLOCK_THREAD_CPUTIME_ID) - begun); /* a store reads its line too */
}

struct memory {
    struct stream *streams;
    double *data, alone, share, duty;
    size_t count;
    int running, processors, most;
};

static double pass_at(struct memory *memory, int running, double duty) {
    for (int i = 0; i < memory->most; i++)
        memory->streams[i].duty = i < running ? duty : 0;
    sleep_until(clock_read(CLOCK_MONOTONIC) + 5 * CYCLE);
    return bandwidth(memory->data, memory->count);
}

/* Median over trials of the share that streams leave, each compared with a pass without streams right before it, since other
 * work of the machine comes and goes. The streams go on. */
static double share_at(struct memory *memory, int running, double duty) {
    double shares[TRIALS], alone[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        alone[i] = pass_at(memory, 0, 0);
        shares[i] = pass_at(memory, running, duty) / alone[i];
    }
    qsort(shares, TRIALS, sizeof *shares, ascending);
    qsort(alone, TRIALS, sizeof *alone, ascending);
    memory->running = running;
    memory->duty = duty;
    memory->alone = alone[TRIALS / 2];
    memory->share = shares[TRIALS / 2];
    return memory->share;
}

/* Fewest streams, and the part of the time for which they run, that leave the share. */
static void memory_find(struct memory *memory, double asked, int most) {
    double least = 1;
    int running = 1;
    for (; running <= most; running++) {
        double share = share_at(memory, running, 1);
        least = share < least ? share : least;
        if (share <= asked + NEAR)
            break;
    }
    double low = 0, high = 1;
    for (int i = 0; running <= most && fabs(memory->share - asked) > NEAR / 2 && i < STEPS; i++) {
        double middle = (low + high) / 2;
        *(share_at(memory, running, middle) > asked ? &low : &high) = middle;
    }
    if (running > most || fabs(memory->share - asked) > NEAR)
        refuse(LACKING,
               "--memory: found a share of %.2f (least with %d streams: %.2f), expected %.2f within %.2f: the command was not started; "
               "streams run on half of the processors, and a processor alone may not fill the memory",
               memory->share, most, least, asked, NEAR);
}

/* Streams on the last half of the processors; the command gets the others. */
static void memory_start(struct memory *memory, const int *cpus, int count, double asked, atomic_bool *stop) {
    int most = count / 2;
    if (most == 0)
        refuse(LACKING, "--memory: found one processor, expected at least two: one for streams, one for the command");
    if (pin(cpus[0]) != 0)
        refuse(LACKING, "--memory: processor %d cannot be used", cpus[0]);
    memory->count = stream_length();
    memory->data = stream_memory(memory->count);
    memory->most = most;
    memory->streams = calloc((size_t)most, sizeof *memory->streams);
    if (!memory->streams)
        refuse(LACKING, "--memory: no memory for %d streams", most);
    for (int i = 0; i < most; i++) {
        struct stream *one = &memory->streams[i];
        *one = (struct stream){.cpu = cpus[count - 1 - i], .data = stream_memory(memory->count), .count = memory->count, .stop = stop};
        if (pthread_create(&one->thread, NULL, stream_run, one) != 0)
            refuse(LACKING, "--memory: no thread for processor %d", one->cpu);
    }
    memory_find(memory, asked, most);
    memory->processors = count - memory->running;
}

static int command_run(char **command, const int *cpus, int count) {
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (int i = 0; i < count; i++)
            CPU_SET(cpus[i], &set);
        sched_setaffinity(0, sizeof set, &set);
        execvp(command[0], command);
        fprintf(stderr, "hopbyte-disturb: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    if (child < 0)
        refuse(LACKING, "%s: %s", command[0], strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What was delivered while the command ran; false if it was not what was asked for. */
static bool report(const struct request *asked, const struct delivered *noise, const struct memory *memory, double after) {
    FILE *json = asked->json ? fopen(asked->json, "w") : NULL;
    bool right = true;
    if (asked->json && !json)
        refuse(BAD_INPUT, "--json: %s: %s", asked->json, strerror(errno));
    if (json)
        fprintf(json, "{\"schema\": \"hopbyte.disturb/1\"");
    if (asked->period > 0) {
        bool good = noise_right(asked, noise);
        fprintf(stderr, "hopbyte-disturb: noise: %.3f %% of every processor in %ld interruptions every %.3f ms, %ld missed; asked %.3f %% every %g ms%s\n",
                100 * noise->share, noise->count, 1e3 * noise->period, noise->missed, 100 * asked->duration / asked->period,
                1e3 * asked->period, good ? "" : ": NOT AS ASKED");
        if (json)
            fprintf(json, ", \"noise\": {\"asked_period_s\": %g, \"asked_duration_s\": %g, \"period_s\": %.9f, \"share\": %.6f, \"least_share\": %.6f, "
                    "\"interruptions\": %ld, \"missed\": %ld, \"as_asked\": %s}",
                    asked->period, asked->duration, noise->period, noise->share, noise->least, noise->count, noise->missed,
                    good ? "true" : "false");
        right &= good;
    }
    if (asked->memory > 0) {
        bool good = fabs(after - asked->memory) <= 2 * NEAR;
        fprintf(stderr, "hopbyte-disturb: memory: %.2f of %.2f GB/s before the command, %.2f after it, by %d streams for %.0f %% of the time; "
                "asked %.2f; the command had %d processors%s\n",
                memory->share, memory->alone / 1e9, after, memory->running, 100 * memory->duty, asked->memory, memory->processors,
                good ? "" : ": NOT AS ASKED");
        if (json)
            fprintf(json, ", \"memory\": {\"asked_share\": %g, \"share_before\": %.4f, \"share_after\": %.4f, \"alone_bytes_per_s\": %.0f, "
                    "\"streams\": %d, \"duty\": %.4f, \"processors\": %d, \"as_asked\": %s}",
                    asked->memory, memory->share, after, memory->alone, memory->running, memory->duty, memory->processors,
                    good ? "true" : "false");
        right &= good;
    }
    if (json && (fprintf(json, "}\n") < 0 || fclose(json) != 0))
        refuse(LACKING, "--json: %s: %s", asked->json, strerror(errno));
    return right;
}

int main(int argc, char **argv) {
    static struct noise noise[CPUS];
    static int cpus[CPUS];
    atomic_bool stop = false;
    struct memory memory = {0};
    struct delivered delivered = {0};
    struct request request = parse(argc, argv);
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        refuse(LACKING, "the list of processors: %s", strerror(errno));
    int count = processors(&allowed, cpus);
    if (request.memory > 0)
        memory_start(&memory, cpus, count, request.memory, &stop);
    if (request.period > 0)
        noise_start(noise, cpus, count, &request, &stop);
    int code = command_run(request.command, cpus, request.memory > 0 ? memory.processors : count);
    if (request.period > 0)
        delivered = noise_look(noise, count);
    /* The streams' share is measured without the noise. */
    double after = 0;
    if (request.memory > 0) {
        pin(cpus[0]);
        double before = memory.share;
        after = share_at(&memory, memory.running, memory.duty);
        memory.share = before;
    }
    stop = true;
    bool right = report(&request, &delivered, &memory, after);
    return code != 0 ? code : right ? DONE : LACKING;
}
