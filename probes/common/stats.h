/* Statistics of repeated measurements, without assuming a distribution. */
#ifndef HOPBYTE_STATS_H
#define HOPBYTE_STATS_H

/* Interval low…high covers the median of the underlying distribution with probability `confidence`, from order
 * statistics (binomial with one half): the tightest symmetric one that reaches 95 %, or min…max with its lower
 * confidence for fewer than six samples. */
struct hopbyte_summary {
    int samples;
    double least, most, mean, median, low, high, confidence;
};

/* Sorts the samples in place. With no samples every figure is NaN. */
void hopbyte_summary_make(double *samples, int count, struct hopbyte_summary *summary);

/* Sorts in rising order. */
void hopbyte_samples_sort(double *samples, long count);

/* The smallest sample with at least `percent` of all samples at or below it; samples sorted; NaN when none. */
double hopbyte_percentile(const double *samples, long count, double percent);

/* Jain's fairness index of positive figures: 1 all equal, 1/count one has all. */
double hopbyte_jain(const double *figures, int count);

#endif
