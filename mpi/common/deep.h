/* Deep interposition, the base of every hopbyte preload library.
 *
 * A plain PMPI tool defines MPI_X and calls PMPI_X. It misses Fortran, because the Fortran layers of today's
 * libraries call PMPI_X themselves. A hopbyte library defines both names and reaches the library's own function as
 * the *next* PMPI_X, so C, `use mpi` and `use mpi_f08` all pass through it once. A per-thread depth counter
 * identifies calls that the MPI library makes internally while serving the application.
 *
 * Nothing here links an MPI library: every function and every predefined object is looked up in the process, so a
 * library preloaded into mpiexec, a shell or a program without MPI does nothing. */
#ifndef HOPBYTE_DEEP_H
#define HOPBYTE_DEEP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#if defined(HOPBYTE_FLAVOUR_ABI)
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(HOPBYTE_FLAVOUR_OMPI) && !defined(HOPBYTE_FLAVOUR_MPICH) && !defined(HOPBYTE_FLAVOUR_ABI)
#error "define HOPBYTE_FLAVOUR_OMPI, HOPBYTE_FLAVOUR_MPICH or HOPBYTE_FLAVOUR_ABI"
#endif

/* Depth of MPI calls in this thread; 0 means the application itself is calling. */
extern _Thread_local int hopbyte_depth;

/* Name of the tool in messages ("record", "reorder", "gm"), set by each library. */
extern const char hopbyte_tool[];

/* Address of the next definition of a function after this library. Ends the process with a message when the MPI
 * library in use lacks it, or when it is of another flavour than this file was compiled for. */
void *hopbyte_next_find(const char *name);

/* Whether the MPI library in use has a function; false without an MPI library. */
bool hopbyte_next_has(const char *name);

/* Address of a data object of the MPI library (the copy the program itself uses). */
void *hopbyte_data_find(const char *name);

/* Checks that the MPI library in the process, if any, is of this flavour; otherwise ends the process with status 3
 * and a message. */
void hopbyte_flavour_check(void);

/* Prints one line `hopbyte TOOL: …` on standard error, whole even when many ranks print at once. */
void hopbyte_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Value of an environment variable as a whole number, or `fallback` when unset; prints a message and uses the
 * fallback when it is not a number or is below `least`. */
long hopbyte_env_number(const char *name, long fallback, long least);

/* Reads this host's name (its UTS name, which a namespace can change). */
void hopbyte_host_read(char *name, size_t room);

#define HOPBYTE_FOUND(finder, type, symbol)                                                                            \
    __extension__({                                                                                                    \
        static void *found_;                                                                                           \
        void *here_ = __atomic_load_n(&found_, __ATOMIC_RELAXED);                                                      \
        if (__builtin_expect(!here_, 0)) {                                                                             \
            here_ = finder(symbol);                                                                                    \
            __atomic_store_n(&found_, here_, __ATOMIC_RELAXED);                                                        \
        }                                                                                                              \
        (type) here_;                                                                                                  \
    })

/* The next PMPI function, as a pointer of the right type: NEXT(Comm_rank)(comm, &rank). NEXT_AS: of another prefix. */
#define NEXT(name) NEXT_AS(MPI, name)
#define NEXT_AS(prefix, name)                                                                                          \
    HOPBYTE_FOUND(hopbyte_next_find, __typeof__(&P##prefix##_##name), "P" #prefix "_" #name)

/* A pointer to the next PMPI function that finds it at the first call: HOPBYTE_STRAIGHT_CALL(name)(…) compiles to one jump
 * where NEXT(name)(…) has to save the arguments for the case that it looks the function up. */
#define HOPBYTE_STRAIGHT(ret, prefix, name, params, arguments)                                                         \
    static ret hopbyte_##name##_find params;                                                                           \
    static __typeof__(&hopbyte_##name##_find) hopbyte_##name##_next = hopbyte_##name##_find;                           \
    __attribute__((noinline, cold)) static ret hopbyte_##name##_find params                                            \
    {                                                                                                                  \
        __typeof__(&hopbyte_##name##_find) found_ = NEXT_AS(prefix, name);                                             \
        __atomic_store_n(&hopbyte_##name##_next, found_, __ATOMIC_RELAXED);                                            \
        return found_ arguments;                                                                                       \
    }
#define HOPBYTE_STRAIGHT_CALL(name) __atomic_load_n(&hopbyte_##name##_next, __ATOMIC_RELAXED)

/* Defines MPI_name and PMPI_name at once. */
#define HOPBYTE_DEFINE(ret, name, params) HOPBYTE_DEFINE_AS(ret, MPI, name, params)
#define HOPBYTE_DEFINE_AS(ret, prefix, name, params)                                                                   \
    ret prefix##_##name params __attribute__((alias("P" #prefix "_" #name), visibility("default")));                   \
    __attribute__((visibility("default"))) ret P##prefix##_##name params

/* The same for a function that the MPI library may lack. Programs test for it with a weak reference (mpi4py does), so
 * its address is looked up when a reference to it is bound, and is null where the library has no such function. */
#define HOPBYTE_DEFINE_NEWER(ret, prefix, name, params)                                                                \
    static ret prefix##_##name##_here params;                                                                          \
    HOPBYTE_EARLY static __typeof__(&prefix##_##name##_here) prefix##_##name##_bind(void)                              \
    {                                                                                                                  \
        return hopbyte_next_has("P" #prefix "_" #name) ? prefix##_##name##_here : NULL;                                \
    }                                                                                                                  \
    ret prefix##_##name params __attribute__((ifunc(#prefix "_" #name "_bind"), visibility("default")));               \
    ret P##prefix##_##name params __attribute__((ifunc(#prefix "_" #name "_bind"), visibility("default")));            \
    static ret prefix##_##name##_here params

/* Runs while the program is being loaded, before the sanitizers have started. */
#define HOPBYTE_EARLY __attribute__((used, no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))

/* Functions of MPI 4 that are called here, and the handle of a session in Open MPI, for headers of MPI 3. */
#if MPI_VERSION < 4
#if defined(HOPBYTE_FLAVOUR_OMPI)
typedef struct ompi_instance_t *MPI_Session;
#else
typedef int MPI_Session;
#endif
int MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session);
int PMPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session);
int MPI_Session_finalize(MPI_Session *session);
int PMPI_Session_finalize(MPI_Session *session);
int MPI_Group_from_session_pset(MPI_Session session, const char *pset_name, MPI_Group *newgroup);
int PMPI_Group_from_session_pset(MPI_Session session, const char *pset_name, MPI_Group *newgroup);
#endif

/* Predefined objects that are addresses of data in the MPI library must be looked up, not linked: a program may load
 * its MPI after this library (Python does), and one without MPI must still start. */
#if defined(HOPBYTE_FLAVOUR_OMPI)
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) HOPBYTE_FOUND(hopbyte_data_find, type, #global)
#endif
#if defined(HOPBYTE_FLAVOUR_MPICH)
#define MPI_UNWEIGHTED (*HOPBYTE_FOUND(hopbyte_data_find, int *const *, "MPI_UNWEIGHTED"))
#define MPI_WEIGHTS_EMPTY (*HOPBYTE_FOUND(hopbyte_data_find, int *const *, "MPI_WEIGHTS_EMPTY"))
#define MPI_T_PVAR_ALL_HANDLES                                                                                         \
    (*HOPBYTE_FOUND(hopbyte_data_find, MPI_T_pvar_handle const *, "MPI_T_PVAR_ALL_HANDLES"))
#endif

#endif
