//! Rates of InfiniBand links: widths and signalling speeds.

use crate::units::BytesPerSecond;

/// Signalling speeds by the names of `ibnetdiscover`, with the data rate of four lanes in bytes per second
/// (InfiniBand Architecture Specification 1, 5.6 and 5.11: 8b/10b coding up to QDR, 64b/66b from FDR10 on; from EDR
/// on the names refer to the data rate).
pub const SPEEDS: [(&str, f64); 9] = [
    ("SDR", 1e9),
    ("DDR", 2e9),
    ("QDR", 4e9),
    ("FDR10", 5e9),
    ("FDR", 56.25e9 * 64.0 / 66.0 / 8.0),
    ("EDR", 12.5e9),
    ("HDR", 25e9),
    ("NDR", 50e9),
    ("XDR", 100e9),
];

/// Numbers of lanes of a link; the most common first.
pub const WIDTHS: [u8; 5] = [4, 1, 2, 8, 12];

/// Data rate each way of a number of lanes at a speed of [`SPEEDS`].
pub fn capacity(width: u8, speed: usize) -> BytesPerSecond {
    BytesPerSecond(SPEEDS[speed].1 * f64::from(width) / 4.0)
}

/// The rate nearest to a capacity, as in `4xEDR`, and its capacity. Of equal ones the rate with `lanes` lanes, if they
/// are known, else that of four lanes.
pub fn nearest(of: BytesPerSecond, lanes: Option<u8>) -> (String, BytesPerSecond) {
    let mut best = (f64::INFINITY, WIDTHS[0], 0);
    let known = lanes.filter(|l| WIDTHS.contains(l));
    for width in known.into_iter().chain(WIDTHS) {
        for speed in 0..SPEEDS.len() {
            let far = (of.0 / capacity(width, speed).0).ln().abs();
            // Far above the rounding of equal capacities.
            if far < best.0 - 1e-9 {
                best = (far, width, speed);
            }
        }
    }
    let (_, width, speed) = best;
    let name = format!("{width}x{}", SPEEDS[speed].0);
    (name, capacity(width, speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_the_nearest_to_itself() {
        for width in WIDTHS {
            for (speed, (name, _)) in SPEEDS.iter().enumerate() {
                let (found, rate) = nearest(capacity(width, speed), Some(width));
                assert_eq!(found, format!("{width}x{name}"));
                assert_eq!(rate, capacity(width, speed));
            }
        }
    }

    #[test]
    fn four_lanes_are_taken_where_nothing_is_known() {
        for (gb, name) in [
            (12.5, "4xEDR"),
            (50.0, "4xNDR"),
            (12.0, "12xQDR"),
            (150.0, "12xNDR"),
            (0.25, "1xSDR"),
            (13.0, "4xEDR"),
        ] {
            assert_eq!(nearest(BytesPerSecond::from_gb(gb), None).0, name);
        }
        let half = |lanes| nearest(BytesPerSecond::from_gb(12.5), lanes).0;
        assert_eq!([half(Some(2)), half(Some(24))], ["2xHDR", "4xEDR"]);
    }
}
