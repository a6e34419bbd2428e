/* What the parts of the trace share: trace.c has its events, messages.c the requests and messages, program.c the file. */
#ifndef HOPBYTE_TRACE_H
#define HOPBYTE_TRACE_H

#include "fold.h"
#include "record.h"

/* What the executions of one event have in common. */
struct hopbyte_sig {
    uint8_t op, kind; /* kind: with KIND_INTER between two groups */
    uint16_t group, phase;
    uint8_t comm, how;           /* comm: number of the communicator among those of the group; how: HOW_BITS from 0 on */
    int32_t peer, tag, slot;     /* peer: world rank, or the root in the group */
};
enum { KIND_INTER = 0x80, HOW_SHIFT = 59 };

struct hopbyte_trace {
    struct hopbyte_fold fold;
    struct hopbyte_sig *sigs;
    uint32_t *index; /* open addressing: number of a sig plus 1 */
    uint32_t count, room;
    uint64_t *used; /* bits of slots */
    int used_words;
    uint64_t last_end; /* of all threads' calls; atomic */
    uint64_t next_look; /* tick at which the clock is looked at, for: */
    double next_write, write_seconds, started;
    uint64_t events, rounded, untraced; /* the last atomic */
    const char *cut;                    /* why no more is traced */
    bool over, named; /* named: its file has its name */
};
extern struct hopbyte_trace hopbyte_trace;

/* Adds an event. The lock is held in all of these. */
void hopbyte_event_add(struct hopbyte_sig sig, double bytes);
/* A number for a request under way; -1 without memory. */
int32_t hopbyte_slot_take(void);
void hopbyte_slot_give(int32_t slot);
/* The slot of a collective call that begins with this request: a new one for -1. */
int32_t hopbyte_request_begin(MPI_Request request, int32_t slot);

/* A call of a thread while others may call, too: if another thread adds an event before it ends, it becomes a begin in
 * front of that event, and where it ends a wait or, if it does not wait, a request. */
struct hopbyte_open {
    int count; /* messages; 0 for none */
    struct hopbyte_sig sigs[2];
    double bytes[2];
    const struct hopbyte_group *peers; /* of a receive from any source */
    struct hopbyte_sink items;         /* of a collective */
    double gap;
    bool told;
};
void hopbyte_open_begin(struct hopbyte_open call);
/* Ends this thread's open call: the call, if it has been told, otherwise NULL. */
struct hopbyte_open *hopbyte_open_end(void);

#endif
