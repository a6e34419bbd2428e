//! The links of a machine as a page: load of each direction, and the worst links.

use super::{HISTORY, Room, beside_links, fault_text, shortened, spark, widest};
use hopbyte_fabric::{Fabric, LinkId, LinkState};
use hopbyte_job::attribution::Attribution;
use hopbyte_job::faults::{Fault, Timeline};
use hopbyte_job::links::worst_first;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

/// Characters of a full bar.
const BAR: usize = 30;

/// Faults that ended, and faults that last, of a page.
const FAULTS: usize = 8;

/// Links over the last ticks.
pub struct LinksPage {
    fabric: Fabric,
    past: HashMap<LinkId, VecDeque<f64>>,
    faults: Timeline,
    /// Bytes by job of the last state.
    by_job: Option<Arc<Attribution>>,
}

/// Load of the links of one direction, or of one kind if there are no directions.
#[derive(Default)]
struct Group {
    links: usize,
    known: usize,
    sum: f64,
    worst: f64,
}

impl LinksPage {
    /// Initial state, without a reading.
    pub fn new(fabric: Fabric) -> Self {
        Self {
            fabric,
            past: HashMap::new(),
            faults: Timeline::default(),
            by_job: None,
        }
    }

    /// Takes the state of a time with the bytes by job, if they are known; returns the faults that began or ended.
    pub fn take(&mut self, state: &LinkState, at: f64, by_job: Option<Attribution>) -> Vec<Fault> {
        self.faults
            .take(&self.fabric, state, at, by_job.map(Arc::new))
    }

    /// Faults that last, the oldest first.
    pub fn lasting(&self) -> Vec<Fault> {
        self.faults.lasting()
    }

    /// The machine.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Renders the page after a tick, with the worst `top` links and their jobs, and the faults. `None`: no link was read
    /// twice yet.
    pub fn text(&mut self, state: Option<&LinkState>, top: usize, room: Room) -> String {
        let Some(state) = state else {
            return "no link was read twice yet\n".to_owned();
        };
        for link in self.fabric.link_ids() {
            let used = state.used_ratio.get(link);
            if used.is_none() && !self.past.contains_key(&link) {
                continue;
            }
            let history = self.past.entry(link).or_default();
            history.push_back(used.unwrap_or(f64::NAN));
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        self.past.retain(|_, h| h.iter().any(|v| !v.is_nan()));
        self.bars(state) + &self.worst(state, top, room) + &self.faults_text()
    }

    fn bars(&self, state: &LinkState) -> String {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for id in self.fabric.link_ids() {
            let link = self.fabric.link(id);
            let name = link.direction.map_or_else(
                || self.fabric.kind(id).name.clone(),
                |direction| direction.to_string(),
            );
            let group = groups.entry(name).or_default();
            group.links += 1;
            if let Some(used) = state.used_ratio.get(id) {
                group.known += 1;
                group.sum += used;
                group.worst = group.worst.max(used);
            }
        }
        let mut text = format!(
            "{:<10} {:<BAR$} {:>7} {:>7} {:>13}\n",
            "direction", "mean (#) to worst (-)", "mean %", "worst %", "read of links"
        );
        for (name, group) in &groups {
            let mean = (group.known > 0).then(|| group.sum / group.known as f64);
            let worst = mean.map(|_| group.worst);
            let _ = writeln!(
                text,
                "{:<10} {:<BAR$} {:>7} {:>7} {:>13}",
                shortened(name, 10),
                bar(mean.unwrap_or(0.0), worst.unwrap_or(0.0)),
                percent(mean),
                percent(worst),
                format!("{} of {}", group.known, group.links),
            );
        }
        text
    }

    /// The last faults that ended, and those that last.
    fn faults_text(&self) -> String {
        let lasting = self.lasting();
        let shown = lasting.iter().take(FAULTS).map(fault_text);
        let ended = self.faults.ended();
        let past = ended.len().saturating_sub(FAULTS);
        let lines = ended.skip(past).map(fault_text).chain(shown);
        let mut text: String = lines.map(|line| line + "\n").collect();
        if lasting.len() > FAULTS {
            let _ = writeln!(text, "and {} more faults that last", lasting.len() - FAULTS);
        }
        text
    }

    fn worst(&self, state: &LinkState, top: usize, room: Room) -> String {
        let words = beside_links(self.by_job.as_deref(), None, &self.fabric, state);
        let beside = words.as_ref().map(|(_, words)| words);
        // Without a kind to look for there is no error.
        let mut links = worst_first(None, None, &self.fabric, state).unwrap_or_default();
        links.retain(|l| state.coverage[l.index()] > 0.0);
        let named: Vec<(LinkId, String)> = links
            .iter()
            .take(top)
            .map(|&link| (link, self.fabric.link_name(link)))
            .collect();
        let name = widest(named.iter().map(|(_, name)| name.as_str()), 32);
        let columns = format!(
            "{:<name$} {:>11} {:>7} {:>10} {:>11} {:>8}",
            "link", "MB/s", "used %", "in stall %", "out stall %", "errors"
        );
        let ticks = room.ticks(&columns);
        let mut text = format!("{columns}  used, last {ticks} ticks\n");
        for (link, of) in named {
            let rate = state.received_bytes.get(link).zip(state.window_seconds);
            let rate = rate.filter(|r| r.1 > 0.0).map(|(bytes, s)| bytes / s / 1e6);
            let _ = writeln!(
                text,
                "{:<name$} {:>11} {:>7} {:>10} {:>11} {:>8}  {}",
                shortened(&of, name),
                rate.map_or("-".into(), |r| format!("{r:.3}")),
                percent(state.used_ratio.get(link)),
                percent(state.input_stall_ratio.get(link)),
                percent(state.credit_stall_ratio.get(link)),
                state
                    .errors
                    .get(link)
                    .map_or("-".into(), |e| format!("{}{e:.0}", state.at_least(link))),
                self.past
                    .get(&link)
                    .map(|history| spark(history, ticks, Some(1.0)))
                    .unwrap_or_default(),
            );
            if let Some(words) = beside.map(|text| text(link)).filter(|w| !w.is_empty()) {
                let _ = writeln!(text, "{:<name$} {words}", "");
            }
        }
        if links.len() > top {
            let _ = writeln!(text, "and {} more links", links.len() - top);
        }
        text
    }
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |r| format!("{:.1}", r * 100.0))
}

/// `####----` : full at a ratio of one.
fn bar(mean: f64, worst: f64) -> String {
    let cells = |ratio: f64| ((ratio.clamp(0.0, 1.0) * BAR as f64).round() as usize).min(BAR);
    let (mean, worst) = (cells(mean), cells(worst));
    "#".repeat(mean) + &"-".repeat(worst.saturating_sub(mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn directions_and_the_worst_links_are_shown() {
        let mut page = LinksPage::new(spec::fabric("torus:4x2").unwrap());
        assert_eq!(
            page.text(None, 3, Room::ENDLESS),
            "no link was read twice yet\n"
        );
        let mut state = LinkState::unknown(page.fabric());
        state.window_seconds = Some(1.0);
        let mut ids = page.fabric().link_ids().filter(|&l| {
            let direction = page.fabric().link(l).direction;
            direction.is_some_and(|d| d.to_string() == "X+")
        });
        let (a, b) = (ids.next().unwrap(), ids.next().unwrap());
        drop(ids);
        for (link, used) in [(a, 0.25), (b, 0.75)] {
            state.used_ratio.set(link, Some(used));
            state.received_bytes.set(link, Some(used * 1e9));
            state.coverage[link.index()] = 1.0;
        }
        page.text(Some(&state), 3, Room::ENDLESS);
        let text = page.text(Some(&state), 1, Room::ENDLESS);
        let row = text.lines().find(|l| l.starts_with("X+ ")).unwrap();
        assert!(row.contains("###############-------- "), "{row}");
        assert!(row.contains("50.0    75.0"), "{row}");
        assert!(row.contains("2 of 8"), "{row}");
        let name = page.fabric().link_name(b);
        let row = text.lines().find(|l| l.starts_with(&name)).unwrap();
        assert!(
            row.contains("750.000    75.0") && row.ends_with("▆▆"),
            "{row}"
        );
        assert!(text.ends_with("and 1 more links\n"), "{text}");
        // Links that are no longer read become blank, and are removed after the last tick shown.
        let unknown = LinkState::unknown(page.fabric());
        (0..HISTORY).for_each(|_| drop(page.text(Some(&unknown), 1, Room::ENDLESS)));
        assert!(page.past.is_empty());
    }
}
