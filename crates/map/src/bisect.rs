//! Recursive coordinate bisection of tasks and places together.
//!
//! A plan lists the dimensions of the cuts, (tasks', places') by depth. All pieces of a depth are cut along the
//! same dimensions, so a plan folds a grid of tasks into a machine: each cut assigns a binary digit of the
//! task's coordinate to a digit of the place's. Cutting the longest side is only one plan and ignores routes
//! and capacities; the search over plans evaluates both.

use crate::coords::{DIMS, Point};
use crate::schedule::Stop;
use crate::threads::each;
use hopbyte_fabric::random::Random;

/// Points with their ranks in the order along every dimension: by that coordinate, then by the next ones, then by
/// number. Computed once for all plans, so that a cut compares numbers.
struct Ranked<'a> {
    points: &'a [Point],
    /// By dimension.
    rank: Vec<Vec<u32>>,
}

impl<'a> Ranked<'a> {
    /// Ranks along the first `used` dimensions.
    fn new(points: &'a [Point], used: usize) -> Self {
        let along = |along: usize| {
            let mut ids: Vec<u32> = (0..points.len() as u32).collect();
            ids.sort_unstable_by(|&a, &b| {
                let (p, q) = (&points[a as usize], &points[b as usize]);
                (0..used)
                    .map(|k| p[(along + k) % used].total_cmp(&q[(along + k) % used]))
                    .find(|o| o.is_ne())
                    .unwrap_or(a.cmp(&b))
            });
            let mut rank = vec![0; points.len()];
            for (place, &id) in ids.iter().enumerate() {
                rank[id as usize] = place as u32;
            }
            rank
        };
        Self {
            points,
            rank: (0..used).map(along).collect(),
        }
    }

    /// Extent of some points along a dimension.
    fn length(&self, ids: &[u32], d: usize) -> f32 {
        let ends = ids.iter().fold((f32::MAX, f32::MIN), |(low, high), &id| {
            let at = self.points[id as usize][d];
            (low.min(at), high.max(at))
        });
        ends.1 - ends.0
    }

    /// Partitions `ids` so that the lowest `count` come first, along the wanted dimension if the points differ
    /// there, else along the longest.
    fn cut(&self, ids: &mut [u32], count: usize, wanted: Option<u8>) {
        if count == 0 || count >= ids.len() {
            return;
        }
        let wanted = wanted.map(usize::from).filter(|&d| d < self.rank.len());
        let along = wanted.filter(|&d| self.length(ids, d) > 0.0);
        let along = along.unwrap_or_else(|| {
            let length: Vec<f32> = (0..self.rank.len()).map(|d| self.length(ids, d)).collect();
            (0..length.len()).fold(0, |best, d| if length[d] > length[best] { d } else { best })
        });
        let rank = &self.rank[along];
        ids.select_nth_unstable_by_key(count, |&id| rank[id as usize]);
    }
}

/// Splits tasks and places together: first along the plan, then each along its longest side, until every place
/// has its tasks. `room` is the number of tasks on every place; they add up to the number of tasks.
fn bisect(
    (tasks, places, room): (&Ranked<'_>, &Ranked<'_>, &[u32]),
    plan: &[(u8, u8)],
) -> Vec<u32> {
    let mut task_ids: Vec<u32> = (0..tasks.points.len() as u32).collect();
    let mut place_ids: Vec<u32> = (0..places.points.len() as u32)
        .filter(|&p| room[p as usize] > 0)
        .collect();
    let mut place_of = vec![0; task_ids.len()];
    let both = (tasks, places, room);
    split(both, plan, &mut task_ids, &mut place_ids, &mut place_of);
    place_of
}

fn split(
    both: (&Ranked<'_>, &Ranked<'_>, &[u32]),
    plan: &[(u8, u8)],
    task_ids: &mut [u32],
    place_ids: &mut [u32],
    place_of: &mut [u32],
) {
    if place_ids.len() <= 1 || task_ids.is_empty() {
        if let Some(&place) = place_ids.first() {
            for &mut task in task_ids {
                place_of[task as usize] = place;
            }
        }
        return;
    }
    let (tasks, places, room) = both;
    let half = place_ids.len() / 2;
    places.cut(place_ids, half, plan.first().map(|p| p.1));
    let here: u32 = place_ids[..half].iter().map(|&p| room[p as usize]).sum();
    let here = here as usize;
    tasks.cut(task_ids, here, plan.first().map(|p| p.0));
    let rest = plan.get(1..).unwrap_or(&[]);
    let (near_tasks, far_tasks) = task_ids.split_at_mut(here);
    let (near_places, far_places) = place_ids.split_at_mut(half);
    split(both, rest, near_tasks, near_places, place_of);
    split(both, rest, far_tasks, far_places, place_of);
}

/// Number of halvings of every dimension of a side, and its extent.
struct Side {
    digits: [u32; DIMS],
    extent: [f32; DIMS],
}

impl Side {
    fn of(points: &[Point]) -> Self {
        let values = |d: usize| {
            let mut values: Vec<f32> = points.iter().map(|p| p[d]).collect();
            values.sort_by(f32::total_cmp);
            values.dedup();
            values
        };
        let all: [Vec<f32>; DIMS] = std::array::from_fn(values);
        Self {
            digits: std::array::from_fn(|d| all[d].len().next_power_of_two().trailing_zeros()),
            extent: std::array::from_fn(|d| match (all[d].first(), all[d].last()) {
                (Some(low), Some(high)) => high - low + 1.0,
                _ => 1.0,
            }),
        }
    }

    /// An order of all halvings: the longest dimension first, with random factors of up to `spread`.
    fn order(&self, spread: f32, rng: &mut Random) -> Vec<u8> {
        let (mut left, mut extent) = (self.digits, self.extent);
        let mut order = Vec::new();
        while left.iter().any(|&n| n > 0) {
            let length = extent.map(|e| e * spread.powf(rng.unit() as f32));
            let open = (0..DIMS).filter(|&d| left[d] > 0);
            let Some(d) = open.max_by(|&a, &b| length[a].total_cmp(&length[b])) else {
                break;
            };
            left[d] -= 1;
            extent[d] *= 0.5;
            order.push(d as u8);
        }
        order
    }
}

/// Maximum number of permutations of dimensions that are tried.
const PERMUTATIONS: usize = 120;

/// Permutations of the first dimensions, the others in place.
fn permutations(dims: usize) -> Vec<[usize; DIMS]> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..dims {
        let longer = |p: &Vec<usize>| -> Vec<Vec<usize>> {
            let next = (0..dims).filter(|d| !p.contains(d));
            next.map(|d| p.iter().copied().chain([d]).collect())
                .collect()
        };
        all = all.iter().flat_map(longer).take(PERMUTATIONS).collect();
    }
    let whole = |p: &Vec<usize>| std::array::from_fn(|d| p.get(d).copied().unwrap_or(d));
    all.iter().map(whole).collect()
}

/// Dimensions in which points differ, up to the last such one; at least one.
fn used(points: &[Point]) -> usize {
    let varies = |d: &usize| points.iter().any(|p| p[*d] != points[0][*d]);
    (0..DIMS).rev().find(varies).map_or(1, |d| d + 1)
}

/// Orders that always halve the longest dimension of the tasks and the matching dimension of the places while
/// that can be halved. Optimal where both grids have the same shape.
fn along(sides: &[Side; 2], axes: [usize; DIMS]) -> [Vec<u8>; 2] {
    let mut left = [sides[0].digits, sides[1].digits];
    let mut extent = [sides[0].extent, sides[1].extent];
    let mut orders = [Vec::new(), Vec::new()];
    loop {
        let longest = |side: usize| {
            let open = (0..DIMS).filter(|&d| left[side][d] > 0);
            open.max_by(|&a, &b| extent[side][a].total_cmp(&extent[side][b]))
        };
        let (Some(task), Some(other)) = (longest(0), longest(1)) else {
            return orders;
        };
        let beside = axes[task];
        let place = if left[1][beside] > 0 { beside } else { other };
        for (side, d) in [task, place].into_iter().enumerate() {
            left[side][d] -= 1;
            extent[side][d] *= 0.5;
            orders[side].push(d as u8);
        }
    }
}

/// Plans in one round of the search: the first quarter random, then mutations of the round's best.
const ROUND: usize = 300;

/// Plans that are evaluated in parallel.
const TOGETHER: usize = 4;

/// Searches for the plan with the cheapest map: the axis-aligned plans first, then `tries` more in rounds.
/// `cost` evaluates a map.
pub(crate) fn planned(
    (tasks, places, room): (&[Point], &[Point], &[u32]),
    tries: usize,
    cost: impl Fn(&[u32]) -> f64 + Sync,
    (rng, stop): (&mut Random, Stop),
) -> Option<Vec<u32>> {
    let taken = room.iter().filter(|&&r| r > 0).count();
    let depth = taken.next_power_of_two().trailing_zeros() as usize;
    let sides = [Side::of(tasks), Side::of(places)];
    let dimensions = used(tasks).max(used(places));
    let ranked = [tasks, places].map(|points| Ranked::new(points, dimensions));
    let round = tries.div_ceil(tries.div_ceil(ROUND).max(1)).max(1);
    let made = |[a, b]: &[Vec<u8>; 2]| {
        let pairs = a.iter().copied().zip(b.iter().copied());
        let plan: Vec<(u8, u8)> = pairs.take(depth).collect();
        let map = bisect((&ranked[0], &ranked[1], room), &plan);
        (cost(&map), map)
    };
    let axes = permutations(dimensions);
    let straight = each(axes.len(), &|number| {
        (!stop.is_set()).then(|| made(&along(&sides, axes[number])))
    });
    let straight = straight.into_iter().flatten();
    let mut best = straight.min_by(|a, b| a.0.total_cmp(&b.0));
    let mut of_round: Option<(f64, [Vec<u8>; 2])> = None;
    let mut number = 0;
    while number < tries && !stop.is_set() {
        if number % round == 0 {
            of_round = None;
        }
        let batch = TOGETHER.min(tries - number).min(round - number % round);
        let next: Vec<[Vec<u8>; 2]> = (number..number + batch)
            .map(|number| match &of_round {
                Some((_, orders)) if number % round >= round / 4 => changed(orders, rng),
                _ => {
                    let spread = [1.0, 8.0, 1e6][number % 3];
                    [0, 1].map(|side: usize| sides[side].order(spread, rng))
                }
            })
            .collect();
        let maps = each(next.len(), &|number| made(&next[number]));
        for ((cost, map), orders) in maps.into_iter().zip(next) {
            if of_round.as_ref().is_none_or(|b| cost <= b.0) {
                of_round = Some((cost, orders));
            }
            if best.as_ref().is_none_or(|b| cost < b.0) {
                best = Some((cost, map));
            }
        }
        number += batch;
    }
    best.map(|b| b.1)
}

/// The orders with one or two pairs of halvings exchanged at random.
fn changed(orders: &[Vec<u8>; 2], rng: &mut Random) -> [Vec<u8>; 2] {
    let mut orders = orders.clone();
    for _ in 0..1 + rng.below(2) {
        let order = &mut orders[rng.below(2)];
        if !order.is_empty() {
            let (i, j) = (rng.below(order.len()), rng.below(order.len()));
            order.swap(i, j);
        }
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coords::point;

    #[test]
    fn a_plan_gives_the_digits_of_one_grid_to_the_other() {
        let line = |n: u32| (0..n).map(|i| point(&[i as f32])).collect::<Vec<Point>>();
        let square: Vec<Point> = (0..16)
            .map(|i| point(&[(i / 4) as f32, (i % 4) as f32]))
            .collect();
        // The line's first two digits choose the column, the others the row.
        let plan = [(0, 1), (0, 1), (0, 0), (0, 0)];
        let (line, square) = (line(16), square);
        let ranked = [&line, &square].map(|points| Ranked::new(points, 2));
        let map = bisect((&ranked[0], &ranked[1], &[1; 16]), &plan);
        let column_first: Vec<u32> = (0..16).map(|i| i % 4 * 4 + i / 4).collect();
        assert_eq!(map, column_first);
    }

    #[test]
    fn grids_of_one_shape_are_laid_along_each_other_at_once() {
        // 8x2x4 tasks; the machine's 4x8x2 places are the same grid with permuted dimensions.
        let grid = |dims: [u32; 3]| -> Vec<Point> {
            let all = 0..dims.iter().product::<u32>();
            all.map(|i| {
                let (x, y, z) = (i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]);
                point(&[x as f32, y as f32, z as f32])
            })
            .collect()
        };
        let (tasks, places) = (grid([8, 2, 4]), grid([4, 8, 2]));
        let apart = |map: &[u32]| -> f64 {
            let off = |(task, &place): (&Point, &u32)| {
                let at = places[place as usize];
                let moved = [at[1], at[2], at[0]];
                f64::from((0..3).map(|d| (moved[d] - task[d]).abs()).sum::<f32>())
            };
            tasks.iter().zip(map).map(off).sum()
        };
        let sides = (&tasks[..], &places[..], &[1; 64][..]);
        let found = planned(
            sides,
            0,
            apart,
            (&mut Random::stream(1, 1), Stop::default()),
        )
        .unwrap();
        assert_eq!(apart(&found), 0.0);
    }

    #[test]
    fn the_search_among_plans_finds_a_stencils_own_grid() {
        // A 4x16 grid of tasks on a machine with the same grid, transposed.
        let tasks: Vec<Point> = (0..64)
            .map(|i| point(&[(i / 16) as f32, (i % 16) as f32]))
            .collect();
        let places: Vec<Point> = (0..64)
            .map(|i| point(&[(i / 4) as f32, (i % 4) as f32]))
            .collect();
        let hops = |map: &[u32]| -> f64 {
            let at = |t: usize| places[map[t] as usize];
            let apart =
                |a: usize, b: usize| -> f32 { (0..3).map(|d| (at(a)[d] - at(b)[d]).abs()).sum() };
            let right = (0..64).filter(|t| t % 16 < 15).map(|t| apart(t, t + 1));
            let down = (0..48).map(|t| apart(t, t + 16));
            f64::from(right.sum::<f32>() + down.sum::<f32>())
        };
        let sides = (&tasks[..], &places[..], &[1; 64][..]);
        let found = planned(
            sides,
            200,
            hops,
            (&mut Random::stream(1, 1), Stop::default()),
        )
        .unwrap();
        assert_eq!(hops(&found), 108.0);
    }
}
