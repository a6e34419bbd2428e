//! Every short history of the acknowledgement protocol: agents, a network that loses, delays and repeats, a
//! collector and its store that fail, stop and start again, clocks that are set.
//!
//! The histories run the real parts step by step: [`Ring`](crate::agent::ring::Ring) and the agent's session, the
//! collector's peer, [`Gathering`](crate::gather::Gathering) and, at every start of a collector,
//! [`Store`](crate::store::Store) on real files. A depth-first search takes every order of the events that a
//! budget allows, and visits each state once. In every state:
//!
//! - every report whose acknowledgement the agent received is in the store, with the values that the agent read;
//! - no report is in the store twice;
//! - if nothing fails any more, all reports of the agent are stored and acknowledged within [`PATIENCE`] ticks;
//! - every tick closes, at any jump of the clock.
//!
//! Packets by UDP are not acknowledged. If nothing fails any more, every report is stored after a few ticks, while others
//! send again all that they recorded.
//!
//! `cargo test -p hopbyte-collect histories` explores small budgets;
//! `make histories` larger ones, and prints their numbers of states.

mod crowd;
mod disk;
mod log;
mod packets;
mod search;
mod world;

use self::log::Stream;
use self::packets::Packets;
use self::search::{State, explore};
use self::world::{Budget, World};

/// Ticks until a system without further faults has acknowledged everything: an eighth of the nodes is acknowledged in a
/// tick, and another agent of the same name is refused for three.
const PATIENCE: u64 = 16;

/// One state of so many is run on until it settles.
const SETTLE_EVERY: u64 = 8;

/// Explores all histories of a budget and prints the number of states.
fn all(name: &str, budget: Budget) -> u64 {
    every(name, &World::new(budget))
}

/// The same for histories of a stream.
fn streams(name: &str, budget: log::Budget) -> u64 {
    every(name, &Stream::new(budget))
}

/// The same for histories of packets.
fn datagrams(name: &str, budget: packets::Budget) -> u64 {
    every(name, &Packets::new(budget))
}

fn every(name: &str, start: &impl State) -> u64 {
    let began = std::time::Instant::now();
    let found = explore(start, SETTLE_EVERY);
    let (states, steps) = match found {
        Ok(counts) => counts,
        Err(history) => panic!("{name}: {history}"),
    };
    let seconds = began.elapsed().as_secs();
    println!("{name}: {states} states, {steps} steps, {seconds} s, no violation");
    states
}

const NONE: Budget = Budget {
    reports: 2,
    connections: 2,
    cuts: 1,
    closings: 2,
    failures: 0,
    kills: 0,
    restarts: 0,
    jumps: 0,
    ring: 9,
    token: false,
};

#[test]
fn connections_break_and_writes_fail() {
    let states = all(
        "breaks and failed writes",
        Budget {
            failures: 1,
            ..NONE
        },
    );
    assert!(states > 1000, "{states}");
}

#[test]
fn collectors_are_killed() {
    let states = all("kills", Budget { kills: 1, ..NONE });
    assert!(states > 1000, "{states}");
}

#[test]
fn agents_start_again_and_clocks_are_set() {
    let states = all(
        "restarts and clocks",
        Budget {
            restarts: 1,
            jumps: 1,
            reports: 1,
            cuts: 0,
            ..NONE
        },
    );
    assert!(states > 1000, "{states}");
}

const SHORT_RING: Budget = Budget {
    reports: 3,
    ring: 1,
    token: true,
    ..NONE
};

#[test]
fn a_short_ring_evicts_and_a_token_is_proved() {
    let states = all(
        "a short ring and a token",
        Budget {
            reports: 2,
            ..SHORT_RING
        },
    );
    assert!(states > 1000, "{states}");
}

#[test]
fn streams_lose_and_repeat_messages() {
    let states = streams(
        "streams",
        log::Budget {
            reports: 2,
            losses: 1,
            breaks: 1,
            closings: 2,
            failures: 0,
            kills: 1,
            restarts: 1,
        },
    );
    assert!(states > 1000, "{states}");
}

#[test]
fn streams_meet_failed_writes_and_new_agents() {
    let budget = log::Budget {
        reports: 2,
        losses: 0,
        breaks: 0,
        closings: 2,
        failures: 1,
        kills: 0,
        restarts: 1,
    };
    let states = streams("streams, failures and restarts", budget);
    assert!(states > 100, "{states}");
}

const QUIET: packets::Budget = packets::Budget {
    reports: 1,
    losses: 0,
    repeats: 0,
    closings: 2,
    failures: 0,
    kills: 0,
    restarts: 0,
    jumps: 0,
};

#[test]
fn packets_are_lost_and_sent_again() {
    let budget = packets::Budget {
        reports: 2,
        losses: 1,
        repeats: 1,
        closings: 1,
        ..QUIET
    };
    let states = datagrams("packets, lost and sent again", budget);
    assert!(states > 1000, "{states}");
}

#[test]
fn packets_of_an_earlier_boot_are_sent_again() {
    let budget = packets::Budget {
        repeats: 1,
        restarts: 1,
        ..QUIET
    };
    let states = datagrams("packets of an earlier boot", budget);
    assert!(states > 1000, "{states}");
}

#[test]
fn packets_meet_clocks_that_are_set_and_new_collectors() {
    let clocks = packets::Budget {
        restarts: 1,
        jumps: 1,
        ..QUIET
    };
    let states = datagrams("packets and clocks", clocks);
    assert!(states > 1000, "{states}");
    let kills = packets::Budget {
        failures: 1,
        kills: 1,
        restarts: 1,
        ..QUIET
    };
    let states = datagrams("packets, failures and kills", kills);
    assert!(states > 1000, "{states}");
}

#[test]
#[ignore = "minutes"]
fn longer_packets() {
    let long = packets::Budget {
        reports: 2,
        restarts: 1,
        ..QUIET
    };
    let attacked = packets::Budget { repeats: 1, ..long };
    datagrams("packets of an earlier boot", attacked);
    let clocks = packets::Budget { jumps: 1, ..long };
    datagrams("packets and clocks", clocks);
    let kills = packets::Budget {
        failures: 1,
        kills: 1,
        ..long
    };
    datagrams("packets, failures and kills", kills);
}

#[test]
#[ignore = "minutes"]
fn longer_connections() {
    let long = Budget {
        closings: 3,
        failures: 1,
        kills: 1,
        ..NONE
    };
    all("failures and kills", long);
    let twice = Budget {
        closings: 2,
        failures: 0,
        kills: 2,
        ..long
    };
    all("two kills", twice);
    let thrice = Budget {
        connections: 3,
        cuts: 2,
        ..NONE
    };
    all("three connections", thrice);
    all("a short ring and a token", SHORT_RING);
}

#[test]
#[ignore = "minutes"]
fn longer_restarts() {
    let clocks = Budget {
        restarts: 1,
        jumps: 1,
        cuts: 0,
        ..NONE
    };
    all("restarts and clocks", clocks);
    let killed = Budget {
        jumps: 0,
        kills: 1,
        ..clocks
    };
    all("restarts and kills", killed);
}

#[test]
#[ignore = "minutes"]
fn longer_streams() {
    let stream = log::Budget {
        reports: 3,
        losses: 1,
        breaks: 1,
        closings: 2,
        failures: 0,
        kills: 1,
        restarts: 1,
    };
    streams("streams", stream);
    let killed = log::Budget {
        reports: 2,
        losses: 0,
        breaks: 0,
        failures: 1,
        kills: 2,
        ..stream
    };
    streams("streams, failures and two kills", killed);
}
