//! A restarted collector that more agents greet by UDP at once than it holds names without a report for.

use super::packets::challenges;
use super::world::read;
use crate::agent::ring::Ring;
use crate::agent::udp::Exchange;
use crate::gather::{Channel, Gathering, Rules};
use crate::server::packets::{answer, take};
use crate::wire::{Hello, Token};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;
const T0: u64 = 1_800_000_000 * SECOND;
const AGENTS: u16 = 10_000;
/// Maximum number of names without a report.
const NAMES: u64 = 4096;

struct Agent {
    ring: Ring,
    hello: Hello,
    exchange: Exchange,
    from: SocketAddr,
    answers: Vec<Vec<u8>>,
}

impl Agent {
    fn new(n: u16) -> Self {
        Self {
            ring: Ring::new(9),
            hello: Hello {
                node: format!("n{n}"),
                boot: 1,
                start: T0,
                period_ns: SECOND,
            },
            exchange: Exchange::default(),
            from: SocketAddr::from((Ipv4Addr::LOCALHOST, 1000 + n)),
            answers: Vec::new(),
        }
    }

    /// All packets until it waits for an answer.
    fn packets(&mut self, token: &Token, now: Instant) -> Vec<Vec<u8>> {
        for answer in std::mem::take(&mut self.answers) {
            self.exchange.answered(&answer);
        }
        let mut all = Vec::new();
        loop {
            let ring = &mut self.ring;
            let packets = self.exchange.next(&self.hello, Some(token), ring, now);
            if packets.is_empty() {
                return all;
            }
            all.extend(packets);
        }
    }
}

/// All agents read and send in a tick, which then closes. `apart`: the first packets of all agents arrive before the
/// second ones; otherwise those of an agent follow each other. Returns the number of nodes in time.
fn tick(
    agents: &mut [Agent],
    gathering: &mut Gathering,
    process: u8,
    number: u64,
    apart: bool,
) -> u64 {
    let (now, token) = (
        T0 + number * SECOND,
        Token::new(b"0123456789abcdef").unwrap(),
    );
    let clock = BEGAN.with(|began| *began + Duration::from_secs(number));
    let key = challenges(process);
    for agent in agents.iter_mut() {
        read(&mut agent.ring, (T0, number), now / SECOND, now);
    }
    loop {
        let sent = agents.iter_mut().zip(0..);
        let mut packets: Vec<(usize, usize, Vec<u8>)> = sent
            .flat_map(|(agent, n)| {
                let all = agent.packets(&token, clock);
                all.into_iter().zip(0..).map(move |(p, at)| (at, n, p))
            })
            .collect();
        if packets.is_empty() {
            break;
        }
        if apart {
            packets.sort_by_key(|(at, ..)| *at);
        }
        for (_, n, packet) in packets {
            let channel = Channel::Datagrams(agents[n].from);
            let outcome = take(&packet, channel, now, Some(&token), &key, gathering);
            agents[n].answers.extend(answer(&outcome, packet.len()));
        }
    }
    let (closing, _) = gathering.close(now + SECOND / 2);
    gathering.next(now + SECOND / 2, true);
    closing.reported
}

thread_local! {
    static BEGAN: Instant = Instant::now();
}

/// Ticks after the restart until all agents are heard again: one in which they learn of it, then one, or, in the worst
/// order of packets, one for each 4,096 agents.
#[test]
fn ten_thousand_agents_are_back_after_a_restart() {
    let all = u64::from(AGENTS);
    for (apart, ticks) in [(false, 2), (true, 1 + all.div_ceil(NAMES))] {
        let mut agents: Vec<Agent> = (0..AGENTS).map(Agent::new).collect();
        let mut gathering = Gathering::new(Rules::default(), T0);
        let mut number = 0;
        let mut until_all = |gathering: &mut Gathering, process| {
            let mut reported = Vec::new();
            while reported.last() != Some(&all) {
                number += 1;
                reported.push(tick(&mut agents, gathering, process, number, apart));
                assert!(reported.len() < 20, "{reported:?}");
            }
            (reported, number)
        };
        until_all(&mut gathering, 1);
        let restarted = T0 + number_of(&gathering) * SECOND;
        let mut gathering = Gathering::new(Rules::default(), restarted);
        let (reported, _) = until_all(&mut gathering, 2);
        assert_eq!(reported.len() as u64, ticks, "{reported:?}, apart: {apart}");
        assert_eq!(gathering.size().0 as u64, all);
    }
}

/// The tick that closed last, counted from the first.
fn number_of(gathering: &Gathering) -> u64 {
    gathering.closes_ns() / SECOND - T0 / SECOND - 1
}
