/* Output of topobw: the lines and the summary of paper 002, Fig. 6, or a JSON line per trial and a summary. */
#ifndef HOPBYTE_OUTPUT_H
#define HOPBYTE_OUTPUT_H

#include "plan.h"
#include "run.h"

struct hopbyte_totals;
struct hopbyte_totals *hopbyte_totals_open(void);
void hopbyte_totals_close(struct hopbyte_totals *totals);

/* Prints transfer `index` of phase `phase` from the seconds of its trials, and adds it to the totals. */
void hopbyte_transfer_print(const struct hopbyte_plan *plan, int phase, int index, const double *seconds,
                            const struct hopbyte_settings *settings, struct hopbyte_totals *totals);
void hopbyte_totals_print(const struct hopbyte_totals *totals, const struct hopbyte_settings *settings);

#endif
