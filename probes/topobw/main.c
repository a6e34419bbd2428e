/* topobw: bandwidth of every link, to find slow ones. Paper 002, III. */
#include "options.h"
#include "plan.h"
#include "run.h"

#include <limits.h>
#include <stdlib.h>

struct choices {
    const char *coords, *schedule;
    bool tournament, ranks, partial, plan;
    int mode;
};

static void help_print(const struct hopbyte_option *options) {
    puts(
        "usage: mpiexec … topobw --coords FILE|env | --schedule FILE | --tournament [options]\n\n"
        "Measures every directed link between neighbouring nodes of the job, some at a time, so that no router sends\n"
        "and receives at once (phases of paper 002, Fig. 5). Receivers keep the time; receives are posted before\n"
        "anything is sent. Prints a line a transfer,\n\n"
        "  c0-0c0s5n1 X+CE c0-0c1s5n1 (nid00011 to nid00053): 5.0454 seconds = 5945.98 MB/sec\n\n"
        "with dimension, sign, kind (Cable, Mezzanine, Backplane, same Gemini, …) and whether the link was used\n"
        "Exclusively or Shared with the node's partner; then least, most and average of every dimension. MB = 10^6.\n");
    hopbyte_options_help(options);
}

static void plan_make(struct hopbyte_plan *plan, const struct hopbyte_world *world, const struct choices *c) {
    int sources = !!c->coords + !!c->schedule + c->tournament;
    if (sources != 1)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "found %d of --coords, --schedule, --tournament; expected one",
                             sources);
    if (c->coords)
        hopbyte_plan_grid(plan, world, c->coords, (enum hopbyte_mode)c->mode, c->partial);
    else if (c->schedule)
        hopbyte_plan_schedule(plan, world, c->schedule);
    else
        hopbyte_plan_tournament(plan, world, c->ranks);
    if (plan->transfer_count == 0)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "nothing to measure: no two neighbouring nodes in this job");
}

static void plan_free(struct hopbyte_plan *plan) {
    for (int i = 0; i < plan->string_count; i++)
        free(plan->strings[i]);
    free(plan->strings);
    free(plan->nodes);
    free(plan->transfers);
    free(plan->phases);
}

int main(int argc, char **argv) {
    struct hopbyte_world world;
    hopbyte_world_open(&world, &argc, &argv, MPI_THREAD_SINGLE, "topobw");
    struct choices c = {0};
    struct hopbyte_settings s = {.bytes = 4000000, .window = 250, .trials = 5, .warmup = 1, .deadline = 120};
    const struct hopbyte_option options[] = {
        {"coords", HOPBYTE_TEXT, &c.coords, 0, NULL, "coordinates of the nodes: a file, or `env`", 0},
        {"schedule", HOPBYTE_TEXT, &c.schedule, 0, NULL, "phases and transfers from a file", 0},
        {"tournament", HOPBYTE_FLAG, &c.tournament, 0, NULL, "every ordered pair of nodes, round by round", 0},
        {"ranks", HOPBYTE_FLAG, &c.ranks, 0, NULL, "with --tournament: every rank is a node of its own", 0},
        {"mode", HOPBYTE_CHOICE, &c.mode, 0, "shared|exclusive|both",
         "all nodes of a router at once, one after the other, or both (shared)", 0},
        {"partial", HOPBYTE_FLAG, &c.partial, 0, NULL, "leave out links that end outside the job", 0},
        {"bytes", HOPBYTE_BYTES, &s.bytes, 1, NULL, "of a message (4MB)", 0},
        {"window", HOPBYTE_COUNT, &s.window, 1, NULL, "messages in flight, each with a receive buffer (250)", 0},
        {"trials", HOPBYTE_COUNT, &s.trials, 1, NULL, "timed repetitions of a phase (5)", 0},
        {"warmup", HOPBYTE_COUNT, &s.warmup, 0, NULL, "repetitions before them (1)", 0},
        {"deadline", HOPBYTE_REAL, &s.deadline, 0, NULL, "seconds a repetition may take, 0 for ever (120)", 0},
        {"nap", HOPBYTE_COUNT, &hopbyte_nap_us, 0, NULL, "microseconds to sleep between looks at messages (0: poll)",
         0},
        {"plan", HOPBYTE_FLAG, &c.plan, 0, NULL, "print the schedule instead of running it", 0},
        {"json", HOPBYTE_FLAG, &s.json, 0, NULL, "a JSON line a trial, the last one a summary", 0},
        {0}};
    char problem[512];
    int read = hopbyte_options_read(options, argc, argv, 1, problem, sizeof problem);
    if (read < 0)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s", problem);
    if (read > 0) {
        if (world.rank == 0)
            help_print(options);
        return hopbyte_world_close(HOPBYTE_DONE);
    }
    if (s.bytes > INT_MAX)
        hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "--bytes: found %zu, expected at most %d", s.bytes, INT_MAX);
    hopbyte_deadline_set(s.deadline, "reading the plan");
    struct hopbyte_plan plan = {0};
    plan_make(&plan, &world, &c);
    int code = HOPBYTE_DONE;
    if (!c.plan)
        code = hopbyte_plan_run(&plan, &world, &s);
    else if (world.rank == 0)
        hopbyte_plan_write(&plan, stdout);
    plan_free(&plan);
    return hopbyte_world_close(code);
}
