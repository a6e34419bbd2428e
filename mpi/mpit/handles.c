/* Sessions and handles. A handle of hopbyte's counts from its start, apart from all others. */
#include "mpit.h"

#include <stdlib.h>
#include <string.h>

enum { HANDLES = 1 << 14, SESSIONS = 1 << 10 };

/* The header of Open MPI 4.1 is of MPI 3.1, which has no better word. */
#if defined(HOPBYTE_FLAVOUR_ABI) || defined(MPI_T_ERR_NOT_ACCESSIBLE)
enum { MPIT_NO_VALUE = MPI_T_ERR_NOT_ACCESSIBLE };
#else
enum { MPIT_NO_VALUE = MPI_T_ERR_INVALID };
#endif

struct own {
    bool used, running, lost; /* lost: the variable had no value at some time, or a break, since the last reset */
    MPI_T_pvar_session session;
    struct hopbyte_mpit_entry entry;
    struct hopbyte_pvar_value sum, base; /* counted before the last start, and the variable at that start */
};
/* A handle's address says whose it is. */
static struct own handles[HANDLES];
static int handles_free_from;

static MPI_T_pvar_session sessions[SESSIONS];
static int session_count;

static int session_find(MPI_T_pvar_session session)
{
    for (int i = 0; i < session_count; i++)
        if (sessions[i] == session)
            return i;
    return -1;
}

static bool ours(MPI_T_pvar_handle handle)
{
    uintptr_t at = (uintptr_t)handle;
    return at >= (uintptr_t)handles && at < (uintptr_t)(handles + HANDLES);
}

/* The lock is held. */
static struct own *own_find(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    size_t at = ((uintptr_t)handle - (uintptr_t)handles) / sizeof *handles;
    struct own *own = &handles[at];
    return (uintptr_t)own == (uintptr_t)handle && own->used && own->session == session ? own : NULL;
}

static const struct hopbyte_pvar *variable_of(const struct own *own)
{
    return hopbyte_mpit_variable(own->entry);
}

static bool as_it_is(const struct own *own)
{
    enum hopbyte_pvar_class kind = variable_of(own)->kind;
    return kind == HOPBYTE_PVAR_LEVEL || kind == HOPBYTE_PVAR_HIGHEST;
}

static bool read_now(const struct own *own, struct hopbyte_pvar_value *now)
{
    *now = (struct hopbyte_pvar_value){.count = 0};
    return hopbyte_mpit_sets[own->entry.set]->read(own->entry.at, now);
}

/* Takes the increase since the last start or taking into the sum. */
static void own_take(struct own *own)
{
    struct hopbyte_pvar_value now;
    if (!own->running)
        return;
    if (!read_now(own, &now) || now.breaks != own->base.breaks) {
        own->lost = true;
        return;
    }
    if (variable_of(own)->real)
        own->sum.seconds += now.seconds - own->base.seconds;
    else
        own->sum.count += now.count - own->base.count;
    own->base = now;
}

static void own_start(struct own *own)
{
    if (own->running)
        return;
    own->running = true;
    own->lost |= !read_now(own, &own->base);
}

static void own_set(struct own *own, struct hopbyte_pvar_value value)
{
    own->sum = value;
    own->lost = own->running && !read_now(own, &own->base);
}

static int own_read(struct own *own, void *buffer)
{
    struct hopbyte_pvar_value value;
    if (as_it_is(own)) {
        if (!read_now(own, &value))
            return MPIT_NO_VALUE;
    } else {
        own_take(own);
        if (own->lost)
            return MPIT_NO_VALUE;
        value = own->sum;
    }
    if (variable_of(own)->real)
        memcpy(buffer, &value.seconds, sizeof value.seconds);
    else
        memcpy(buffer, &value.count, sizeof value.count);
    return MPI_SUCCESS;
}

HOPBYTE_DEFINE(int, T_pvar_session_create, (MPI_T_pvar_session * session))
{
    int rc = NEXT(T_pvar_session_create)(session);
    if (rc != MPI_SUCCESS)
        return rc;
    hopbyte_mpit_lock();
    if (session_count < SESSIONS)
        sessions[session_count++] = *session;
    else
        rc = MPI_T_ERR_OUT_OF_SESSIONS;
    hopbyte_mpit_unlock();
    if (rc != MPI_SUCCESS)
        NEXT(T_pvar_session_free)(session);
    return rc;
}

HOPBYTE_DEFINE(int, T_pvar_session_free, (MPI_T_pvar_session * session))
{
    MPI_T_pvar_session before = session ? *session : MPI_T_PVAR_SESSION_NULL;
    int rc = NEXT(T_pvar_session_free)(session);
    if (rc != MPI_SUCCESS)
        return rc;
    hopbyte_mpit_lock();
    int at = session_find(before);
    if (at >= 0) {
        sessions[at] = sessions[--session_count];
        for (int i = 0; i < handles_free_from; i++)
            if (handles[i].used && handles[i].session == before)
                handles[i].used = false;
    }
    hopbyte_mpit_unlock();
    return rc;
}

static int own_alloc(MPI_T_pvar_session session, struct hopbyte_mpit_entry entry, MPI_T_pvar_handle *handle)
{
    int at = 0;
    if (session_find(session) < 0)
        return MPI_T_ERR_INVALID_SESSION;
    while (at < handles_free_from && handles[at].used)
        at++;
    if (at == HANDLES)
        return MPI_T_ERR_OUT_OF_HANDLES;
    if (at == handles_free_from)
        handles_free_from++;
    handles[at] = (struct own){.used = true, .session = session, .entry = entry};
    *handle = (MPI_T_pvar_handle)&handles[at];
    return MPI_SUCCESS;
}

HOPBYTE_DEFINE(int, T_pvar_handle_alloc,
               (MPI_T_pvar_session session, int pvar_index, void *obj_handle, MPI_T_pvar_handle *handle, int *count))
{
    struct hopbyte_mpit_entry entry;
    int all, rc = NEXT(T_pvar_get_num)(&all);
    if (rc != MPI_SUCCESS)
        return rc;
    hopbyte_mpit_lock();
    rc = hopbyte_mpit_find(pvar_index, &entry) ? MPI_SUCCESS : MPI_T_ERR_INVALID_INDEX;
    if (rc == MPI_SUCCESS && entry.set >= 0 && (rc = own_alloc(session, entry, handle)) == MPI_SUCCESS)
        *count = 1;
    hopbyte_mpit_unlock();
    if (rc == MPI_SUCCESS && entry.set < 0)
        rc = NEXT(T_pvar_handle_alloc)(session, entry.at, obj_handle, handle, count);
    return rc;
}

HOPBYTE_DEFINE(int, T_pvar_handle_free, (MPI_T_pvar_session session, MPI_T_pvar_handle *handle))
{
    if (!handle || !ours(*handle))
        return NEXT(T_pvar_handle_free)(session, handle);
    hopbyte_mpit_lock();
    struct own *own = own_find(session, *handle);
    if (own) {
        own->used = false;
        *handle = MPI_T_PVAR_HANDLE_NULL;
    }
    hopbyte_mpit_unlock();
    return own ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

enum change { START, STOP, RESET };

static int own_change(struct own *own, enum change what)
{
    if (as_it_is(own))
        return what == RESET ? MPI_T_ERR_PVAR_NO_WRITE : MPI_T_ERR_PVAR_NO_STARTSTOP;
    if (what == START)
        own_start(own);
    if (what == RESET)
        own_set(own, (struct hopbyte_pvar_value){.count = 0});
    if (what == STOP) {
        own_take(own);
        own->running = false;
    }
    return MPI_SUCCESS;
}

/* MPI_T_PVAR_ALL_HANDLES leaves out those that cannot be changed. */
static void all_change(MPI_T_pvar_session session, enum change what)
{
    hopbyte_mpit_lock();
    for (int i = 0; i < handles_free_from; i++)
        if (handles[i].used && handles[i].session == session)
            own_change(&handles[i], what);
    hopbyte_mpit_unlock();
}

static int one_change(MPI_T_pvar_session session, MPI_T_pvar_handle handle, enum change what)
{
    hopbyte_mpit_lock();
    struct own *own = own_find(session, handle);
    int rc = own ? own_change(own, what) : MPI_T_ERR_INVALID_HANDLE;
    hopbyte_mpit_unlock();
    return rc;
}

/* libmpi_abi.so of MPICH 5.0.2, which has no variables, takes MPI_T_PVAR_ALL_HANDLES for an address. */
static bool theirs_exist(void)
{
    int count = 0;
    return NEXT(T_pvar_get_num)(&count) != MPI_SUCCESS || count > 0;
}

#define CHANGE(name, what)                                                                                             \
    HOPBYTE_DEFINE(int, name, (MPI_T_pvar_session session, MPI_T_pvar_handle handle))                                  \
    {                                                                                                                  \
        if (ours(handle))                                                                                              \
            return one_change(session, handle, what);                                                                  \
        bool all = handle == MPI_T_PVAR_ALL_HANDLES;                                                                   \
        int rc = all && !theirs_exist() ? MPI_SUCCESS : NEXT(name)(session, handle);                                   \
        if (all)                                                                                                       \
            all_change(session, what);                                                                                 \
        return rc;                                                                                                     \
    }
CHANGE(T_pvar_start, START)
CHANGE(T_pvar_stop, STOP)
CHANGE(T_pvar_reset, RESET)

HOPBYTE_DEFINE(int, T_pvar_read, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf))
{
    if (!ours(handle))
        return NEXT(T_pvar_read)(session, handle, buf);
    hopbyte_mpit_lock();
    struct own *own = own_find(session, handle);
    int rc = own ? own_read(own, buf) : MPI_T_ERR_INVALID_HANDLE;
    hopbyte_mpit_unlock();
    return rc;
}

HOPBYTE_DEFINE(int, T_pvar_readreset, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf))
{
    if (!ours(handle))
        return NEXT(T_pvar_readreset)(session, handle, buf);
    hopbyte_mpit_lock();
    struct own *own = own_find(session, handle);
    int rc = !own ? MPI_T_ERR_INVALID_HANDLE : as_it_is(own) ? MPI_T_ERR_PVAR_NO_WRITE : own_read(own, buf);
    if (rc == MPI_SUCCESS)
        /* What was read is gone, and what came since stays. */
        own->sum = (struct hopbyte_pvar_value){.count = 0};
    hopbyte_mpit_unlock();
    return rc;
}

HOPBYTE_DEFINE(int, T_pvar_write, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf))
{
    if (!ours(handle))
        return NEXT(T_pvar_write)(session, handle, buf);
    hopbyte_mpit_lock();
    struct own *own = own_find(session, handle);
    int rc = !own ? MPI_T_ERR_INVALID_HANDLE : as_it_is(own) ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS;
    if (rc == MPI_SUCCESS) {
        struct hopbyte_pvar_value value = {.count = 0};
        memcpy(&value.count, buf, sizeof value.count);
        own_set(own, value);
    }
    hopbyte_mpit_unlock();
    return rc;
}
