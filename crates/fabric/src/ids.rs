//! Index types: one per index space, so that the compiler rejects a link id in place of a node id.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id as an array index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of an array index; indices never exceed the id's range (the builder checks).
            #[inline]
            pub fn of(position: usize) -> Self {
                debug_assert!(position <= <$inner>::MAX as usize);
                Self(position as $inner)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index_type!(
    /// A router or switch of one fabric.
    RouterId, u32
);
index_type!(
    /// A node (an endpoint of the network) of one fabric.
    NodeId, u32
);
index_type!(
    /// A directed link of one fabric.
    LinkId, u32
);
index_type!(
    /// A kind of link (backplane, cable, 4xQDR, …) of one fabric.
    KindId, u16
);
