/* Start and end of the record, and MPI calls that need more than counting. */
#include "record.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char hopbyte_tool[] = "record";

struct hopbyte_recorder hopbyte_recorder = {.generation = 1};

static struct {
    pid_t process; /* process that called init: a forked child must not write the file again */
    MPI_Group world;
    bool begun, ended, ipm;
    int sessions; /* open sessions */
    bool sessions_used;
} state;

/* A forked child shares the counts' memory and must not touch it. */
static void record_leave(void)
{
    state.ended = true;
    hopbyte_recorder.on = hopbyte_recorder.begun = false;
    hopbyte_table_leave();
    hopbyte_phases_leave();
    hopbyte_trace_leave();
    hopbyte_file_leave();
}

static void record_begin(MPI_Group world, bool spawned)
{
    const char *style = getenv("HOPBYTE_RECORD_PCONTROL");
    state.world = world;
    state.begun = true;
    state.process = getpid();
    state.ipm = style && strcmp(style, "ipm") == 0;
    int threads;
    hopbyte_threaded = NEXT(Query_thread)(&threads) != MPI_SUCCESS || threads == MPI_THREAD_MULTIPLE;
    hopbyte_groups_init(world);
    hopbyte_file_init(spawned);
    if (!hopbyte_table_init() || !hopbyte_times_init() || !hopbyte_phases_init() || !hopbyte_trace_init()) {
        hopbyte_say("out of memory at the start (rank %d); nothing is recorded", hopbyte_recorder.rank);
        state.ended = true;
        return;
    }
    hopbyte_cause_watch();
    hopbyte_variables_begin();
    hopbyte_recorder.begun = true;
    pthread_atfork(NULL, NULL, record_leave);
    __atomic_store_n(&hopbyte_recorder.on, true, __ATOMIC_RELAXED);
}

static void record_begin_world(void)
{
    if (state.begun)
        return;
    MPI_Group world;
    MPI_Comm parent = MPI_COMM_NULL;
    hopbyte_depth++;
    NEXT(Comm_get_parent)(&parent);
    NEXT(Comm_group)(MPI_COMM_WORLD, &world);
    record_begin(world, parent != MPI_COMM_NULL);
    hopbyte_depth--;
}

static void record_end(const char *ended)
{
    if (!state.begun || state.ended || state.process != getpid())
        return;
    state.ended = true;
    hopbyte_recorder.begun = false;
    __atomic_store_n(&hopbyte_recorder.on, false, __ATOMIC_RELAXED);
    if (strcmp(ended, "exit") != 0)
        hopbyte_variables_read();
    hopbyte_lock();
    hopbyte_trace_write(ended);
    hopbyte_file_finish(ended);
    hopbyte_unlock();
}

/* The sends of a program that exits without MPI_Finalize are recorded too. */
__attribute__((destructor)) static void record_end_at_exit(void)
{
    record_end(state.sessions_used && state.sessions == 0 ? "finalize" : "exit");
}

HOPBYTE_DEFINE(int, Init, (int *argc, char ***argv))
{
    hopbyte_depth++;
    hopbyte_cause_before();
    int rc = NEXT(Init)(argc, argv);
    hopbyte_depth--;
    if (rc == MPI_SUCCESS && !hopbyte_depth)
        record_begin_world();
    return rc;
}

HOPBYTE_DEFINE(int, Init_thread, (int *argc, char ***argv, int required, int *provided))
{
    hopbyte_depth++;
    hopbyte_cause_before();
    int rc = NEXT(Init_thread)(argc, argv, required, provided);
    hopbyte_depth--;
    if (rc == MPI_SUCCESS && !hopbyte_depth)
        record_begin_world();
    return rc;
}

HOPBYTE_DEFINE(int, Finalize, (void))
{
    hopbyte_depth++;
    record_end("finalize");
    hopbyte_variables_end();
    if (state.begun)
        NEXT(Group_free)(&state.world);
    int rc = NEXT(Finalize)();
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Abort, (MPI_Comm comm, int errorcode))
{
    if (!hopbyte_depth)
        record_end("abort");
    return NEXT(Abort)(comm, errorcode);
}

/* Programs that never call MPI_Init: the world is the process set of that name, of the first session. */
HOPBYTE_DEFINE_NEWER(int, MPI, Session_init, (MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session))
{
    hopbyte_depth++;
    if (!state.begun)
        hopbyte_cause_before();
    int rc = NEXT(Session_init)(info, errhandler, session), started = 0;
    MPI_Group world;
    NEXT(Initialized)(&started);
    if (rc == MPI_SUCCESS && hopbyte_depth == 1 && !state.begun && !started &&
        NEXT(Group_from_session_pset)(*session, "mpi://WORLD", &world) == MPI_SUCCESS)
        record_begin(world, false);
    if (rc == MPI_SUCCESS && hopbyte_depth == 1) {
        state.sessions++;
        state.sessions_used |= !started;
    }
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE_NEWER(int, MPI, Session_finalize, (MPI_Session * session))
{
    hopbyte_depth++;
    int rc = NEXT(Session_finalize)(session);
    hopbyte_depth--;
    if (rc == MPI_SUCCESS && !hopbyte_depth)
        state.sessions--;
    return rc;
}

HOPBYTE_DEFINE(int, Pcontrol, (const int level, ...))
{
    const char *name = NULL;
    if (state.ipm && (level == 1 || level == -1)) {
        va_list list;
        va_start(list, level);
        name = va_arg(list, const char *);
        va_end(list);
    }
    if (state.begun && !state.ended && !hopbyte_depth)
        hopbyte_phases_control(level, name);
    return NEXT(Pcontrol)(level, name);
}

static void starts_time(uint64_t begun, int call)
{
    uint64_t ended = hopbyte_clock();
    hopbyte_call_count_time(call, begun, ended);
    if (hopbyte_tracing())
        hopbyte_trace_time(begun, ended);
}

/* Before the call: waits of other threads for consequences of its messages may be in the trace before it returns. */
static void starts_count(int count, MPI_Request *requests)
{
    if (hopbyte_tracing())
        hopbyte_trace_now();
    for (int i = 0; i < count; i++) {
        if (hopbyte_tracing())
            hopbyte_trace_requested(&requests[i]);
        hopbyte_persistent_start(requests[i]);
        if (!hopbyte_tracing())
            continue;
        hopbyte_trace_requested(NULL);
        hopbyte_trace_start(requests[i]);
    }
}

HOPBYTE_DEFINE(int, Start, (MPI_Request * request))
{
    bool here = !hopbyte_depth && hopbyte_recording();
    hopbyte_depth++;
    if (here)
        starts_count(1, request);
    uint64_t begun = hopbyte_clock();
    if (here)
        hopbyte_call_begin(CALL_START, begun);
    int rc = NEXT(Start)(request);
    if (here)
        starts_time(begun, CALL_START);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Startall, (int count, MPI_Request requests[]))
{
    bool here = !hopbyte_depth && hopbyte_recording();
    hopbyte_depth++;
    if (here)
        starts_count(count, requests);
    uint64_t begun = hopbyte_clock();
    if (here)
        hopbyte_call_begin(CALL_STARTALL, begun);
    int rc = NEXT(Startall)(count, requests);
    if (here)
        starts_time(begun, CALL_STARTALL);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Request_free, (MPI_Request * request))
{
    if (!hopbyte_depth && request && state.begun) {
        hopbyte_persistent_free(*request);
        if (hopbyte_tracing())
            hopbyte_trace_free(*request);
    }
    hopbyte_depth++;
    int rc = NEXT(Request_free)(request);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Cancel, (MPI_Request * request))
{
    bool here = !hopbyte_depth && request && state.begun && hopbyte_tracing();
    hopbyte_depth++;
    int rc = NEXT(Cancel)(request);
    if (here && rc == MPI_SUCCESS)
        hopbyte_trace_cancel(*request);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Comm_free, (MPI_Comm * comm))
{
    if (!hopbyte_depth && comm && state.begun)
        hopbyte_comm_forget(*comm);
    hopbyte_depth++;
    int rc = NEXT(Comm_free)(comm);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Comm_disconnect, (MPI_Comm * comm))
{
    if (!hopbyte_depth && comm && state.begun)
        hopbyte_comm_forget(*comm);
    hopbyte_depth++;
    int rc = NEXT(Comm_disconnect)(comm);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Win_free, (MPI_Win * win))
{
    if (!hopbyte_depth && win && state.begun)
        hopbyte_window_forget(*win);
    hopbyte_depth++;
    int rc = NEXT(Win_free)(win);
    hopbyte_depth--;
    return rc;
}

HOPBYTE_DEFINE(int, Type_free, (MPI_Datatype * type))
{
    if (!hopbyte_depth)
        hopbyte_type_forget();
    hopbyte_depth++;
    int rc = NEXT(Type_free)(type);
    hopbyte_depth--;
    return rc;
}
