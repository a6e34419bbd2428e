//! Packet level: routers with queues, virtual channels and credits.

mod bits;
mod counters;
mod flits;
mod guard;
mod layout;
mod nic;
mod open_loop;
mod spec;
mod wheel;
mod whole;

pub use counters::{LinkCount, TileCounters};
pub(crate) use guard::{Crossing, Guard};
pub use nic::Packets;
pub use open_loop::{OpenLoop, OpenLoopResult};
pub use spec::RouterSpec;
