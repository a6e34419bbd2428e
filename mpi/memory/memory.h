/* MPI_Alloc_mem and windows on the kind of memory and in the pages that the job asked for (paper 004, VI.A). */
#ifndef HOPBYTE_MEMORY_H
#define HOPBYTE_MEMORY_H

#include "../common/deep.h"
#include "../kinds/kinds.h"

enum memory_call { CALL_ALLOC_MEM, CALL_WIN_ALLOCATE, CALL_WIN_ALLOCATE_SHARED, CALL_INTERNAL, CALLS };
extern const char *const memory_call_names[CALLS];

struct memory_settings {
    struct mem_machine machine;
    struct mem_request alloc;
    bool asked;                    /* for anything but the library's own way */
    bool idle;                     /* read, and nothing is asked for */
    bool cray_policy;              /* the policy is Cray's variable: for kinds other than DDR and SYS_DEFAULT */
    struct mem_request internal;
    bool internal_asked;
    bool cray;                     /* this MPI applies Cray's variables itself */
    struct mem_error error;        /* of the environment */
};
extern struct memory_settings memory_settings;

/* --- settings.c --- */

/* Reads the environment once. */
void memory_settings_read(void);
/* The request of a call: the environment's, changed by the keys of `info`. */
bool memory_request(MPI_Info info, struct mem_request *request, size_t *align, struct mem_error *error);
/* Whether Cray's policy has no effect with this kind. */
bool memory_policy_void(const struct mem_request *request, bool by_cray);
uint64_t memory_settings_hash(const struct mem_request *request, uint64_t seed);

/* --- report.c --- */

void memory_note(enum memory_call call, const struct mem_request *request, uint64_t bytes,
                 const struct mem_delivered *delivered);
void memory_note_failed(enum memory_call call, const struct mem_request *request, uint64_t bytes);
/* Collective over the world. */
void memory_report(void);
void memory_report_own(void);
/* "HBM, Mandatory, pages of 2M". */
const char *memory_request_text(const struct mem_request *request, char *text, size_t room);

#endif
