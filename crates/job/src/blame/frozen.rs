//! Routers whose counters stand still while their neighbours count traffic to or from them.

use super::begin::ending_at;
use super::{LOADED, NAMED};
use hopbyte_fabric::units::count;
use hopbyte_fabric::{Column, Fabric, LinkId, LinkState, RouterId};
use std::borrow::Cow;

/// A state without the values of frozen routers, and these routers. Bytes sent by their neighbours count as received.
pub(super) fn without_frozen<'a>(
    fabric: &Fabric,
    state: &'a LinkState,
) -> (Cow<'a, LinkState>, Vec<RouterId>) {
    let is_frozen = |&r: &RouterId| stands_still(fabric, state, r);
    let frozen: Vec<RouterId> = fabric.router_ids().filter(is_frozen).collect();
    if frozen.is_empty() {
        return (Cow::Borrowed(state), frozen);
    }
    let mut state = state.clone();
    for &router in &frozen {
        for link in fabric.links_from(router).iter().copied() {
            for own in [
                &mut state.sent_bytes,
                &mut state.credit_stall_ratio,
                &mut state.credit_stall_seconds,
                &mut state.credit_stall_count,
            ] {
                own.set(link, None);
            }
        }
        for link in ending_at(fabric, router) {
            let sent = state.sent_bytes.get(link);
            let used = sent.and_then(|bytes| share(fabric, &state, link, bytes));
            state.received_bytes.set(link, sent);
            state.used_ratio.set(link, used);
            state.packets.set(link, None);
            state.input_stall_ratio.set(link, None);
            state.input_stall_seconds.set(link, None);
        }
    }
    (Cow::Owned(state), frozen)
}

/// A sentence for what is not judged.
pub(super) fn words(fabric: &Fabric, frozen: &[RouterId]) -> String {
    let names = names(fabric, frozen);
    format!("counters that stand still while neighbours count traffic: those of {names}")
}

/// The first names of routers, and the number of the others.
pub(super) fn names(fabric: &Fabric, routers: &[RouterId]) -> String {
    let first = routers.iter().take(NAMED);
    let names: Vec<&str> = first.map(|&r| fabric.router(r).name.as_str()).collect();
    let more = match routers.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {} more", count(more)),
    };
    names.join(", ") + &more
}

fn share(fabric: &Fabric, state: &LinkState, link: LinkId, bytes: f64) -> Option<f64> {
    let seconds = state.window.get(link).or(state.window_seconds)?;
    let most = seconds * fabric.link(link).capacity().0;
    (most > 0.0).then(|| (bytes / most).min(1.0))
}

/// Whether all that a router counts is zero, and a neighbour counts bytes to or from it.
fn stands_still(fabric: &Fabric, state: &LinkState, router: RouterId) -> bool {
    let out = fabric.links_from(router);
    let into = ending_at(fabric, router);
    let own = out
        .iter()
        .map(|&l| (&state.sent_bytes, l))
        .chain(into.iter().map(|&l| (&state.received_bytes, l)));
    let mut counts = 0;
    for bytes in own.filter_map(|(column, l)| column.get(l)) {
        counts += 1;
        if bytes > 0.0 {
            return false;
        }
    }
    let is_loaded = |column: &Column, l: LinkId| {
        let bytes = column.get(l);
        bytes.is_some_and(|b| share(fabric, state, l, b).is_some_and(|s| s >= LOADED))
    };
    counts > 0
        && (into.iter().any(|&l| is_loaded(&state.sent_bytes, l))
            || out.iter().any(|&l| is_loaded(&state.received_bytes, l)))
}
