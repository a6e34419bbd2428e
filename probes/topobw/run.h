/* Runs the phases of a plan and reports them. */
#ifndef HOPBYTE_RUN_H
#define HOPBYTE_RUN_H

#include "plan.h"

struct hopbyte_settings {
    size_t bytes;    /* of a message */
    int window;      /* messages a transfer sends at once */
    int trials;      /* timed repetitions of a phase */
    int warmup;      /* repetitions before them */
    double deadline; /* seconds a repetition may take */
    bool json;
};

/* Returns HOPBYTE_DONE, or HOPBYTE_NO when a payload was wrong. */
int hopbyte_plan_run(const struct hopbyte_plan *plan, const struct hopbyte_world *world,
                     const struct hopbyte_settings *settings);

/* Letter of a kind as in Fig. 6: C, M, B, G for cable, mezzanine, backplane, same Gemini; the initial of the last word
 * of any other. */
char hopbyte_kind_letter(const char *kind);

#endif
