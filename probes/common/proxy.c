#include "proxy.h"

#include "wait.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char hopbyte_proxy_schema[] = "hopbyte-proxy-1";

enum { OPTIONS_MOST = 32 };

void hopbyte_proxy_open(struct hopbyte_proxy *proxy, int argc, char **argv, const char *program, const char *what,
                        const struct hopbyte_option *own) {
    const struct hopbyte_option common[] = {
        {"grid", HOPBYTE_TRIPLE, &proxy->grid, 1, NULL, "blocks along X, Y, Z, one per rank (near a cube)", 0},
        {"periodic", HOPBYTE_FLAG, &proxy->periodic, 0, NULL, "close the grid to a torus", 0},
        {"map", HOPBYTE_TEXT, &proxy->map, 0, NULL, "file of lines RANK BLOCK (rank r has block r)", 0},
        {"traffic", HOPBYTE_TEXT, &proxy->traffic, 0, NULL, "file for the messages of one exchange, CSV", 0},
        {"deadline", HOPBYTE_REAL, &proxy->deadline, 0, NULL, "seconds without progress, 0 for no limit (300)", 0},
        {"nap", HOPBYTE_COUNT, &hopbyte_nap_us, 0, NULL, "microseconds to sleep between polls for messages (0: poll)",
         0},
        {"json", HOPBYTE_FLAG, &proxy->json, 0, NULL, "JSON lines", 0},
    };
    struct hopbyte_option all[OPTIONS_MOST] = {{0}};
    char problem[512];
    int count = sizeof common / sizeof *common;
    memcpy(all, common, sizeof common);
    hopbyte_options_pick(own, ~0u, all + count, OPTIONS_MOST - count);
    memset(proxy, 0, sizeof *proxy);
    proxy->deadline = 300;
    proxy->threads = 1;
    /* Before MPI starts, because the level of thread support depends on them. */
    int read = hopbyte_options_read(all, argc, argv, 1, problem, sizeof problem);
    hopbyte_world_open(&proxy->world, &argc, &argv, proxy->threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                       program);
    if (read < 0)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s", problem);
    if (read > 0) {
        if (proxy->world.rank == 0) {
            printf("usage: mpiexec … %s [options]\n\n%s\n\n", program, what);
            hopbyte_options_help(all);
        }
        exit(hopbyte_world_close(HOPBYTE_DONE));
    }
    if (proxy->threads > 1 && proxy->world.threads < MPI_THREAD_MULTIPLE)
        hopbyte_world_refuse(HOPBYTE_LACKING, "this MPI gives thread level %d, not MPI_THREAD_MULTIPLE",
                             proxy->world.threads);
    hopbyte_deadline_set(proxy->deadline, "setting up");
}

void hopbyte_proxy_record(const struct hopbyte_proxy *proxy, struct hopbyte_record *record, const char *kind) {
    hopbyte_record_open(record, hopbyte_proxy_schema);
    hopbyte_record_text(record, "proxy", proxy->world.program, NULL);
    hopbyte_record_text(record, "record", kind, NULL);
    hopbyte_record_whole(record, "ranks", proxy->world.size, NULL);
}

void hopbyte_proxy_print(const struct hopbyte_proxy *proxy, const struct hopbyte_record *record) {
    if (proxy->world.rank != 0)
        return;
    if (proxy->json) {
        hopbyte_record_json(record, stdout);
        return;
    }
    printf("%s:", record->fields[1].text);
    for (int i = 2; i < record->count; i++) {
        const struct hopbyte_field *f = &record->fields[i];
        if (f->kind == HOPBYTE_FIELD_NUMBER)
            printf(" %s %.6g", f->name, f->number);
        else if (f->kind == HOPBYTE_FIELD_WHOLE)
            printf(" %s %lld", f->name, f->whole);
        else
            printf(" %s %s", f->name, f->text);
    }
    putchar('\n');
    fflush(stdout);
}

int hopbyte_proxy_close(struct hopbyte_proxy *proxy, struct hopbyte_record *record, long long wrong, int code) {
    long long all = 0;
    hopbyte_wait_allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, proxy->world.comm);
    hopbyte_record_whole(record, "wrong_values", all, NULL);
    hopbyte_record_raw(record, "verified", all ? "false" : "true");
    hopbyte_proxy_print(proxy, record);
    if (all)
        hopbyte_world_say("%lld values are wrong: a message was lost, damaged or misplaced", all);
    return hopbyte_world_close(all ? HOPBYTE_NO : code);
}

void hopbyte_proxy_threads(struct hopbyte_proxy *proxy, struct hopbyte_record *record, int transport,
                           long long checksum) {
    static const char *const words[] = {"messages", "notified"};
    long long all = 0;
    hopbyte_wait_allreduce(&checksum, &all, 1, MPI_LONG_LONG, MPI_SUM, proxy->world.comm);
    hopbyte_record_whole(record, "threads", proxy->threads, NULL);
    hopbyte_record_text(record, "transport", words[transport], NULL);
    hopbyte_record_whole(record, "checksum", all, NULL);
}

double hopbyte_proxy_slowest(const struct hopbyte_proxy *proxy, double mine) {
    double slowest;
    hopbyte_wait_allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, proxy->world.comm);
    return slowest;
}
