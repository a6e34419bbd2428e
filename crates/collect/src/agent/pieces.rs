//! A source with more ports than a frame can describe is sent as several sources.
//!
//! A piece holds whole ports, since several counters of a port may form one quantity. The number of a piece does
//! not change while the agent runs, also when interfaces come and go.

use crate::shape::{self, MOST_COUNTERS, MOST_PORTS};
use crate::wire::MOST_SOURCES;
use hopbyte_observe::counters::reading::Layout;
use hopbyte_observe::counters::values::Values;
use std::sync::Arc;

/// Maximum length of a piece's encoded layout: with its frame it fits into a datagram.
const LONGEST: usize = 48 * 1024;

/// A part of a source's counters.
#[derive(Debug)]
pub struct Piece {
    /// Its ports and counters.
    pub layout: Arc<Layout>,
    /// Positions of its counters in the source; `None`: all of them.
    rows: Option<Vec<usize>>,
}

impl Piece {
    /// A source that is not divided.
    pub fn whole(layout: &Arc<Layout>) -> Self {
        Self {
            layout: layout.clone(),
            rows: None,
        }
    }

    /// The piece's values in a reading of the source.
    pub fn pick(&self, all: &Values, out: &mut Values) {
        match &self.rows {
            None => out.clone_from(all),
            Some(rows) => {
                let picked = rows.iter().enumerate();
                picked.for_each(|(to, &from)| out.set(to, all.get(from)));
            }
        }
    }
}

/// The pieces of one source.
#[derive(Debug)]
pub struct Pieces {
    whole: Arc<Layout>,
    all: Vec<Piece>,
    /// Counters that fit into no piece.
    pub lost: usize,
}

impl Pieces {
    /// Divides a layout into at least `least` pieces, the last ones empty if there are fewer ports.
    pub fn of(layout: &Arc<Layout>, least: usize) -> Self {
        let (mut all, lost) = divide(layout);
        let empty = || Piece {
            layout: Arc::new(Layout::new(&layout.node, &layout.source)),
            rows: Some(Vec::new()),
        };
        while all.len() < least {
            all.push(empty());
        }
        Self {
            whole: layout.clone(),
            all,
            lost,
        }
    }

    /// Whether these are the pieces of a layout.
    pub fn is_of(&self, layout: &Arc<Layout>) -> bool {
        Arc::ptr_eq(&self.whole, layout)
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The piece at a position.
    pub fn get(&self, at: usize) -> Option<&Piece> {
        self.all.get(at)
    }
}

/// Encoded length of a layout, `None` if it is too long for a piece.
fn length(layout: &Layout) -> Option<usize> {
    let mut out = Vec::new();
    shape::put(layout, &mut out).ok()?;
    Some(out.len()).filter(|&n| n <= LONGEST)
}

/// Pieces, and the number of counters of ports that fit into none.
fn divide(layout: &Arc<Layout>) -> (Vec<Piece>, usize) {
    if length(layout).is_some() {
        return (vec![Piece::whole(layout)], 0);
    }
    let mut of_port: Vec<Vec<usize>> = vec![Vec::new(); layout.ports.len()];
    for (row, counter) in layout.counters.iter().enumerate() {
        if let Some(rows) = of_port.get_mut(usize::from(counter.port)) {
            rows.push(row);
        }
    }
    let (mut pieces, mut lost) = (Vec::new(), 0);
    let mut open: Vec<usize> = Vec::new();
    let (mut ports, mut bytes) = (0, 0);
    for rows in of_port {
        let size = length(&part(layout, &rows));
        let Some(size) =
            size.filter(|_| rows.len() <= MOST_COUNTERS && pieces.len() < MOST_SOURCES)
        else {
            lost += rows.len();
            continue;
        };
        let full = bytes + size > LONGEST
            || open.len() + rows.len() > MOST_COUNTERS
            || ports == MOST_PORTS;
        if full {
            pieces.push(piece(layout, std::mem::take(&mut open)));
            (ports, bytes) = (0, 0);
        }
        (ports, bytes) = (ports + 1, bytes + size);
        open.extend(rows);
    }
    pieces.push(piece(layout, open));
    (pieces, lost)
}

fn piece(layout: &Layout, rows: Vec<usize>) -> Piece {
    Piece {
        layout: Arc::new(part(layout, &rows)),
        rows: Some(rows),
    }
}

/// A layout of some of the counters.
fn part(layout: &Layout, rows: &[usize]) -> Layout {
    let mut part = Layout::new(&layout.node, &layout.source);
    part.coordinate.clone_from(&layout.coordinate);
    let mut last = None;
    for &row in rows {
        let mut counter = layout.counters[row].clone();
        if last != Some(counter.port) {
            last = Some(counter.port);
            part.ports
                .push(layout.ports[usize::from(counter.port)].clone());
        }
        counter.port = (part.ports.len() - 1) as u16;
        part.counters.push(counter);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::Quantity;
    use hopbyte_observe::counters::reading::Port;

    fn layout(ports: usize, counters: usize) -> Arc<Layout> {
        let mut layout = Layout::new("n1", "linux");
        for port in 0..ports {
            let port = Port::Named(format!("veth{port:06}"));
            for counter in 0..counters {
                layout.counter(
                    &port,
                    format!("counter_{counter}"),
                    Quantity::ReceivedBytes,
                    1.0,
                );
            }
        }
        Arc::new(layout)
    }

    #[test]
    fn every_counter_is_in_one_piece_and_every_piece_fits() {
        for (ports, counters) in [
            (1, 1),
            (40, 11),
            (500, 11),
            (2000, 11),
            (1500, 1),
            (1, 4096),
        ] {
            let layout = layout(ports, counters);
            let pieces = Pieces::of(&layout, 1);
            let mut values = Values::new(ports * counters);
            (0..ports * counters).for_each(|row| values.set(row, Some(row as u64)));
            let mut found = Vec::new();
            for at in 0..pieces.len() {
                let piece = pieces.get(at).unwrap();
                assert!(length(&piece.layout).is_some(), "{ports} × {counters}");
                let mut picked = Values::new(piece.layout.counters.len());
                piece.pick(&values, &mut picked);
                for (counter, value) in piece.layout.counters.iter().zip(picked.iter()) {
                    let row = value.unwrap() as usize;
                    let whole = &layout.counters[row];
                    assert_eq!(counter.name, whole.name);
                    let port = &layout.ports[usize::from(whole.port)];
                    assert_eq!(&piece.layout.ports[usize::from(counter.port)], port);
                    found.push(row);
                }
            }
            found.sort_unstable();
            // One port with more counters than a frame describes is lost as a whole, and counted.
            let kept: Vec<usize> = (0..ports * counters - pieces.lost).collect();
            assert_eq!(found, kept);
            assert_eq!(pieces.lost > 0, (ports, counters) == (1, 4096));
        }
    }

    #[test]
    fn pieces_stay_when_ports_go() {
        let many = Pieces::of(&layout(2000, 11), 1);
        let few = Pieces::of(&layout(3, 11), many.len());
        assert!(many.len() > 2);
        assert_eq!(few.len(), many.len());
        assert!(few.get(1).unwrap().layout.counters.is_empty());
    }
}
