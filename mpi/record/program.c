/* The trace's file. It is written again every few seconds under a temporary name and renamed, so a rank that is killed
 * leaves what it did until shortly before. */
#include "trace.h"

#include "../common/numbers.h"
#include "../common/own.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define trace hopbyte_trace

struct writer {
    FILE *out;
    double tick;
};

static void event_write(void *context, const struct hopbyte_fold_node *node, const char *loop, bool end)
{
    struct writer *w = context;
    if (loop) {
        fprintf(w->out, "(\t%s\n", loop);
        return;
    }
    if (end) {
        fputs(")\n", w->out);
        return;
    }
    const struct hopbyte_fold_sums *s = &node->sums;
    double gap = s->gap * w->tick * 1e9 / (double)s->times, inside = s->inside * w->tick * 1e9 / (double)s->times;
    fprintf(w->out, "%" PRIu32, node->event);
    fprintf(w->out, gap || inside || s->most ? "\t%.4g" : "", gap);
    fprintf(w->out, inside || s->most ? "\t%.4g" : "", inside);
    fprintf(w->out, s->most ? "\t%.10g" : "", s->bytes / (double)s->times);
    fprintf(w->out, s->most != s->least ? "\t%.10g\t%.10g\n" : "\n", s->least, s->most);
}

static void sigs_write(FILE *out)
{
    static const char *const names[] = {"", "send", "receive", "wait", "collective", "row", "end", "cancel"};
    for (uint32_t i = 0; i < trace.count; i++) {
        const struct hopbyte_sig *s = &trace.sigs[i];
        const struct hopbyte_group *g = hopbyte_group_at(s->group);
        char group[20] = "-";
        if (g && (s->op == TRACE_SEND || s->op == TRACE_RECEIVE || s->op == TRACE_COLLECTIVE))
            snprintf(group, sizeof group, "%016" PRIx64, g->id);
        fprintf(out, "event\t%" PRIu32 "\t%s\t%u\t%s\t%d\t%d\t%d\t%s%s", i, names[s->op], s->phase, group, s->peer,
                s->tag, s->slot, s->kind & KIND_INTER ? "inter_" : "",
                s->op == TRACE_COLLECTIVE ? hopbyte_kind_names[s->kind & ~KIND_INTER] : "-");
        char how[40];
        hopbyte_how_text((uint64_t)s->how << HOW_SHIFT, how);
        if (s->comm || s->how)
            fprintf(out, "\t%u", s->comm);
        fprintf(out, "%s%s\n", s->how ? "\t" : "", how);
    }
}

/* Gives the trace its name; later ones replace it. */
static bool trace_name(const char *temporary, char *path, size_t room)
{
    if (trace.named)
        return rename(temporary, path) == 0;
    trace.named = hopbyte_own_name(temporary, path, room);
    return trace.named;
}

/* The lock is held. */
void hopbyte_trace_write(const char *ended)
{
    static char path[PATH_MAX + 32];
    static struct hopbyte_own temporary;
    if (!hopbyte_tracing())
        return;
    if (ended)
        hopbyte_trace_end();
    uint64_t untraced = __atomic_load_n(&trace.untraced, __ATOMIC_RELAXED);
    uint64_t threads = __atomic_load_n(&hopbyte_live->threads, __ATOMIC_RELAXED);
    if (!trace.named)
        snprintf(path, sizeof path, "%s.hbt", hopbyte_file_stem());
    snprintf(temporary.path, sizeof temporary.path, "%s.%ld.tmp", path, (long)getpid());
    bool open = hopbyte_own_open(&temporary, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    FILE *out = open ? hopbyte_own_stream(&temporary) : NULL;
    if (!out) {
        trace.cut = "its file cannot be written";
        return;
    }
    locale_t numbers = hopbyte_numbers_begin();
    fprintf(out, "# hopbyte-trace 1\nrank\t%d\nsize\t%d\nseconds\t%.6f\n", hopbyte_recorder.rank, hopbyte_recorder.size,
            hopbyte_seconds_now() - trace.started);
    hopbyte_library_write(out);
    for (int i = 0; i < hopbyte_phase_count(); i++)
        fprintf(out, "phase\t%d\t%s\n", i, hopbyte_phase_name(i));
    const struct hopbyte_group *g;
    for (int i = 0; (g = hopbyte_group_at((uint16_t)i)); i++) {
        hopbyte_group_write(out, g);
        fputc('\n', out);
    }
    sigs_write(out);
    fputs("program\n", out);
    struct writer w = {out, hopbyte_tick_seconds()};
    hopbyte_fold_walk(&trace.fold, event_write, &w);
    fprintf(out, "events\t%" PRIu64 "\n", trace.events);
    if (trace.rounded)
        fprintf(out, "rounded\t%" PRIu64 "\n", trace.rounded);
    if (untraced)
        fprintf(out, "untraced\t%" PRIu64 "\n", untraced);
    if (threads > 1)
        fprintf(out, "threads\t%" PRIu64 "\n", threads);
    if (trace.cut)
        fprintf(out, "cut\t%s\n", trace.cut);
    fprintf(out, "ended\t%s\n", ended ? ended : "running");
    hopbyte_numbers_end(numbers);
    bool bad = ferror(out);
    if ((fclose(out) != 0) | bad || !trace_name(temporary.path, path, sizeof path)) {
        unlink(temporary.path);
        trace.cut = "its file cannot be written";
        hopbyte_say("cannot write %s; the trace of rank %d ends here", path, hopbyte_recorder.rank);
    }
}
