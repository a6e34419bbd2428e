//! Medians and their confidence intervals.

/// Median; 0 for an empty slice.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n => 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]),
    }
}

/// The value that a quarter of the values reach or exceed, never the maximum of three or more; 0 if empty. Sorts them.
pub fn upper_quartile(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n => values[n - 1 - (n / 4).max(usize::from(n > 2))],
    }
}

/// The interval between the k-th lowest and the k-th highest value holds the median with this confidence
/// for any distribution; the narrowest of at least 95 %, or the widest possible.
pub fn median_interval(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return (0.0, 0.0, 0.0);
    }
    let (mut tail, mut term, mut best) = (0.0, 0.5f64.powi(n as i32), (0, 0.0));
    for k in 0..n.div_ceil(2) {
        tail += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        let confidence = 1.0 - 2.0 * tail;
        if k == 0 || confidence >= 0.95 {
            best = (k, confidence.max(0.0));
        }
    }
    (sorted[best.0], sorted[n - 1 - best.0], best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        assert_eq!(upper_quartile(&mut []), 0.0);
        assert_eq!(upper_quartile(&mut [7.0]), 7.0);
        assert_eq!(upper_quartile(&mut [7.0, 9.0, 8.0]), 8.0);
        // Two of five trials disturbed, then four of five: only the latter is slow.
        assert_eq!(upper_quartile(&mut [9.0, 1.0, 9.0, 2.0, 10.0]), 9.0);
        assert_eq!(upper_quartile(&mut [1.0, 1.0, 9.0, 2.0, 1.0]), 2.0);
    }

    #[test]
    fn intervals_of_medians() {
        // Of ten values the second and the ninth: 1 - 2 * (1 + 10) / 1024.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let (low, high, confidence) = median_interval(&values);
        assert_eq!((low, high), (2.0, 9.0));
        assert!((confidence - (1.0 - 22.0 / 1024.0)).abs() < 1e-12);
        // Of three only their range, at 75 %.
        assert_eq!(median_interval(&[3.0, 1.0, 2.0]), (1.0, 3.0, 0.75));
    }
}
