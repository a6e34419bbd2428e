//! Ticks of waiting whose length no description tells, as those of InfiniBand's adapters.
//!
//! A link that always has packets sends or waits, so that its ticks are those of the rest of the window. Where several adapters
//! that send differently much agree on such a tick, none has more, and a link carries a power of two of bytes in it, that is
//! its length.

use hopbyte_fabric::{Fabric, LinkId, LinkState};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Fewest adapters that agree on a tick, and the share by which they differ at most.
const AGREE: usize = 5;
const EQUAL: f64 = 0.03;
/// Least difference of their use.
const UNLIKE: f64 = 0.15;
/// Use from which the rest of the window is too short to tell.
const BUSY: f64 = 0.8;
/// Largest power of two of bytes in a tick.
const LONGEST: i32 = 8;

/// The state with the waiting of links that count it in ticks of an unknown length, where these can be told.
pub(super) fn with_adapters<'a>(fabric: &Fabric, state: Cow<'a, LinkState>) -> Cow<'a, LinkState> {
    let mut kinds: BTreeMap<u64, Vec<(LinkId, f64, f64)>> = BTreeMap::new();
    for node in fabric.node_ids() {
        let link = fabric.node(node).inject;
        let capacity = fabric.link(link).capacity().0;
        let window = state.window.get(link).or(state.window_seconds);
        let known = state
            .credit_stall_count
            .get(link)
            .zip(state.used_ratio.get(link))
            .zip(window);
        let is_new = state.credit_stall_ratio.get(link).is_none();
        if let Some(((ticks, used), window)) = known.filter(|_| is_new) {
            let bytes = ticks / window / capacity.max(f64::MIN_POSITIVE);
            kinds
                .entry(capacity.to_bits())
                .or_default()
                .push((link, bytes, used));
        }
    }
    let mut state = state;
    for links in kinds.values() {
        let Some(tick) = tick(links) else { continue };
        for &(link, ticks, used) in links {
            let waits = (ticks * tick).min((1.0 - used).max(0.0));
            state.to_mut().credit_stall_ratio.set(link, Some(waits));
        }
    }
    state
}

/// Bytes that a link carries in a tick; `links`: ticks for each byte that it could have carried in the window, and its use.
fn tick(links: &[(LinkId, f64, f64)]) -> Option<f64> {
    let rest = |&&(_, ticks, used): &&(LinkId, f64, f64)| used < BUSY && ticks > 0.0;
    let whole = |&(_, ticks, used): &(LinkId, f64, f64)| (ticks / (1.0 - used), used);
    let all: Vec<(f64, f64)> = links.iter().filter(rest).map(whole).collect();
    let most = all.iter().map(|l| l.0).fold(0.0, f64::max);
    let tick = (0..=LONGEST)
        .map(|n| f64::from(1 << n))
        .find(|t| (t * most - 1.0).abs() <= EQUAL)?;
    let agree = || {
        all.iter()
            .filter(|l| (tick * l.0 - 1.0).abs() <= EQUAL)
            .map(|l| l.1)
    };
    let (least, largest) = agree().fold((1.0, 0.0), |(a, b), u| (f64::min(a, u), f64::max(b, u)));
    (agree().count() >= AGREE && largest - least >= UNLIKE).then_some(tick)
}
