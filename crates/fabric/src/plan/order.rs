//! Orders of a plan's dimensions that number the same groups otherwise.

use super::{DIMENSIONS, Grid, Plan, order, parsed, rest_of, traffic};
use crate::error::FabricError;
use crate::traffic::Exchange;

/// An order string of dimensions, and the number of every rank of a plan by it.
pub type Numbering = (String, Vec<u32>);

/// The order string of dimensions, and the number of every rank in it, by which ranks in turn have the traffic of a plan:
/// the same bytes between the same ranks, and numbers that `fits` accepts. The plan's own order is tried first. `None` for
/// other traffic than `plan:…`; none inside if no order fits.
///
/// # Errors
/// As [`super::reducing_groups`].
pub fn order_with(
    text: &str,
    fits: impl FnMut(&[u32]) -> bool,
) -> Option<Result<Option<Numbering>, FabricError>> {
    let rest = rest_of(text)?;
    Some(
        parsed(text, rest)
            .and_then(|(plan, dense, experts)| order_of(rest, &plan, [dense, experts], fits)),
    )
}

fn order_of(
    rest: &str,
    plan: &Plan,
    grids: [Grid; 2],
    mut fits: impl FnMut(&[u32]) -> bool,
) -> Result<Option<Numbering>, FabricError> {
    let words = rest
        .split(',')
        .filter(|o| !o.is_empty() && !o.starts_with("order="));
    let sizes = words.collect::<Vec<_>>().join(",");
    let entries = |exchange: &Exchange, number: &dyn Fn(u32) -> u32| {
        let each = exchange.iter();
        let mut all: Vec<(u32, u32, u64)> = each
            .map(|(from, m)| (number(from), number(m.to), m.bytes.to_bits()))
            .collect();
        all.sort_unstable();
        all
    };
    let own = traffic("plan", rest)?.total();
    let (used, unused): (Vec<usize>, Vec<usize>) = plan
        .order
        .iter()
        .copied()
        .partition(|&d| grids.iter().any(|g| g[d] > 1));
    for chosen in permutations(&used) {
        let mut order = plan.order;
        for (slot, d) in order
            .iter_mut()
            .zip(chosen.into_iter().chain(unused.iter().copied()))
        {
            *slot = d;
        }
        let numbers: Vec<u32> = numbered(plan.order, order, grids[0]).collect();
        if !fits(&numbers) {
            continue;
        }
        let name = order.map(|d| DIMENSIONS[d]).join("-");
        // Megatron refuses some orders of plans with experts.
        let Ok(other) = traffic("plan", &format!("{sizes},order={name}")) else {
            continue;
        };
        if entries(&other.total(), &|rank| rank) == entries(&own, &|rank| numbers[rank as usize]) {
            return Ok(Some((name, numbers)));
        }
    }
    Ok(None)
}

/// The number by an order string of every rank of a plan; `None` for other traffic, and for no order.
pub fn numbers(text: &str, name: &str) -> Option<Vec<u32>> {
    let (plan, dense, _) = parsed(text, rest_of(text)?).ok()?;
    Some(numbered(plan.order, order(name)?, dense).collect())
}

/// Numbers by one order of the ranks in turn by another.
fn numbered(from: [usize; 5], to: [usize; 5], grid: Grid) -> impl Iterator<Item = u32> {
    let mut strides = [0u32; 5];
    let mut next = 1;
    for d in to {
        strides[d] = next;
        next *= grid[d];
    }
    (0..next).map(move |rank| {
        let (mut left, mut number) = (rank, 0);
        for d in from {
            number += left % grid[d] * strides[d];
            left /= grid[d];
        }
        number
    })
}

/// All orders of a few numbers, the given one first.
fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let first = |at: usize| {
        let mut rest = of.to_vec();
        let one = rest.remove(at);
        let all = permutations(&rest).into_iter();
        all.map(move |p| std::iter::once(one).chain(p).collect::<Vec<usize>>())
    };
    (0..of.len()).flat_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks in turn by another order are the ranks of the plan under other numbers.
    #[test]
    fn an_order_is_found_from_numbers() {
        let of = |text: &str, wanted: &[u32]| {
            let found = order_with(text, |numbers| numbers == wanted)
                .unwrap()
                .unwrap();
            found.map(|f| f.0)
        };
        // Data-parallel ranks fastest: rank (t, d) of tp=2, dp=3 has the number d + 3·t.
        let numbers: Vec<u32> = (0..6).map(|r| r / 2 + 3 * (r % 2)).collect();
        let text = "plan:dp=3,tp=2";
        assert_eq!(of(text, &numbers).as_deref(), Some("dp-tp-cp-ep-pp"));
        let same: Vec<u32> = (0..6).collect();
        assert_eq!(of(text, &same).as_deref(), Some("tp-dp-cp-ep-pp"));
        assert_eq!(
            of("plan:dp=3,tp=2,order=dp-tp", &same).as_deref(),
            Some("dp-tp-cp-ep-pp")
        );
        // Two groups changed their data ranks: no order does that.
        assert_eq!(of(text, &[0, 1, 2, 5, 4, 3]), None);
        // Stages before data ranks, which Megatron refuses with experts.
        let numbers: Vec<u32> = (0..16)
            .map(|r| r % 2 + 2 * (r / 8) + 4 * (r / 2 % 4))
            .collect();
        assert_eq!(
            of("plan:dp=4,tp=2,pp=2", &numbers).as_deref(),
            Some("tp-pp-dp-cp-ep")
        );
        assert_eq!(of("plan:dp=4,tp=2,pp=2,ep=2", &numbers), None);
        assert!(order_with("stencil:4x4:5", |_| true).is_none());
        assert!(order_with("plan:dp=0", |_| true).unwrap().is_err());
    }
}
