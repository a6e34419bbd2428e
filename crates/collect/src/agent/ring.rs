//! Samples that wait for acknowledgement, and the sources they are read from.

use super::pieces::{Piece, Pieces};
use crate::wire::{
    Header, Kind, LONGEST_FRAME, MOST_SOURCES, Part, Sampled, frame, put_report, put_source,
};
use hopbyte_observe::counters::reading::{Layout, Reading};
use hopbyte_observe::counters::values::Values;
use hopbyte_observe::sources::Source;
use std::collections::VecDeque;
use std::sync::Arc;

/// One tick's values of all sources.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    header: Header,
    parts: Vec<Read>,
    /// Acknowledged before an older sample.
    kept: bool,
}

/// One source's values.
#[derive(Clone, Debug)]
struct Read {
    layout: Arc<Layout>,
    boot: Option<u64>,
    part: Part,
    values: Values,
}

/// Sources, with the state of their last reading.
pub struct Reader {
    sources: Vec<(Source, bool)>,
    pieces: Vec<Pieces>,
    /// Source and piece by number on the wire.
    order: Vec<(usize, usize)>,
    /// Groups of ports that do not fit from the start, until they are reported.
    unsaid: Vec<String>,
}

impl Reader {
    pub fn new(sources: Vec<Source>) -> Self {
        let all = || sources.iter().map(Source::layout);
        let pieces: Vec<Pieces> = all().map(|layout| Pieces::of(layout, 1)).collect();
        let first = (0..sources.len()).map(|source| (source, 0));
        let more = pieces.iter().enumerate();
        let more = more.flat_map(|(source, p)| (1..p.len()).map(move |piece| (source, piece)));
        let mut order: Vec<(usize, usize)> = first.chain(more).collect();
        let beyond = order.get(MOST_SOURCES..).unwrap_or_default();
        let lost = all().zip(&pieces).enumerate().map(|(at, (layout, p))| {
            let beyond = beyond.iter().filter(|(source, _)| *source == at).count();
            does_not_fit(layout, p.lost, beyond)
        });
        let unsaid = lost.flatten().collect();
        order.truncate(MOST_SOURCES);
        Self {
            sources: sources.into_iter().map(|s| (s, true)).collect(),
            pieces,
            order,
            unsaid,
        }
    }

    /// Looks at queues between two ticks; false if there are none.
    pub fn glance(&mut self) -> bool {
        let glances = self.sources.iter_mut().map(|(source, _)| source.glance());
        glances.fold(false, |any, one| any | one)
    }

    /// Reads all sources into a sample; returns the number of failures. Prints the first of consecutive
    /// failures of a source.
    pub fn read(&mut self, sample: &mut Sample, say: &mut impl FnMut(&str)) -> u64 {
        let mut failed = 0;
        self.unsaid.drain(..).for_each(|text| say(&text));
        let mut readings = Vec::with_capacity(self.sources.len());
        for ((source, well), at) in self.sources.iter_mut().zip(0..) {
            let place = (!*well).then(|| source.place().to_owned());
            let sampled = source.sample();
            if let Ok(reading) = &sampled {
                divide(&mut self.pieces, &mut self.order, at, &reading.layout, say);
            }
            match sampled {
                Ok(reading) => {
                    readings.push(Some(reading));
                    *well = true;
                    if let Some(place) = place {
                        say(&format!("{place}: readable again"));
                    }
                }
                Err(error) => {
                    failed += 1;
                    if std::mem::replace(well, false) {
                        say(&format!("{error}; other sources are still read"));
                    }
                    readings.push(None);
                }
            }
        }
        let last = self.order.len().saturating_sub(1);
        for (&(source, piece), index) in self.order.iter().zip(0..) {
            let Some(piece) = self.pieces[source].get(piece) else {
                continue;
            };
            // TCP without peers, the last of several sources, has nothing to send.
            let at = usize::from(index);
            if at > 0 && at == last && piece.layout.counters.is_empty() {
                sample.parts.truncate(at);
            } else {
                sample.take_piece(index, readings[source], piece);
            }
        }
        failed
    }
}

/// Divides a source whose layout changed. Numbers of pieces that it has already are kept.
fn divide(
    pieces: &mut [Pieces],
    order: &mut Vec<(usize, usize)>,
    source: usize,
    layout: &Arc<Layout>,
    say: &mut impl FnMut(&str),
) {
    if pieces[source].is_of(layout) {
        return;
    }
    let before = pieces[source].len();
    pieces[source] = Pieces::of(layout, before);
    let all = pieces[source].len();
    order.extend((before..all).map(|piece| (source, piece)));
    let beyond = order.len().saturating_sub(MOST_SOURCES);
    order.truncate(MOST_SOURCES);
    let text = does_not_fit(layout, pieces[source].lost, beyond);
    text.into_iter().for_each(|text| say(&text));
}

fn does_not_fit(layout: &Layout, lost: usize, beyond: usize) -> Option<String> {
    (lost > 0 || beyond > 0).then(|| {
        let source = &layout.source;
        format!(
            "{source}: {lost} counters and {beyond} groups of ports do not fit into {MOST_SOURCES} frames and are not sent"
        )
    })
}

impl Sample {
    /// Files a reading of a source that is not divided.
    #[cfg(test)]
    pub(crate) fn take(&mut self, index: u8, reading: Option<&Reading>, layout: &Arc<Layout>) {
        self.take_piece(index, reading, &Piece::whole(layout));
    }

    fn take_piece(&mut self, index: u8, reading: Option<&Reading>, piece: &Piece) {
        let layout = &piece.layout;
        let at = usize::from(index);
        let same = self
            .parts
            .get(at)
            .is_some_and(|r| Arc::ptr_eq(&r.layout, layout));
        if !same {
            let read = Read {
                layout: layout.clone(),
                boot: None,
                part: Part::default(),
                values: Values::new(layout.counters.len()),
            };
            self.parts.truncate(at);
            self.parts.push(read);
        }
        let read = &mut self.parts[at];
        let moment = reading.map(|r| r.moment).unwrap_or_default();
        read.boot = moment.boot;
        read.part = Part {
            source: index,
            read: reading.is_some(),
            key: false,
            time_ns: moment.time_ns,
            steady_ns: moment.steady_ns,
        };
        match reading {
            Some(reading) => piece.pick(&reading.values, &mut read.values),
            None => read.values.unread(),
        }
    }
}

/// Receiver's state of a source on this connection.
#[derive(Clone, Debug)]
struct Told {
    layout: Arc<Layout>,
    boot: Option<u64>,
    values: Option<Values>,
}

/// Samples in order of their sequence numbers; if the ring is full, the oldest is evicted.
#[derive(Clone, Debug)]
pub struct Ring {
    samples: VecDeque<Sample>,
    spare: Vec<Sample>,
    most: usize,
    dropped: u64,
    acknowledged: u64,
    begun: Option<Sample>,
    /// Number of samples from the front that were sent on this connection.
    sent: usize,
    told: Vec<Told>,
    /// Sources left out of the last report for its length, and whether that was printed.
    cut: usize,
    said_cut: bool,
}

impl Ring {
    pub fn new(most: usize) -> Self {
        Self {
            samples: VecDeque::new(),
            spare: Vec::new(),
            most: most.max(1),
            dropped: 0,
            acknowledged: 0,
            begun: None,
            sent: 0,
            told: Vec::new(),
            cut: 0,
            said_cut: false,
        }
    }

    /// The number of sources that do not fit into a report, once.
    pub fn first_cut(&mut self) -> Option<usize> {
        let said = self.said_cut || self.cut == 0;
        self.said_cut |= self.cut > 0;
        (!said).then_some(self.cut)
    }

    /// An empty sample; evicts the oldest one if the ring is full.
    pub fn begin(&mut self) -> &mut Sample {
        if self.samples.len() == self.most {
            self.dropped += 1;
            self.pass();
        }
        let spare = self.spare.pop().unwrap_or_default();
        self.begun.insert(spare)
    }

    /// Adds the filled sample.
    pub fn end(&mut self, header: Header) {
        if let Some(mut sample) = self.begun.take() {
            sample.header = header;
            sample.kept = false;
            self.samples.push_back(sample);
        }
    }

    /// Number of evicted samples.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The highest acknowledged sequence number.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Header of the newest sample.
    pub fn last_header(&self) -> Option<Header> {
        self.samples.back().map(|s| s.header)
    }

    /// Handles the acknowledgement of all samples up to a sequence number.
    pub fn kept(&mut self, sequence: u64) {
        self.acknowledged = self.acknowledged.max(sequence);
        while self
            .samples
            .front()
            .is_some_and(|s| s.header.sequence <= sequence)
        {
            self.pass();
        }
    }

    /// Removes the oldest sample; its memory is reused.
    fn pass(&mut self) {
        self.sent = self.sent.saturating_sub(1);
        let oldest = self.samples.pop_front();
        self.spare.extend(oldest.filter(|_| self.spare.len() < 2));
    }

    /// Handles the acknowledgement of one sample, in any order.
    pub fn kept_one(&mut self, sequence: u64) {
        let at = self
            .samples
            .partition_point(|s| s.header.sequence < sequence);
        if let Some(sample) = self.samples.get_mut(at)
            && sample.header.sequence == sequence
        {
            sample.kept = true;
        }
        while let Some(front) = self.samples.front().filter(|s| s.kept) {
            self.kept(front.header.sequence);
        }
    }

    /// Handles a new connection: the receiver has no state.
    pub fn anew(&mut self) {
        self.sent = 0;
        self.told.clear();
    }

    /// Handles the loss of the receiver's state.
    pub fn restart(&mut self) {
        self.told.clear();
    }

    /// Removes sent samples without an acknowledgement (single packets).
    pub fn forget(&mut self) {
        (0..self.sent).for_each(|_| self.pass());
    }

    /// Sequence number of the next sample to send.
    pub fn next_sequence(&self) -> Option<u64> {
        self.samples.get(self.sent).map(|s| s.header.sequence)
    }

    /// Sequence number of the next sample to send, if all earlier ones are acknowledged: a stream may lose one of
    /// several publications on the way, and a collector skips numbers below the highest one.
    pub fn next_in_turn(&self) -> Option<u64> {
        self.next_sequence().filter(|_| !self.has_sent())
    }

    /// Whether samples were sent without an acknowledgement so far.
    pub fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// Whether samples are unsent on this connection.
    pub fn has_news(&self) -> bool {
        self.sent < self.samples.len()
    }

    /// Appends the frames of the next report: sources unknown to the receiver, then the report. With
    /// `whole`, values are absolute.
    pub fn next(&mut self, whole: bool, out: &mut Vec<u8>) {
        self.next_within(whole, LONGEST_FRAME, out);
    }

    /// Like [`Ring::next`], with a report of at most `most` bytes: the last sources are marked as unread until it
    /// fits.
    pub fn next_within(&mut self, whole: bool, most: usize, out: &mut Vec<u8>) {
        let Some(sample) = self.samples.get(self.sent) else {
            return;
        };
        self.sent += 1;
        for (i, read) in sample.parts.iter().enumerate() {
            let told = self.told.get(i);
            // A failed reading does not contain the device's boot.
            let new = told.is_none_or(|t| {
                !Arc::ptr_eq(&t.layout, &read.layout) || (read.part.read && t.boot != read.boot)
            });
            if !new {
                continue;
            }
            self.told.truncate(i);
            self.told.push(Told {
                layout: read.layout.clone(),
                boot: read.boot,
                values: None,
            });
            frame(out, Kind::Source, |out| {
                let start = out.len();
                if put_source(read.part.source, read.boot, &read.layout, out).is_err() {
                    out.truncate(start);
                }
            });
        }
        let mut fit = sample.parts.len();
        loop {
            let start = out.len();
            frame(out, Kind::Report, |out| {
                let parts = sample.parts.iter().zip(&self.told).enumerate();
                let parts = parts.map(|(at, (read, told))| {
                    let base = told.values.as_ref().filter(|_| !whole);
                    Sampled {
                        part: Part {
                            key: base.is_none(),
                            read: read.part.read && at < fit,
                            ..read.part
                        },
                        values: &read.values,
                        base,
                    }
                });
                put_report(&sample.header, parts, out);
            });
            if fit == 0 || out.len() - start <= most {
                break;
            }
            out.truncate(start);
            fit -= 1;
        }
        self.cut = sample.parts.len() - fit;
        if whole {
            return;
        }
        for ((told, read), at) in self.told.iter_mut().zip(&sample.parts).zip(0..) {
            if at >= fit {
                // The receiver holds no values of it.
                told.values = Some(Values::new(read.values.len()));
                continue;
            }
            match &mut told.values {
                Some(values) => values.clone_from(&read.values),
                none => *none = Some(read.values.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(reports: u64, most: usize) -> Ring {
        let mut ring = Ring::new(most);
        for sequence in 1..=reports {
            ring.begin();
            ring.end(Header {
                sequence,
                ..Header::default()
            });
        }
        ring
    }

    #[test]
    fn the_oldest_is_given_up_and_counted() {
        let mut ring = ring(7, 5);
        assert_eq!((ring.dropped(), ring.next_sequence()), (2, Some(3)));
        let mut sent = 0;
        while ring.has_news() {
            ring.next(true, &mut Vec::new());
            sent += 1;
        }
        ring.begin();
        ring.end(Header {
            sequence: 8,
            ..Header::default()
        });
        assert_eq!(
            (sent, ring.dropped(), ring.next_sequence()),
            (5, 3, Some(8))
        );
        // A new connection begins with the first unacknowledged sample.
        ring.kept(5);
        ring.anew();
        assert_eq!((ring.acknowledged(), ring.next_sequence()), (5, Some(6)));
    }

    #[test]
    fn what_is_kept_out_of_order_waits_for_those_in_front() {
        let mut ring = ring(4, 9);
        (0..3).for_each(|_| ring.next(true, &mut Vec::new()));
        ring.kept_one(2);
        assert_eq!(ring.acknowledged(), 0);
        ring.kept_one(99);
        ring.kept_one(1);
        assert_eq!((ring.acknowledged(), ring.next_sequence()), (2, Some(4)));
        assert!(ring.has_sent(), "the third one");
        ring.forget();
        assert_eq!((ring.has_sent(), ring.next_sequence()), (false, Some(4)));
    }
}
