//! Numbers of links from one router that cannot be told apart by their names otherwise.

use crate::direction::Direction;
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, RouterId};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The numbers, from 1, once one was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(OnceLock<HashMap<LinkId, u32>>);

impl PartialEq for Numbers {
    // They follow from the links.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// By which links from one router are told apart.
#[derive(PartialEq, Eq, Hash)]
enum Name<'a> {
    Direction(Direction),
    Port(u16),
    End(End, &'a str),
}

impl Numbers {
    /// The number of a link of this fabric; `None` if its name needs none.
    pub(crate) fn of(&self, fabric: &Fabric, link: LinkId) -> Option<u32> {
        self.0.get_or_init(|| all(fabric)).get(&link).copied()
    }
}

fn all(fabric: &Fabric) -> HashMap<LinkId, u32> {
    let mut alike: HashMap<(RouterId, Name<'_>), Vec<LinkId>> = HashMap::new();
    for id in fabric.link_ids() {
        let link = fabric.link(id);
        let End::Router(from) = link.from else {
            continue;
        };
        let name = match (link.direction, fabric.ports(id)) {
            (Some(direction), _) => Name::Direction(direction),
            (None, [port]) => Name::Port(port.from),
            (None, _) => Name::End(link.to, &fabric.kind(id).name),
        };
        alike.entry((from, name)).or_default().push(id);
    }
    let several = alike.into_values().filter(|links| links.len() > 1);
    several
        .flat_map(|links| links.into_iter().zip(1..))
        .collect()
}
