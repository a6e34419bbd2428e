//! Sources that are one file of many lines: gpcdr's metric sets, registers of a replayed router, files of LDMS or an
//! exporter.

use super::places::{Clock, Places};
use super::source::{Sample, Source, Unreadable};
use crate::ObserveError;
use crate::counters::newest;
use crate::counters::rates;
use crate::counters::reading::Reading;
use crate::text::{self, Limits};
use hopbyte_fabric::LeftOut;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Path of the metrics of Cray's gpcdr module.
const METRICS: &str = "devices/virtual/gni/gpcdr0/metricsets/links/metrics";

/// Time after the last write of a file for which its rates hold; exporters are asked every 15 or 30 seconds.
const RATES_HOLD: Duration = Duration::from_secs(90);

/// A file that is read from its beginning every time.
#[derive(Debug)]
pub(super) struct Text {
    path: PathBuf,
    file: Option<File>,
    node: String,
    clock: Clock,
}

/// gpcdr's own file, if it exists.
pub(super) fn found(places: &Places) -> Option<Result<Source, ObserveError>> {
    let path = places.sys().join(METRICS);
    path.exists().then(|| open(places, &path))
}

/// A file that the user named.
pub(super) fn open(places: &Places, path: &Path) -> Result<Source, ObserveError> {
    let mut text = Text {
        path: path.to_owned(),
        file: None,
        node: places.node.clone(),
        clock: places.clock(),
    };
    let content = text.content()?;
    let mut reading = text.read(&content)?;
    rates::accumulate(None, &mut reading);
    Ok(Source {
        way: Box::new(text),
        reading,
        place: path.display().to_string(),
        left_out: LeftOut::default(),
    })
}

impl Text {
    fn content(&mut self) -> Result<text::Text, ObserveError> {
        let failed = |error| ObserveError::io(&self.path, error);
        // A descriptor still reads a deleted or replaced file, and would return its old values for ever.
        let linked = |file: &File| file.metadata().is_ok_and(|m| m.nlink() > 0);
        let mut file = match self.file.take().filter(linked) {
            Some(file) => file,
            None => text::open(&self.path).map_err(failed)?,
        };
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let name = self.path.display().to_string();
        let content = text::Text::from_reader(name, BufReader::new(&mut file), Limits::TEXT)?;
        // Kept only if it could be read; otherwise it is reopened next time.
        self.file = Some(file);
        Ok(content)
    }

    /// Whether its writer has stopped. Counters then stand still, but a rate would go on for ever.
    fn is_old(&self) -> bool {
        let about = self.file.as_ref().and_then(|f| f.metadata().ok());
        let age = about.and_then(|m| m.modified().ok()?.elapsed().ok());
        age.is_some_and(|age| age > RATES_HOLD)
    }

    fn read(&self, content: &text::Text) -> Result<Reading, ObserveError> {
        let mut reading = newest(content, &self.node)?;
        // gpcdr has its own clock and repeats a sample within its lifetime: only that clock gives the time between
        // two samples.
        let now = self.clock.now();
        reading.moment.boot = now.boot;
        if reading.moment.time_ns.is_none() {
            reading.moment = now;
        }
        Ok(reading)
    }
}

impl Sample for Text {
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable> {
        let content = self.content().map_err(Unreadable::Content)?;
        let mut new = self.read(&content).map_err(Unreadable::Content)?;
        if self.is_old() {
            rates::lose(&mut new);
        }
        rates::accumulate(Some(reading), &mut new);
        // Equal layouts share one allocation, so that readers detect an unchanged layout by pointer.
        if new.layout == reading.layout {
            new.layout = reading.layout.clone();
        }
        *reading = new;
        Ok(())
    }
}
