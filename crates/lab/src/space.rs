//! Code that runs inside a namespace, on a thread of this process. Sockets that it opens belong to that namespace.

use crate::error::{Context, LabError, Result};
use hopbyte_observe::threads::start_in;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::ScopedJoinHandle;

/// Folder of the namespaces of `ip netns`.
const SPACES: &str = "/run/netns";

/// Runs a function in a network namespace, on a thread of its own.
pub fn inside<T: Send>(place: &str, act: impl FnOnce() -> T + Send) -> Result<T> {
    let path = Path::new(SPACES).join(place);
    let space = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let go = move || -> io::Result<T> {
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(act())
    };
    let done = std::thread::scope(|scope| start_in(scope, go).map(ScopedJoinHandle::join))?;
    let done = done.map_err(|_| LabError::Refused(format!("a thread in {place} broke down")))?;
    done.with_context(|| format!("entering {place}"))
}
