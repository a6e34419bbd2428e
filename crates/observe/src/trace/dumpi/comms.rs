//! Membership of communicators, derived from the calls of all ranks that created them.
//!
//! Creation is collective: the k-th communicator that a rank creates from a parent is the k-th for every member. So
//! each group follows from its parent's, beginning with the world.

use super::Rank;
use hopbyte_fabric::InputError;
use hopbyte_fabric::trace::Call;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A communicator created by one rank.
pub(super) struct Made {
    /// Its parent communicator; the world and the rank itself have none.
    pub parent: Option<u32>,
    pub how: How,
}

/// Way in which a communicator was created.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum How {
    /// All members, in the same order.
    Copy,
    /// Members of one colour, ordered by key; a negative colour is in no group.
    Split { color: i64, key: i64 },
    /// The first members, on a grid; ranks are assumed not to be reordered.
    Grid(Vec<i64>),
    /// The parts of a grid along the remaining dimensions.
    Part(Vec<i64>),
    /// An unsupported call.
    Unknown(String),
}

impl Made {
    pub fn world() -> Self {
        Self {
            parent: None,
            how: How::Copy,
        }
    }

    pub fn itself() -> Self {
        Self {
            parent: None,
            how: How::Unknown("MPI_COMM_SELF".into()),
        }
    }
}

/// A resolved group, with its communicator at each member, and its grid.
struct Known {
    group: u32,
    made: Vec<u32>,
    grid: Vec<i64>,
}

/// Resolves all groups, and replaces communicators in the calls by ranks of the world and group numbers.
pub(super) fn resolve(source: &str, ranks: &mut [Rank]) -> Result<Vec<Vec<u32>>, InputError> {
    let n = ranks.len() as u32;
    let children: Vec<HashMap<u32, Vec<u32>>> = ranks.iter().map(children_of).collect();
    let mut groups: Vec<Vec<u32>> = vec![(0..n).collect()];
    let mut group_of: Vec<Vec<Option<u32>>> =
        ranks.iter().map(|r| vec![None; r.made.len()]).collect();
    group_of.iter_mut().for_each(|g| g[0] = Some(0));
    // A rank's own communicator; messages on it cross no link.
    for rank in 0..n {
        group_of[rank as usize][1] = Some(groups.len() as u32);
        groups.push(vec![rank]);
    }
    let mut queue = VecDeque::from([Known {
        group: 0,
        made: vec![0; n as usize],
        grid: Vec::new(),
    }]);
    while let Some(known) = queue.pop_front() {
        let members = groups[known.group as usize].clone();
        let most = members
            .iter()
            .zip(&known.made)
            .map(|(&m, made)| children[m as usize].get(made).map_or(0, Vec::len))
            .max()
            .unwrap_or(0);
        for k in 0..most {
            let mut parts: BTreeMap<i64, Vec<(i64, usize, u32, u32)>> = BTreeMap::new();
            let mut grid = known.grid.clone();
            for (position, (&member, made)) in members.iter().zip(&known.made).enumerate() {
                let own = children[member as usize].get(made).and_then(|c| c.get(k));
                let Some(&own) = own else {
                    let found = format!("rank {member} makes {k} communicators from one");
                    let expected = format!("{most}, as other members make");
                    return Err(
                        InputError::new(source, found, expected).hint("was a rank's file cut off?")
                    );
                };
                let how = &ranks[member as usize].made[own as usize].how;
                match how {
                    How::Copy => {}
                    How::Grid(dims) => grid.clone_from(dims),
                    How::Part(remain) => grid = kept(&known.grid, remain),
                    How::Split { .. } | How::Unknown(_) => grid.clear(),
                }
                if let Some((color, key)) = place(how, position, &known.grid) {
                    parts
                        .entry(color)
                        .or_default()
                        .push((key, position, member, own));
                }
            }
            for mut part in parts.into_values() {
                part.sort_unstable();
                let group = groups.len() as u32;
                for &(_, _, member, own) in &part {
                    group_of[member as usize][own as usize] = Some(group);
                }
                groups.push(part.iter().map(|p| p.2).collect());
                queue.push_back(Known {
                    group,
                    made: part.iter().map(|p| p.3).collect(),
                    grid: grid.clone(),
                });
            }
        }
    }
    for (rank, groups_of) in ranks.iter_mut().zip(&group_of) {
        rank.translate(source, groups_of, &groups)?;
    }
    Ok(groups)
}

/// Dimensions of a part of a grid.
fn kept(grid: &[i64], remain: &[i64]) -> Vec<i64> {
    let dims = grid.iter().zip(remain);
    dims.filter(|(_, keep)| **keep != 0)
        .map(|(&dim, _)| dim)
        .collect()
}

/// Children of each communicator of a rank, in order.
fn children_of(rank: &Rank) -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (own, made) in (0u32..).zip(&rank.made) {
        if let Some(parent) = made.parent {
            children.entry(parent).or_default().push(own);
        }
    }
    children
}

/// Colour and key of a member at a position; `None` for members in no new group, or in an unknown one.
fn place(how: &How, position: usize, grid: &[i64]) -> Option<(i64, i64)> {
    let p = position as i64;
    match how {
        How::Copy => Some((0, p)),
        How::Split { color, key } => (*color >= 0).then_some((*color, *key)),
        How::Grid(dims) => {
            let size = dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d))?;
            (p < size).then_some((0, p))
        }
        How::Part(remain) => {
            // Row-major coordinates; dropped dimensions make the colour.
            let (mut rest, mut color, mut scale) = (p, 0i64, 1i64);
            for (&dim, &keep) in grid.iter().zip(remain).rev() {
                let coordinate = rest.checked_rem(dim.max(1))?;
                rest /= dim.max(1);
                if keep == 0 {
                    color += coordinate * scale;
                    scale = scale.checked_mul(dim.max(1))?;
                }
            }
            (!grid.is_empty()).then_some((color, p))
        }
        How::Unknown(_) => None,
    }
}

impl Rank {
    /// Replaces ranks of communicators by ranks of the world, and communicators by groups.
    fn translate(
        &mut self,
        source: &str,
        groups_of: &[Option<u32>],
        groups: &[Vec<u32>],
    ) -> Result<(), InputError> {
        let made = &self.made;
        let find = |own: u32| {
            groups_of[own as usize].ok_or_else(|| {
                let how = match &made[own as usize].how {
                    How::Unknown(name) => format!("a communicator made by {name}"),
                    how => format!("a communicator that cannot be followed ({how:?})"),
                };
                let expected = "copies, splits, grids and their parts of the world";
                InputError::new(source, how, expected)
            })
        };
        let world = |group: u32, rank: u32| {
            let members = &groups[group as usize];
            members.get(rank as usize).copied().ok_or_else(|| {
                let found = format!("rank {rank} of a communicator of {}", members.len());
                InputError::new(source, found, "a rank that it has")
            })
        };
        for call in &mut self.trace.calls {
            match call {
                Call::Send { to, group, .. } => {
                    *group = find(*group)?;
                    *to = world(*group, *to)?;
                }
                Call::Receive { from, group, .. } => {
                    *group = find(*group)?;
                    if let Some(from) = from {
                        *from = world(*group, *from)?;
                    }
                }
                Call::Collective { group, .. } => *group = find(*group)?,
                _ => {}
            }
        }
        self.own_counts(groups);
        Ok(())
    }

    /// A reduce-scatter's own block is the one at the rank's position.
    fn own_counts(&mut self, groups: &[Vec<u32>]) {
        let me = self.number;
        for &(at, from, to) in &self.own_counts {
            let Call::Collective {
                group, bytes, row, ..
            } = &mut self.trace.calls[at as usize]
            else {
                continue;
            };
            let position = groups[*group as usize].iter().position(|&m| m == me);
            let counts = self.trace.rows.get(from..to).unwrap_or_default();
            *bytes = position.and_then(|p| counts.get(p)).copied().unwrap_or(0.0);
            *row = None;
        }
    }
}
