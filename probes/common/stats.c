#include "stats.h"

#include <math.h>
#include <stdlib.h>

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void hopbyte_samples_sort(double *samples, long count) {
    qsort(samples, (size_t)count, sizeof *samples, rising);
}

/* P(at most k of n fair coins show heads). */
static double binomial_tail(int n, int k) {
    double sum = 0;
    for (int i = 0; i <= k; i++)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) - n * log(2));
    return sum;
}

void hopbyte_summary_make(double *samples, int count, struct hopbyte_summary *summary) {
    *summary = (struct hopbyte_summary){count, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (count == 0)
        return;
    hopbyte_samples_sort(samples, count);
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += samples[i];
    int cut = 0; /* the interval leaves out `cut` samples at each end */
    while (2 * (cut + 2) <= count && 1 - 2 * binomial_tail(count, cut + 1) >= 0.95)
        cut++;
    summary->least = samples[0];
    summary->most = samples[count - 1];
    summary->mean = sum / count;
    summary->median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    summary->low = samples[cut];
    summary->high = samples[count - 1 - cut];
    summary->confidence = count == 1 ? 0 : 1 - 2 * binomial_tail(count, cut);
}

double hopbyte_percentile(const double *samples, long count, double percent) {
    if (count == 0)
        return NAN;
    long place = (long)ceil(percent / 100 * (double)count) - 1;
    return samples[place < 0 ? 0 : place >= count ? count - 1 : place];
}

double hopbyte_jain(const double *figures, int count) {
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        sum += figures[i];
        squares += figures[i] * figures[i];
    }
    return squares > 0 ? sum * sum / (count * squares) : NAN;
}
