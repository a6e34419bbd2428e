use super::*;
use crate::block::{Cluster, split};
use crate::store::{Keeping, Store};
use crate::wire::{Header, Kind, Sampled, put_report, put_source};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const T0: u64 = 1_800_000_000;

/// An agent with two counters, the second one a gauge.
struct Agent {
    hello: Hello,
    sequence: u64,
    took_ns: u64,
    device_ns: Option<u64>,
    base: Option<Values>,
}

fn agent_layout() -> Layout {
    let mut layout = Layout::new("", "test");
    let port = Port::Named("eth0".into());
    layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
    layout.counter(&port, "queued", Quantity::QueuedBytes, 1.0);
    layout
}

impl Agent {
    fn new(node: &str, start: u64) -> Self {
        let hello = Hello {
            node: node.into(),
            boot: 7,
            start,
            period_ns: SECOND,
        };
        Self {
            hello,
            sequence: 0,
            took_ns: 0,
            device_ns: None,
            base: None,
        }
    }

    fn connect(&mut self, to: &mut Gathering, stream: u32, now_ns: u64) -> Result<u32, Refusal> {
        let (id, _) = to.hello(&self.hello, Channel::Stream(stream), now_ns)?;
        let mut body = Vec::new();
        put_source(0, None, &agent_layout(), &mut body)?;
        to.source(id, &body)?;
        self.base = None;
        Ok(id)
    }

    fn report(&mut self, tick: u64, time_ns: u64, row: [u64; 2]) -> Vec<u8> {
        self.sequence += 1;
        let header = Header {
            sequence: self.sequence,
            tick,
            time_ns,
            steady_ns: time_ns,
            took_ns: self.took_ns,
            ..Header::default()
        };
        let mut values = Values::new(2);
        (0..2).for_each(|i| values.set(i, Some(row[i])));
        let mut body = Vec::new();
        let mut sampled = Sampled::new(&values, self.base.as_ref());
        sampled.part.time_ns = self.device_ns;
        put_report(&header, [sampled], &mut body);
        self.base = Some(values);
        body
    }
}

fn gathering(expected: &[&str]) -> Gathering {
    let rules = Rules {
        expected: expected.iter().map(|&s| s.to_owned()).collect(),
        ..Rules::default()
    };
    Gathering::new(rules, (T0 - 1) * SECOND)
}

/// An agent's frames: the connection, and two reports, the second with differences.
fn session() -> Vec<(Kind, Vec<u8>)> {
    let mut agent = Agent::new("n1", 5);
    let mut hello = Vec::new();
    agent.hello.put(&mut hello);
    let mut source = Vec::new();
    put_source(0, Some(3), &agent_layout(), &mut source).unwrap();
    let mut said = vec![(Kind::Hello, hello), (Kind::Source, source)];
    for (i, row) in [[10, 1], [4_000_000_010, 0]].into_iter().enumerate() {
        let tick = T0 + i as u64;
        said.push((
            Kind::Report,
            agent.report(tick, tick * SECOND + 1_000_000, row),
        ));
    }
    said
}

/// Passes a session to a collector until its first refusal.
fn take_session(g: &mut Gathering, said: &[(Kind, Vec<u8>)]) -> Result<(), Refusal> {
    let now_ns = (T0 + 1) * SECOND;
    let mut id = 0;
    for (kind, body) in said {
        match kind {
            Kind::Hello => {
                let hello = Hello::take(&mut Take(body))?;
                id = g.hello(&hello, Channel::Stream(0), now_ns)?.0;
            }
            Kind::Source => g.source(id, body)?,
            _ => g.report(id, body, now_ns)?,
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_was_taken_can_be_read_again(at: usize, bits in 1u8.., cut in 0usize..400) {
        let mut said = session();
        prop_assert!(take_session(&mut gathering(&[]), &said).is_ok());
        let length: usize = said.iter().map(|(_, body)| body.len()).sum();
        let mut at = at % length;
        for (_, body) in &mut said {
            if let Some(byte) = body.get_mut(at) {
                *byte ^= bits;
                body.truncate(body.len().saturating_sub(cut.saturating_sub(300)));
                break;
            }
            at -= body.len();
        }
        let mut g = gathering(&[]);
        let _ = take_session(&mut g, &said);
        close(&mut g, (T0 + 1) * SECOND, &mut Cluster::default());
    }
}

fn close(g: &mut Gathering, now_ns: u64, cluster: &mut Cluster) -> Closing {
    let (closing, block) = g.close(now_ns);
    let (entries, whole) = split(block).unwrap().unwrap();
    assert_eq!(whole, block.len());
    assert_eq!(cluster.read(entries, |_, _, _| {}).unwrap(), closing);
    g.next(now_ns, true);
    closing
}

/// A block in the format of version 0.1.
const STORED: &str = "ef000000907554026e00026e310700000000000000050000000000000068005d04746573740104657468300200056279\
    7465730e72656365697665645f6279746573000040000000000000f03f000000000000f87f00067175657565640c7175\
    657565645f6279746573020040000000000000f03f000000000000f87f73000001030000000000000000720000220180\
    a4a7da064042c39376e2fa184042c39376e2fa18000000000000010003111402720000260281a4a7da06400c5ecf76e2\
    fa18400c5ecf76e2fa18000000000000010001150050d6dc01016380a4a7da068094ebdc0300ca4ecf76e2fa18010100\
    00000000000000";

#[test]
fn bytes_of_a_stored_block_stay_as_they_are() {
    let mut g = gathering(&[]);
    take_session(&mut g, &session()).unwrap();
    let (closing, block) = g.close((T0 + 1) * SECOND);
    let written: String = block.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(written, STORED);

    let bytes: Vec<u8> = (0..STORED.len() / 2)
        .map(|i| u8::from_str_radix(&STORED[2 * i..][..2], 16).unwrap())
        .collect();
    let (entries, _) = split(&bytes).unwrap().unwrap();
    let mut cluster = Cluster::default();
    let mut rows = Vec::new();
    let read = cluster.read(entries, |cluster, id, _| {
        let node = cluster.node(id).unwrap();
        let readings = node.readings(&cluster.shapes);
        rows.extend(readings.map(|r| (node.header.tick, r.values.get(0), r.values.get(1))));
    });
    assert_eq!(read.unwrap(), closing);
    let expected = [
        (T0, Some(10), Some(1)),
        (T0 + 1, Some(4_000_000_010), Some(0)),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_tick_waits_as_long_as_a_node_s_reading_takes() {
    let mut g = gathering(&["ufm", "n1"]);
    let mut cluster = Cluster::default();
    let (mut ufm, mut n1) = (Agent::new("ufm", 1), Agent::new("n1", 1));
    let now = T0 * SECOND;
    let wide = ufm.connect(&mut g, 1, now).unwrap();
    let host = n1.connect(&mut g, 2, now).unwrap();
    ufm.took_ns = 300_000_000;
    g.report(wide, &ufm.report(T0, now, [1, 0]), now + 1_000)
        .unwrap();
    g.report(host, &n1.report(T0, now, [1, 0]), now + 1_000)
        .unwrap();
    close(&mut g, now + 1_000, &mut cluster);

    let now = now + SECOND;
    g.report(host, &n1.report(T0 + 1, now, [2, 0]), now + 1_000)
        .unwrap();
    assert!(!g.due(now + 549_999_999) && g.due(now + 550_000_000));
    g.report(wide, &ufm.report(T0 + 1, now, [2, 0]), now + 320_000_000)
        .unwrap();
    assert!(g.due(now + 320_000_000));
    let closing = close(&mut g, now + 320_000_000, &mut cluster);
    assert_eq!((closing.reported, closing.missing.len()), (2, 0));

    // Nobody waits for it when it has reported, nor longer than a period.
    let now = now + SECOND;
    ufm.took_ns = 900_000_000;
    g.report(wide, &ufm.report(T0 + 2, now, [3, 0]), now + 1_000)
        .unwrap();
    assert!(g.due(now + 250_000_000));
    close(&mut g, now + 250_000_000, &mut cluster);
    let now = now + SECOND;
    assert!(!g.due(now + 999_999_999) && g.due(now + SECOND));
}

#[test]
fn a_tick_closes_when_all_reported_or_the_deadline_passed() {
    let mut g = gathering(&["a", "b", "c"]);
    let mut cluster = Cluster::default();
    let (mut a, mut b) = (Agent::new("a", 1), Agent::new("b", 1));
    let now = T0 * SECOND;
    let (ia, ib) = (
        a.connect(&mut g, 1, now).unwrap(),
        b.connect(&mut g, 2, now).unwrap(),
    );
    g.report(ia, &a.report(T0, now + 100, [5, 1]), now + 1_000)
        .unwrap();
    g.report(ib, &b.report(T0, now + 400, [6, 1]), now + 2_000)
        .unwrap();
    assert!(!g.due(now + 249_999_999), "c is expected");
    assert!(g.due(now + 250_000_000));
    let first = close(&mut g, now + 250_000_000, &mut cluster);
    assert_eq!((first.tick, first.expected, first.reported), (T0, 3, 2));
    assert_eq!(first.spread_ns, Some(300));
    assert_eq!(first.missing, [(2, Absence::Never)]);
    assert_eq!(cluster.name(2), "c");

    // All three reported: closed at once. The late report of c is in the next closing.
    let mut c = Agent::new("c", 1);
    let ic = c.connect(&mut g, 3, now).unwrap();
    g.report(ic, &c.report(T0, now, [9, 9]), now + 300_000_000)
        .unwrap();
    let now = now + SECOND;
    for (agent, id, bytes) in [(&mut a, ia, 10), (&mut b, ib, 6), (&mut c, ic, 19)] {
        assert!(!g.due(now + 5_000));
        g.report(id, &agent.report(T0 + 1, now, [bytes, 0]), now + 5_000)
            .unwrap();
    }
    assert!(
        g.due(now + 5_000) && !g.due(now - 1),
        "never before it began"
    );
    let second = close(&mut g, now + 6_000, &mut cluster);
    assert_eq!((second.reported, second.missing.len()), (3, 0));
    assert_eq!(
        second.late,
        [Late {
            node: 2,
            tick: T0,
            delay_ns: 300_000_000
        }]
    );
    let values: Vec<_> = cluster
        .nodes
        .iter()
        .flatten()
        .map(|n| n.sources[0].as_ref().unwrap().values.get(0))
        .collect();
    assert_eq!(values, [Some(10), Some(6), Some(19)]);
}

#[test]
fn a_frozen_node_is_named_and_never_shown_as_consistent() {
    let mut g = gathering(&[]);
    let mut cluster = Cluster::default();
    let (mut a, mut b) = (Agent::new("a", 1), Agent::new("b", 1));
    b.device_ns = Some(T0 * SECOND - 5);
    let now = T0 * SECOND;
    let (ia, ib) = (
        a.connect(&mut g, 1, now).unwrap(),
        b.connect(&mut g, 2, now).unwrap(),
    );
    for (agent, id) in [(&mut a, ia), (&mut b, ib)] {
        g.report(id, &agent.report(T0, now, [5, 1]), now).unwrap();
    }
    assert!(close(&mut g, now, &mut cluster).frozen.is_empty());
    // The agent of a is stopped (SIGSTOP); b reports, but its device's clock stopped.
    let now = now + SECOND;
    g.report(ib, &b.report(T0 + 1, now, [5, 1]), now).unwrap();
    let closing = close(&mut g, now + SECOND / 4, &mut cluster);
    assert_eq!(closing.missing, [(ia, Absence::Silent)]);
    assert_eq!(closing.frozen, [ia, ib]);
    g.gone(ia, Channel::Stream(1));
    let closing = close(&mut g, now + SECOND + SECOND / 4, &mut cluster);
    assert_eq!(closing.missing[0], (ia, Absence::Gone));
}

#[test]
fn a_source_that_was_never_read_takes_no_other_s_place() {
    let mut g = gathering(&[]);
    let mut agent = Agent::new("n1", 5);
    let now_ns = T0 * SECOND + 2_000_000;
    let id = agent.connect(&mut g, 0, now_ns).unwrap();
    let mut body = Vec::new();
    put_source(1, None, &agent_layout(), &mut body).unwrap();
    g.source(id, &body).unwrap();
    // Its second source fails from the first report on.
    let header = Header {
        sequence: 1,
        tick: T0,
        ..Header::default()
    };
    let mut values = Values::new(2);
    (0..2).for_each(|i| values.set(i, Some(10 + i as u64)));
    let mut unread = Sampled::new(&values, None);
    (unread.part.source, unread.part.read) = (1, false);
    let mut body = Vec::new();
    put_report(&header, [Sampled::new(&values, None), unread], &mut body);
    g.report(id, &body, now_ns).unwrap();
    let mut cluster = Cluster::default();
    close(&mut g, now_ns, &mut cluster);
    let held: Vec<_> = cluster.node(id).unwrap().sources.iter().flatten().collect();
    assert!(held[0].part.read && !held[1].part.read);
    assert_eq!(
        (held[0].values.get(0), held[1].values.get(0)),
        (Some(10), None)
    );
}

#[test]
fn resets_are_named_and_wraps_are_not() {
    let mut g = gathering(&[]);
    let mut cluster = Cluster::default();
    let mut a = Agent::new("a", 1);
    let now = T0 * SECOND;
    let id = a.connect(&mut g, 1, now).unwrap();
    let rows = [[u64::MAX - 9, 9], [90, 4], [95, 9], [3, 9]];
    let mut resets = Vec::new();
    for (i, row) in (0..).zip(rows) {
        let now = now + i * SECOND;
        g.report(id, &a.report(T0 + i, now, row), now).unwrap();
        resets.push(close(&mut g, now, &mut cluster).reset.len());
    }
    // The wrap over 2^64 and the decreasing gauge are no resets; 95 to 3 is one.
    assert_eq!(resets, [0, 0, 0, 1]);
    // Another boot of the node takes over its name after three silent ticks, although the old connection is
    // still open. Before that it may be another machine.
    let mut again = Agent::new("a", 2);
    again.hello.boot = 8;
    let twin = again.connect(&mut g, 2, now + 4 * SECOND).unwrap_err();
    assert!(twin.to_string().contains("of another machine"), "{twin}");
    let now = now + 6 * SECOND;
    again.connect(&mut g, 2, now).unwrap();
    g.report(id, &again.report(T0 + 4, now, [1, 0]), now)
        .unwrap();
    assert_eq!(close(&mut g, now, &mut cluster).reset, [id]);
}

/// The speed that the device reports is part of the decision: a jump that no link of 10 Gb/s carries, and a fall of a
/// 32-bit counter that looks like a wrap without the speed, are resets.
#[test]
fn a_jump_beyond_the_speed_is_a_reset() {
    let port = Port::Named("eth0".into());
    for (bits, rows, expected) in [
        (64, [1000, 10_000_000_000_000_000], 1),
        (64, [1000, 2_500_001_000], 0),
        (64, [u64::MAX - 99, 900], 0),
        (32, [0xf000_0000, 100_000_000], 1),
        (32, [0xffff_fff0, 100], 0),
    ] {
        let mut layout = Layout::new("", "test");
        layout
            .counter(&port, "bytes", Quantity::ReceivedBytes, 1.0)
            .behaviour
            .bits = bits;
        // 10 Gb/s, and 400 Mb/s for the narrow counter, in bytes per second.
        layout.counter(&port, "speed", Quantity::Capacity, 1.0);
        let speed = if bits == 64 {
            1_250_000_000
        } else {
            50_000_000
        };
        let mut g = gathering(&[]);
        let mut cluster = Cluster::default();
        let mut a = Agent::new("a", 1);
        let now = T0 * SECOND;
        let (id, _) = g.hello(&a.hello, Channel::Stream(1), now).unwrap();
        let mut body = Vec::new();
        put_source(0, None, &layout, &mut body).unwrap();
        g.source(id, &body).unwrap();
        let mut resets = 0;
        for (i, bytes) in (0..).zip(rows) {
            let now = now + i * SECOND;
            g.report(id, &a.report(T0 + i, now, [bytes, speed]), now)
                .unwrap();
            resets += close(&mut g, now, &mut cluster).reset.len();
        }
        assert_eq!(resets, expected, "{bits} bits, {rows:?}");
    }
}

#[test]
fn two_agents_of_one_name_are_told_apart() {
    let mut g = gathering(&[]);
    let now = T0 * SECOND;
    let (mut a, mut twin) = (Agent::new("a", 1), Agent::new("a", 2));
    let id = a.connect(&mut g, 1, now).unwrap();
    let error = twin.connect(&mut g, 2, now + 1).unwrap_err().to_string();
    assert!(error.starts_with("a second agent named a"), "{error}");
    assert_eq!(g.channel(id), Channel::Stream(1));
    // The same agent on a new connection is accepted, and the end of the old connection has no effect.
    a.connect(&mut g, 3, now + 2).unwrap();
    g.gone(id, Channel::Stream(1));
    assert_eq!(g.channel(id), Channel::Stream(3));
    // After the silence the other agent may use the name.
    assert!(twin.connect(&mut g, 2, now + 4 * SECOND).is_ok());
}

#[test]
fn what_is_sent_again_is_kept_once() {
    let mut g = gathering(&[]);
    let mut cluster = Cluster::default();
    let mut a = Agent::new("a", 1);
    let now = T0 * SECOND;
    let id = a.connect(&mut g, 1, now).unwrap();
    g.report(id, &a.report(T0, now, [5, 1]), now).unwrap();
    close(&mut g, now, &mut cluster);
    let mut acknowledged = Vec::new();
    g.acknowledge(true, |channel, sequence| {
        acknowledged.push((channel, sequence));
    });
    assert_eq!(acknowledged, [(Channel::Stream(1), 1)]);

    // The connection breaks; report 1 is sent again before report 2.
    a.sequence = 0;
    a.connect(&mut g, 2, now).unwrap();
    let now = now + SECOND;
    g.report(id, &a.report(T0, now - SECOND, [5, 1]), now)
        .unwrap();
    g.report(id, &a.report(T0 + 1, now, [8, 1]), now).unwrap();
    let (_, block) = g.close(now);
    let mut seen = Vec::new();
    let (entries, _) = split(block).unwrap().unwrap();
    let take = |c: &Cluster, id: u32, arrival| {
        let node = c.node(id).unwrap();
        let value = node.sources[0].as_ref().unwrap().values.get(0);
        seen.push((node.header.sequence, value, arrival));
    };
    cluster.read(entries, take).unwrap();
    assert_eq!(seen, [(2, Some(8), Arrival::OnTime)]);
}

#[test]
fn every_segment_stands_for_itself() {
    let mut g = gathering(&[]);
    let mut a = Agent::new("a", 1);
    let now = T0 * SECOND;
    let id = a.connect(&mut g, 1, now).unwrap();
    for i in 0..4 {
        let now = now + i * SECOND;
        g.report(id, &a.report(T0 + i, now, [100 + i, 1]), now)
            .unwrap();
        if i == 2 {
            // A later block of a segment cannot be decoded alone.
            let (entries, _) = split(g.close(now).1).unwrap().unwrap();
            let error = Cluster::default().read(entries, |_, _, _| {}).unwrap_err();
            assert_eq!(error.to_string(), "node 0, which is not defined");
            g.begin_segment();
            g.next(now, true);
        } else {
            let mut fresh = Cluster::default();
            if i == 3 {
                close(&mut g, now, &mut fresh);
                let node = fresh.node(id).unwrap();
                assert_eq!(
                    node.readings(&fresh.shapes).next().unwrap().get(0),
                    Some(103)
                );
            } else {
                g.close(now);
                g.next(now, true);
            }
        }
    }
}

#[test]
fn clocks_that_step_are_named_and_nothing_stops() {
    let mut g = gathering(&[]);
    let mut cluster = Cluster::default();
    let (mut a, mut b) = (Agent::new("a", 1), Agent::new("b", 1));
    let now = T0 * SECOND;
    let (ia, ib) = (
        a.connect(&mut g, 1, now).unwrap(),
        b.connect(&mut g, 2, now).unwrap(),
    );
    // The clock of b is an hour ahead.
    g.report(ia, &a.report(T0, now, [1, 0]), now).unwrap();
    g.report(ib, &b.report(T0 + 3600, now + 3600 * SECOND, [1, 0]), now)
        .unwrap();
    let closing = close(&mut g, now + SECOND / 4, &mut cluster);
    assert_eq!((closing.ahead, closing.reported), (vec![ib], 1));
    // The collector's clock jumps an hour: no 3600 empty ticks.
    let now = now + 3600 * SECOND;
    let closing = close(&mut g, now, &mut cluster);
    assert_eq!(closing.tick, T0 + 1);
    g.report(ia, &a.report(T0 + 3600, now, [2, 0]), now)
        .unwrap();
    let closing = close(&mut g, now, &mut cluster);
    assert_eq!(
        (closing.tick, closing.skipped, closing.reported),
        (T0 + 3600, 3598, 1)
    );
    // And back: the open tick closes at once, not in an hour.
    let now = T0 * SECOND;
    assert!(g.due(now));
    close(&mut g, now, &mut cluster);
    assert!(!g.due(now));
    assert_eq!(close(&mut g, now + SECOND, &mut cluster).tick, T0 + 1);
    g.report(
        ia,
        &a.report(T0 + 2, now + 2 * SECOND, [3, 0]),
        now + 2 * SECOND,
    )
    .unwrap();
    assert_eq!(close(&mut g, now + 2 * SECOND, &mut cluster).reported, 1);
}

/// Hellos of many names to a collector without a store, whose segments do not end by themselves.
#[test]
fn names_without_a_report_use_up_no_numbers() {
    let mut g = gathering(&[]);
    let mut cluster = Cluster::default();
    let from = Channel::Datagrams("127.0.0.1:1".parse().unwrap());
    for tick in T0..T0 + 20 {
        for n in 0..2000 {
            let hello = Hello {
                node: format!("n{tick}-{n}"),
                boot: 1,
                start: 1,
                period_ns: SECOND,
            };
            g.hello(&hello, from, tick * SECOND).unwrap();
        }
        close(&mut g, tick * SECOND + SECOND / 4, &mut cluster);
    }
    let (names, numbers) = (g.members().len(), g.members().all.len());
    assert_eq!(names, 4096);
    assert!(numbers < 3 * 4096, "{numbers} numbers of 40,000 names");
}

#[test]
fn what_is_wrong_is_refused_with_a_sentence() {
    let mut g = gathering(&["a"]);
    let now = T0 * SECOND;
    let no = |r: Result<u32, Refusal>| r.unwrap_err().to_string();
    let mut stranger = Agent::new("z", 1);
    assert_eq!(
        no(stranger.connect(&mut g, 1, now)),
        "node z, which is not among the 1 expected ones"
    );
    let mut slow = Agent::new("a", 1);
    slow.hello.period_ns = 2 * SECOND;
    assert_eq!(
        no(slow.connect(&mut g, 1, now)),
        "node a samples every 2 s, this collector closes a tick every 1 s"
    );
    let mut a = Agent::new("a", 1);
    let id = a.connect(&mut g, 1, now).unwrap();
    a.base = Some(Values::new(2));
    let error = g.report(id, &a.report(T0, now, [1, 1]), now).unwrap_err();
    assert_eq!(error.to_string(), "differences before absolute values");
    g.rules.memory_bytes = 100;
    assert!(no(a.connect(&mut g, 1, now)).contains("--memory"));
}

#[test]
fn a_clock_that_is_behind_is_said_and_is_not_frozen() {
    let mut g = gathering(&["a", "a", "b"]);
    assert_eq!(g.size().0, 2, "a name that is listed twice is one node");
    let mut cluster = Cluster::default();
    let (mut a, mut b) = (Agent::new("a", 1), Agent::new("b", 1));
    let now = T0 * SECOND;
    let (ia, ib) = (
        a.connect(&mut g, 1, now).unwrap(),
        b.connect(&mut g, 2, now).unwrap(),
    );
    for i in 0..4 {
        let now = now + i * SECOND;
        g.report(ia, &a.report(T0 + i, now, [i, 0]), now).unwrap();
        // The clock of b was set back by an hour after its first report.
        let back = if i > 0 { 3600 } else { 0 };
        let body = b.report(T0 + i - back, now - back * SECOND, [i, 0]);
        g.report(ib, &body, now).unwrap();
        let closing = close(&mut g, now + SECOND / 4, &mut cluster);
        assert_eq!(closing.tick, T0 + i);
        if i == 0 {
            assert_eq!(closing.reported, 2);
            continue;
        }
        assert_eq!(closing.missing, [(ib, Absence::Behind)]);
        assert!(closing.frozen.is_empty(), "it reports");
        let late = closing.late[0];
        assert_eq!((late.node, late.tick), (ib, T0 + i - 3600));
        assert_eq!(late.delay_ns, 3600 * SECOND as i64);
    }
    // It falls silent, and is frozen.
    let now = now + 4 * SECOND;
    g.report(ia, &a.report(T0 + 4, now, [9, 0]), now).unwrap();
    let closing = close(&mut g, now + SECOND / 4, &mut cluster);
    assert_eq!(closing.missing, [(ib, Absence::Silent)]);
    assert_eq!(closing.frozen, [ib]);
}

#[test]
fn a_large_torus_of_routers_with_coordinates_has_one_shape() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), Keeping::default()).unwrap();
    let mut g = gathering(&[]);
    let now = T0 * SECOND;
    let place = |i: u32| vec![i / 288, i / 24 % 12, i % 24];
    for i in 0..5000 {
        let mut a = Agent::new(&format!("r{i}"), 1);
        let id = a.connect(&mut g, i, now).unwrap();
        let mut layout = agent_layout();
        layout.coordinate = Some(place(i));
        let mut body = Vec::new();
        put_source(0, Some(3), &layout, &mut body).unwrap();
        g.source(id, &body).unwrap();
        g.report(id, &a.report(T0, now, [i.into(), 1]), now)
            .unwrap();
    }
    let (closing, block) = g.close(now);
    assert_eq!((closing.reported, closing.expected), (5000, 5000));
    let mut cluster = Cluster::default();
    cluster
        .read(split(block).unwrap().unwrap().0, |_, _, _| {})
        .unwrap();
    assert_eq!(cluster.shapes.len(), 1);
    for (node, i) in cluster.nodes.iter().flatten().zip(0..) {
        let reading = node.readings(&cluster.shapes).next().unwrap();
        assert_eq!(reading.layout.coordinate, Some(place(i)));
    }
    // A restarted collector restores them from the store.
    store.append(&closing, block).unwrap();
    drop(store);
    let store = Store::open(folder.path(), Keeping::default()).unwrap();
    let mut again = gathering(&[]);
    store.remembered().for_each(|node| again.remember(node));
    assert_eq!((again.size().0, again.shapes.len()), (5000, 1));
    let known = again.members.all.iter().map(|m| &m.state);
    assert!(known.clone().all(|n| {
        n.name[1..].parse().map(place).ok()
            == n.sources[0]
                .as_ref()
                .unwrap()
                .origin
                .coordinate
                .as_deref()
                .map(<[u32]>::to_vec)
    }));
}
