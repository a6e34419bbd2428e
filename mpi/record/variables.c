/* The counts so far as performance variables (../common/pvars.h), and variables of the MPI library in the record. */
#include "record.h"

#include "../common/pvars.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* --- offered: read by libhopbyte_mpit --- */

enum { MESSAGES, BYTES, COLLECTIVES, COLLECTIVE_BYTES, ONE_SIDED, ONE_SIDED_BYTES, CALLS, SECONDS, OFFERED };

static const struct hopbyte_pvar offered[OFFERED] = {
    {"hopbyte_record_messages", "Messages of this process's sends to any rank", HOPBYTE_PVAR_COUNTER, false},
    {"hopbyte_record_bytes", "Bytes of this process's sends to any rank", HOPBYTE_PVAR_AGGREGATE, false},
    {"hopbyte_record_collectives", "Collective calls of this process", HOPBYTE_PVAR_COUNTER, false},
    {"hopbyte_record_collective_bytes", "Bytes that this process gave to collective calls, as in the record",
     HOPBYTE_PVAR_AGGREGATE, false},
    {"hopbyte_record_one_sided", "One-sided operations of this process", HOPBYTE_PVAR_COUNTER, false},
    {"hopbyte_record_one_sided_bytes", "Bytes that one-sided operations of this process moved, both ways",
     HOPBYTE_PVAR_AGGREGATE, false},
    {"hopbyte_record_mpi_calls", "Timed MPI calls of this process", HOPBYTE_PVAR_COUNTER, false},
    {"hopbyte_record_mpi_seconds", "Seconds in timed MPI calls, summed over the threads of this process",
     HOPBYTE_PVAR_TIMER, true},
};

static int offered_count(void)
{
    return OFFERED;
}

static const struct hopbyte_pvar *offered_at(int index)
{
    return &offered[index];
}

static bool offered_read(int index, struct hopbyte_pvar_value *value)
{
    struct hopbyte_totals totals = {0};
    if (index < CALLS) {
        hopbyte_totals_read(&totals);
        const uint64_t counts[] = {totals.messages,         totals.bytes,     totals.collectives,
                                   totals.collective_bytes, totals.one_sided, totals.one_sided_bytes};
        value->count = counts[index];
        return true;
    }
    uint64_t calls = 0, ticks = 0;
    for (int i = 0; hopbyte_call_times && i < hopbyte_call_count; i++) {
        calls += __atomic_load_n(&hopbyte_call_times[i].calls, __ATOMIC_RELAXED);
        ticks += __atomic_load_n(&hopbyte_call_times[i].ticks, __ATOMIC_RELAXED);
    }
    if (index == CALLS)
        value->count = calls;
    else
        value->seconds = ticks ? (double)ticks * hopbyte_tick_seconds() : 0;
    return true;
}

HOPBYTE_PVARS_DEFINE(record, "Messages, collective calls and time in MPI of this process (libhopbyte_record)",
                     offered_count, offered_at, offered_read);

/* --- recorded: HOPBYTE_RECORD_PVARS --- */

enum { RECORDED_MOST = 256, VALUES_MOST = 4096, NAME_ROOM = 256 };

struct recorded {
    char name[NAME_ROOM];
    int class, count;
    MPI_Datatype type;
    MPI_T_pvar_handle handle;
};
static struct recorded *recorded;
static int recorded_count;
static MPI_T_pvar_session session;
static char *absent; /* lines `nopvar NAME REASON` */
static char *lines;  /* all, when the job ends */

static const char *class_word(int class)
{
    static const struct {
        int class;
        const char *word;
    } words[] = {{MPI_T_PVAR_CLASS_STATE, "state"},
                 {MPI_T_PVAR_CLASS_LEVEL, "level"},
                 {MPI_T_PVAR_CLASS_SIZE, "size"},
                 {MPI_T_PVAR_CLASS_PERCENTAGE, "percentage"},
                 {MPI_T_PVAR_CLASS_HIGHWATERMARK, "highest"},
                 {MPI_T_PVAR_CLASS_LOWWATERMARK, "lowest"},
                 {MPI_T_PVAR_CLASS_COUNTER, "counter"},
                 {MPI_T_PVAR_CLASS_AGGREGATE, "aggregate"},
                 {MPI_T_PVAR_CLASS_TIMER, "timer"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].class == class)
            return words[i].word;
    return "generic";
}

static void refuse(const char *name, const char *reason)
{
    char *more = NULL, *before = absent ? absent : "";
    if (hopbyte_recorder.rank == 0)
        hopbyte_say("HOPBYTE_RECORD_PVARS: %s: %s", name, reason);
    if (asprintf(&more, "%snopvar\t%s\t%s\n", before, name, reason) < 0)
        return;
    free(absent);
    absent = more;
}

/* Size of a value; 0 for a type that MPI_T does not have. */
static int type_bytes(MPI_Datatype type)
{
    int size = 0;
    if (type == MPI_DATATYPE_NULL || NEXT(Type_size)(type, &size) != MPI_SUCCESS)
        return 0;
    return size == 1 || size == 4 || size == 8 ? size : 0;
}

/* Whether a variable was recorded; a reason that it cannot be is noted. */
static void variable_take(int index, const char *name, int class, MPI_Datatype type, int bind, int continuous)
{
    struct recorded *r = &recorded[recorded_count];
    static MPI_Comm world; /* its address must outlive the handle */
    world = MPI_COMM_WORLD;
    if (recorded_count == RECORDED_MOST) {
        refuse(name, "at most 256 variables are recorded");
        return;
    }
    if (bind != MPI_T_BIND_NO_OBJECT && bind != MPI_T_BIND_MPI_COMM) {
        refuse(name, "it belongs to single objects (files, windows, requests), not to the process");
        return;
    }
    if (!type_bytes(type)) {
        refuse(name, "the MPI library gives it no number type");
        return;
    }
    *r = (struct recorded){.class = class, .type = type};
    snprintf(r->name, sizeof r->name, "%s", name);
    int rc = NEXT(T_pvar_handle_alloc)(session, index, bind == MPI_T_BIND_NO_OBJECT ? NULL : (void *)&world, &r->handle,
                                       &r->count);
    if (rc == MPI_SUCCESS && (r->count < 1 || r->count > VALUES_MOST)) {
        NEXT(T_pvar_handle_free)(session, &r->handle);
        refuse(name, "it has no values, or more than 4096");
        return;
    }
    if (rc == MPI_SUCCESS && !continuous)
        rc = NEXT(T_pvar_start)(session, r->handle);
    if (rc == MPI_SUCCESS)
        recorded_count++;
    else
        refuse(name, "the MPI library refuses a handle for it");
}

/* Takes every variable that matches a word of the list. */
static void word_take(const char *word, int variables)
{
    bool found = false;
    for (int i = 0; i < variables; i++) {
        char name[NAME_ROOM];
        int room = sizeof name, none = 0, verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum values;
        /* Numbers of variables that were withdrawn give an error. */
        if (NEXT(T_pvar_get_info)(i, name, &room, &verbosity, &class, &type, &values, NULL, &none, &bind, &readonly,
                                  &continuous, &atomic) != MPI_SUCCESS ||
            fnmatch(word, name, 0) != 0)
            continue;
        found = true;
        variable_take(i, name, class, type, bind, continuous);
    }
    char reason[160];
    snprintf(reason, sizeof reason, "found no variable of this name among the %d of this MPI library", variables);
    if (!found)
        refuse(word, reason);
}

void hopbyte_variables_begin(void)
{
    const char *names = getenv("HOPBYTE_RECORD_PVARS");
    int provided, variables = 0;
    if (!names || !*names)
        return;
    char *copy = strdup(names), *rest;
    recorded = calloc(RECORDED_MOST + 1, sizeof *recorded);
    bool fine = copy && recorded && NEXT(T_init_thread)(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS;
    fine = fine && NEXT(T_pvar_session_create)(&session) == MPI_SUCCESS &&
           NEXT(T_pvar_get_num)(&variables) == MPI_SUCCESS;
    for (char *word = copy ? strtok_r(copy, ", \t\n", &rest) : NULL; word; word = strtok_r(NULL, ", \t\n", &rest)) {
        if (fine)
            word_take(word, variables);
        else
            refuse(word, "the MPI library's tool interface cannot be started");
    }
    free(copy);
}

static void value_write(FILE *out, const struct recorded *r, const void *values, int i)
{
    int bytes = type_bytes(r->type);
    const char *at = (const char *)values + (size_t)i * (size_t)bytes;
    if (i)
        fputc(',', out);
    if (r->type == MPI_DOUBLE) {
        double value;
        memcpy(&value, at, sizeof value);
        fprintf(out, "%.9g", value);
    } else if (bytes == 8) {
        uint64_t value;
        memcpy(&value, at, sizeof value);
        fprintf(out, r->type == MPI_COUNT ? "%" PRId64 : "%" PRIu64, value);
    } else if (bytes == 4) {
        int32_t value;
        memcpy(&value, at, sizeof value);
        fprintf(out, "%" PRId64, r->type == MPI_UNSIGNED ? (int64_t)(uint32_t)value : (int64_t)value);
    } else {
        fprintf(out, "%d", *at);
    }
}

void hopbyte_variables_read(void)
{
    uint64_t *values = recorded_count ? calloc(VALUES_MOST, sizeof *values) : NULL;
    size_t size = 0;
    FILE *out = recorded ? open_memstream(&lines, &size) : NULL;
    if (!out) {
        free(values);
        return;
    }
    for (int i = 0; values && i < recorded_count; i++) {
        struct recorded *r = &recorded[i];
        if (NEXT(T_pvar_read)(session, r->handle, values) != MPI_SUCCESS) {
            fprintf(out, "nopvar\t%s\tthe MPI library gave no value at the end\n", r->name);
            continue;
        }
        fprintf(out, "pvar\t%s\t%s\t", r->name, class_word(r->class));
        for (int k = 0; k < r->count; k++)
            value_write(out, r, values, k);
        fputc('\n', out);
    }
    if (absent)
        fputs(absent, out);
    fclose(out);
    free(values);
}

char *hopbyte_variables_text(void)
{
    char *text = lines;
    lines = NULL;
    return text;
}

/* Before MPI_Finalize, which some libraries do not survive with open handles. */
void hopbyte_variables_end(void)
{
    if (!recorded)
        return;
    for (int i = 0; i < recorded_count; i++)
        NEXT(T_pvar_handle_free)(session, &recorded[i].handle);
    if (session)
        NEXT(T_pvar_session_free)(&session);
    NEXT(T_finalize)();
    free(recorded);
    recorded = NULL;
    recorded_count = 0;
}
