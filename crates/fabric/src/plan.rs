//! Traffic of one training step of a large model, from a parallelism plan.
//!
//! Ranks are numbered as in Megatron-LM (`megatron/core/parallel_state.py`, `RankGenerator`) by an order of dimensions,
//! the first one fastest: by default `tp-cp-ep-dp-pp`, pipeline stages slowest (Narayanan et al., "Efficient large-scale
//! language model training on GPU clusters", SC'21). Experts have a numbering of their own by the same order, with
//! expert-tensor ranks for `tp`, without `cp`, and with as many expert-data ranks as remain of a stage: with the default
//! order and `etp` = `tp`, expert-parallel groups are runs of the data- and context-parallel ones. For each rank and step,
//! with h the hidden size, s the sequence length, b the micro-batch, m micro-batches, L layers over p stages, t tensor
//! and c context ranks, v virtual stages, and w bytes per word, one activation is a = b·(s/c)·h·w, and
//!
//! - tensor: 4 allreduces of an activation for each layer and micro-batch (two forward, two backward):
//!   4·m·(L/p)·a;
//! - context: keys and values go round the ring of a context group, forward and backward, and their gradients back
//!   (Liu et al., "Ring attention", 2023): 3 rings of 2·k·a/t for each layer and micro-batch, with k the share of
//!   key-value heads among all (`kv=`): a block of 6·m·(L/p)·k·a/t to each other member;
//! - pipeline: an activation to the next stage and its gradient back, each micro-batch and virtual stage: v·m·a each
//!   way, and (v − 1)·m·a from the last stage to the first (interleaved schedule of the paper above, section 2.2);
//! - data: an allreduce of the gradients over data and context ranks, 12·h²·(L/p)/t words: 12·h²·w·(L/p)/t;
//! - expert: 4 all-to-alls for each layer and micro-batch (to the experts and back, forward and backward) in
//!   which a rank sends topk·a in all: 4·m·(L/p)·topk·a, a share of it to each of the group.

mod order;

pub use order::{Numbering, numbers, order_with};

use crate::bounds::{MAX_BYTES, MAX_PAIRS};
use crate::collective::{self, Algorithm, Collective, Operation, Sizes};
use crate::error::{FabricError, InputError};
use crate::spec::{count, positive};
use crate::traffic::{Exchange, Phase, Stencil, Traffic};

/// Dimensions by their names in Megatron's order strings.
const DIMENSIONS: [&str; 5] = ["tp", "cp", "ep", "dp", "pp"];
const TENSOR: usize = 0;
const CONTEXT: usize = 1;
const EXPERT: usize = 2;
const DATA: usize = 3;
const PIPELINE: usize = 4;

/// A parallelism plan with the model's sizes.
struct Plan {
    /// Ranks of every dimension, by [`DIMENSIONS`].
    ranks: [u32; 5],
    /// All ranks, from which the data-parallel ones follow.
    world: Option<u32>,
    /// Tensor ranks of an expert; those of the plan if not given.
    expert_tensor: Option<u32>,
    virtual_stages: u32,
    /// Dimensions, the fastest one first.
    order: [usize; 5],
    algorithm: Algorithm,
    hidden: f64,
    layers: f64,
    sequence: f64,
    batch: f64,
    batches: f64,
    word: f64,
    topk: f64,
    kv: f64,
    /// Bytes per rank and step from the spec, by [`DIMENSIONS`].
    given: [Option<f64>; 5],
}

impl Default for Plan {
    /// The sizes of a model with 7 × 10⁹ parameters.
    fn default() -> Self {
        Self {
            ranks: [1; 5],
            world: None,
            expert_tensor: None,
            virtual_stages: 1,
            order: [TENSOR, CONTEXT, EXPERT, DATA, PIPELINE],
            algorithm: Algorithm::Ring,
            hidden: 4096.0,
            layers: 32.0,
            sequence: 4096.0,
            batch: 1.0,
            batches: 8.0,
            word: 2.0,
            topk: 2.0,
            kv: 1.0,
            given: [None; 5],
        }
    }
}

/// Sizes of the dimensions that number the ranks, by [`DIMENSIONS`].
type Grid = [u32; 5];

impl Plan {
    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let ranks = || count(value, Stencil::MAX_TASKS as u32);
        let number = || positive(value);
        let bytes = || {
            value
                .parse()
                .ok()
                .filter(|b: &f64| b.is_finite() && *b >= 0.0)
        };
        let dimension = |name: &str| DIMENSIONS.iter().position(|d| *d == name);
        match key {
            "vpp" => self.virtual_stages = count(value, 1024)?,
            "etp" => self.expert_tensor = Some(ranks()?),
            "world" => self.world = Some(ranks()?),
            "order" => self.order = order(value)?,
            "hidden" => self.hidden = number()?,
            "layers" => self.layers = number()?,
            "sequence" => self.sequence = number()?,
            "batch" => self.batch = number()?,
            "batches" => self.batches = number()?,
            "word" => self.word = number()?,
            "topk" => self.topk = number()?,
            "kv" => self.kv = number().filter(|k| *k <= 1.0)?,
            "algorithm" => {
                let known = [Algorithm::Ring, Algorithm::Tree];
                let fits = |a: &Algorithm| known.contains(a) || a.inner().is_some();
                self.algorithm = Algorithm::named(value).filter(fits)?;
            }
            _ => match key.strip_suffix("-bytes") {
                Some(name) => self.given[dimension(name)?] = Some(bytes()?),
                None => self.ranks[dimension(key)?] = ranks()?,
            },
        }
        Some(())
    }

    /// Bytes by [`DIMENSIONS`].
    fn amounts(&self) -> [f64; 5] {
        let [tensor, context, _, _, pipeline] = self.ranks.map(f64::from);
        let layers = self.layers / pipeline;
        let activation = self.batch * self.sequence / context * self.hidden * self.word;
        let calls = 4.0 * self.batches * layers;
        let parameters = 12.0 * self.hidden * self.hidden * layers / tensor;
        let derived = [
            calls * activation,
            6.0 * self.batches * layers * self.kv * activation / tensor,
            calls * self.topk * activation,
            parameters * self.word,
            self.batches * activation,
        ];
        std::array::from_fn(|d| self.given[d].unwrap_or(derived[d]))
    }

    /// Sizes of the dense numbering and of that of experts, or found and expected.
    fn grids(&mut self) -> Result<(Grid, Grid), (String, String)> {
        let [tensor, context, expert, data, pipeline] = self.ranks;
        let product = |sizes: &[u32]| sizes.iter().try_fold(1u32, |n, &d| n.checked_mul(d));
        let most = (MAX_PAIRS / 8) as u32;
        if let Some(world) = self.world {
            let each = product(&[tensor, context, pipeline]).unwrap_or(u32::MAX);
            if data > 1 || !world.is_multiple_of(each) {
                let found = format!("world={world} with tp·cp·pp = {each}, dp={data}");
                return Err((found, "a world that tp·cp·pp divides, without dp".into()));
            }
            self.ranks[DATA] = world / each;
        }
        let data = self.ranks[DATA];
        // Each rank is in up to five kinds of exchange, with two partners or one for each expert.
        let tasks = product(&[tensor, context, data, pipeline]).filter(|t| (2..=most).contains(t));
        let Some(tasks) = tasks else {
            let found = format!("tp={tensor}, cp={context}, dp={data}, pp={pipeline}");
            return Err((
                found,
                format!("dp·tp·pp from 2 to {most} ranks, cp included"),
            ));
        };
        if self.virtual_stages > 1 && pipeline < 2 {
            let found = format!("vpp={} of pp={pipeline}", self.virtual_stages);
            return Err((found, "several pipeline stages for virtual ones".into()));
        }
        let dense = [tensor, context, 1, data, pipeline];
        let inner = self.expert_tensor.unwrap_or(tensor);
        let stage = tasks / pipeline;
        let experts = product(&[inner, expert]).filter(|&e| stage.is_multiple_of(e));
        let Some(experts) = experts else {
            return Err(if self.expert_tensor.is_none() {
                let found = format!("ep={expert} of dp={data}, cp={context}");
                (found, "an ep that divides dp (with cp, dp·cp)".into())
            } else {
                let found = format!("etp={inner}, ep={expert} of {stage} ranks of a stage");
                (found, "etp·ep that divides the ranks of a stage".into())
            });
        };
        let most_experts = collective::MAX_PAIRS.isqrt();
        if u64::from(tasks) * u64::from(expert) > MAX_PAIRS || u64::from(expert) > most_experts {
            let found = format!("{tasks} ranks with experts over {expert}");
            let expected =
                format!("at most {MAX_PAIRS} pairs, and {most_experts} ranks of experts");
            return Err((found, expected));
        }
        let grid = [inner, 1, expert, stage / experts, pipeline];
        // Megatron asserts the same: otherwise the stages of experts are not those of the other layers.
        let last = self.order[4] == PIPELINE;
        if expert > 1 && pipeline > 1 && !last && grid[DATA] != data {
            let names: Vec<&str> = self.order.iter().map(|&d| DIMENSIONS[d]).collect();
            let found = format!("order={} with ep={expert}", names.join("-"));
            return Err((
                found,
                "an order that ends in pp, as Megatron asserts".into(),
            ));
        }
        Ok((dense, grid))
    }
}

/// An order string: dimensions joined by `-`, missing ones last.
fn order(text: &str) -> Option<[usize; 5]> {
    let mut found = Vec::new();
    for word in text.split('-') {
        let at = DIMENSIONS.iter().position(|d| *d == word)?;
        if found.contains(&at) {
            return None;
        }
        found.push(at);
    }
    found.extend((0..5).filter(|d| !text.split('-').any(|w| w == DIMENSIONS[*d])));
    found.try_into().ok()
}

/// Groups of ranks that differ in some dimensions alone, members in the order of these.
fn groups(order: [usize; 5], grid: Grid, over: &[usize]) -> impl Iterator<Item = Vec<u32>> + use<> {
    let mut strides = [0u32; 5];
    let mut next = 1;
    for d in order {
        strides[d] = next;
        next *= grid[d];
    }
    let numbers = move |dims: Vec<usize>| {
        let mut all = vec![0u32];
        for d in dims {
            let before = std::mem::take(&mut all);
            all = (0..grid[d])
                .flat_map(|i| before.iter().map(move |b| b + i * strides[d]))
                .collect();
        }
        all
    };
    let inside = numbers(order.iter().copied().filter(|d| over.contains(d)).collect());
    let outside = numbers(
        order
            .iter()
            .copied()
            .filter(|d| !over.contains(d))
            .collect(),
    );
    outside
        .into_iter()
        .map(move |first| inside.iter().map(|i| first + i).collect())
}

const HINT: &str = "write plan:dp=8,tp=4,pp=2,ep=4,cp=2 (or world=128 for dp) with order=tp-cp-ep-dp-pp, vpp=, etp=, hidden=, layers=, sequence=, batch=, batches=, word=, topk=, kv=, or bytes of a rank and step as dp-bytes=, tp-bytes=, pp-bytes=, ep-bytes=, cp-bytes=; algorithm=ring, tree, hierarchical/8 or nvls-tree/8";

/// A plan with the sizes of its two numberings.
fn parsed(text: &str, rest: &str) -> Result<(Plan, Grid, Grid), FabricError> {
    let wrong = |found: &str, expected: &str| {
        InputError::new(text, found, expected)
            .of(crate::Class::Spec)
            .hint(HINT)
    };
    let mut plan = Plan::default();
    let mut keys = Vec::new();
    for option in rest.split(',').filter(|o| !o.is_empty()) {
        let key = option.split('=').next().unwrap_or(option);
        if keys.contains(&key) {
            return Err(wrong(option, &format!("{key} once")).into());
        }
        keys.push(key);
        let set = option
            .split_once('=')
            .and_then(|(key, value)| plan.set(key, value));
        set.ok_or_else(|| wrong(option, "an option of a plan with its value"))?;
    }
    let (dense, experts) = plan
        .grids()
        .map_err(|(found, expected)| wrong(&found, &expected))?;
    if !plan.amounts().iter().all(|b| *b <= MAX_BYTES) {
        return Err(wrong(rest, "bytes that can be counted").into());
    }
    Ok((plan, dense, experts))
}

/// Builds the traffic of `dp=…,tp=…,pp=…,ep=…,cp=…`: one phase for each kind of parallelism.
pub(crate) fn traffic(text: &str, rest: &str) -> Result<Traffic, FabricError> {
    let (plan, dense, experts) = parsed(text, rest)?;
    let amounts = plan.amounts();
    let tasks = dense.iter().product::<u32>() as usize;
    let mut out = Phases {
        tasks,
        list: Vec::new(),
    };
    let order = plan.order;
    let members = |over: &[usize]| groups(order, dense, over);
    let all = (Collective::Allreduce, plan.algorithm);
    out.collective(TENSOR_GROUPS, members(&[TENSOR]), all, amounts[TENSOR])?;
    out.collective("data", members(&[CONTEXT, DATA]), all, amounts[DATA])?;
    let ring = (Collective::Allgather, Algorithm::Ring);
    out.collective("context", members(&[CONTEXT]), ring, amounts[CONTEXT])?;
    out.pipeline(members(&[PIPELINE]), amounts[PIPELINE], &plan)?;
    if experts[EXPERT] > 1 {
        let block = amounts[EXPERT] / f64::from(experts[EXPERT]);
        let to_all = (Collective::Alltoall, Algorithm::Pairwise);
        let members = groups(order, experts, &[EXPERT]);
        out.collective("expert", members, to_all, block)?;
    }
    Ok(Traffic {
        source: text.into(),
        tasks,
        phases: out.list,
        in_turn: false,
        notes: Vec::new(),
    })
}

/// The part of a traffic spec that describes a plan.
fn rest_of(text: &str) -> Option<&str> {
    text.strip_prefix("plan:")
}

/// Kind of the groups of tensor-parallel ranks.
pub const TENSOR_GROUPS: &str = "tensor";

/// The kind of some groups, and their ranks.
pub type Groups = (&'static str, Vec<Vec<u32>>);

/// The groups of a plan that call allreduce, by kind; `None` for other traffic than `plan:…`.
///
/// # Errors
/// A plan that [`declared::traffic`](crate::declared::traffic) refuses.
pub fn reducing_groups(text: &str) -> Option<Result<Vec<Groups>, FabricError>> {
    let rest = rest_of(text)?;
    Some(parsed(text, rest).map(|(plan, dense, _)| {
        let kinds = [(TENSOR_GROUPS, &[TENSOR][..]), ("data", &[CONTEXT, DATA])];
        let members = |over: &[usize]| groups(plan.order, dense, over).collect::<Vec<_>>();
        let all = kinds.map(|(name, over)| (name, members(over)));
        all.into_iter()
            .filter(|(_, groups)| groups[0].len() > 1)
            .collect()
    }))
}

struct Phases {
    tasks: usize,
    list: Vec<Phase>,
}

impl Phases {
    fn add(&mut self, name: &str, entries: Vec<(u32, u32, f64, u64)>) -> Result<(), FabricError> {
        let exchange = Exchange::new(self.tasks, entries)?;
        if exchange.pairs() > 0 {
            let name = name.into();
            self.list.push(Phase { name, exchange });
        }
        Ok(())
    }

    fn collective(
        &mut self,
        name: &str,
        groups: impl Iterator<Item = Vec<u32>>,
        (collective, algorithm): (Collective, Algorithm),
        bytes: f64,
    ) -> Result<(), FabricError> {
        let mut entries = Vec::new();
        for members in groups.filter(|m| m.len() > 1) {
            // Hosts of a number that does not divide the group are no hosts of it.
            let divides = |inner: u32| (members.len() as u32).is_multiple_of(inner);
            let operation = Operation {
                collective,
                algorithm: match algorithm.inner() {
                    Some(inner) if !divides(inner) => Algorithm::Ring,
                    _ => algorithm,
                },
                ranks: members.len() as u32,
                root: 0,
                sizes: Sizes::Same(bytes),
                hosts: &[],
            };
            operation.add_to(&mut entries, self.tasks, |rank| members[rank as usize])?;
        }
        self.add(name, entries)
    }

    fn pipeline(
        &mut self,
        groups: impl Iterator<Item = Vec<u32>>,
        bytes: f64,
        plan: &Plan,
    ) -> Result<(), FabricError> {
        let mut entries = Vec::new();
        let turns = plan.virtual_stages;
        let mut both = |a: u32, b: u32, times: u32| {
            let (bytes, messages) = (
                bytes * f64::from(times),
                (plan.batches * f64::from(times)) as u64,
            );
            entries.extend([(a, b, bytes, messages), (b, a, bytes, messages)]);
        };
        for stages in groups {
            for pair in stages.windows(2) {
                both(pair[0], pair[1], turns);
            }
            if let (Some(&first), Some(&last), true) = (stages.first(), stages.last(), turns > 1) {
                both(last, first, turns - 1);
            }
        }
        self.add("pipeline", entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rest: &str) -> Result<Traffic, String> {
        traffic(&format!("plan:{rest}"), rest).map_err(|e| e.to_string())
    }

    fn phase<'a>(traffic: &'a Traffic, name: &str) -> &'a Exchange {
        &traffic
            .phases
            .iter()
            .find(|p| p.name == name)
            .unwrap()
            .exchange
    }

    #[test]
    fn every_kind_moves_what_its_formula_says() {
        let t =
            plan("dp=8,tp=4,pp=2,ep=4,dp-bytes=800,tp-bytes=400,pp-bytes=50,ep-bytes=100").unwrap();
        assert_eq!(t.tasks, 64);
        let names: Vec<_> = t.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["tensor", "data", "pipeline", "expert"]);
        // Rings: 2 (n-1) vectors for each group; 16 groups of 4, 8 groups of 8.
        assert_eq!(phase(&t, "tensor").total_bytes(), 16.0 * 2.0 * 3.0 * 400.0);
        assert_eq!(phase(&t, "data").total_bytes(), 8.0 * 2.0 * 7.0 * 800.0);
        assert_eq!(phase(&t, "pipeline").total_bytes(), 32.0 * 2.0 * 50.0);
        // Each keeps its own quarter.
        assert_eq!(phase(&t, "expert").total_bytes(), 64.0 * 75.0);
        // Tensor neighbours are adjacent, data neighbours 4 apart, stages 32.
        assert_eq!(phase(&t, "tensor").sends(5)[0].to, 6);
        assert_eq!(phase(&t, "data").sends(5)[0].to, 9);
        assert_eq!(phase(&t, "pipeline").sends(5)[0].to, 37);
        let to: Vec<u32> = phase(&t, "expert").sends(5).iter().map(|m| m.to).collect();
        assert_eq!(to, [1, 9, 13]);
        // The same bytes over trees.
        let tree = plan("dp=8,dp-bytes=800,algorithm=tree").unwrap();
        assert_eq!(tree.total().total_bytes(), 2.0 * 7.0 * 800.0);
    }

    #[test]
    fn the_model_s_sizes_give_the_bytes() {
        let p = Plan {
            ranks: [4, 1, 1, 2, 2],
            ..Plan::default()
        };
        let a = p.amounts();
        let activation = 4096.0 * 4096.0 * 2.0;
        assert_eq!(a[TENSOR], 4.0 * 8.0 * 16.0 * activation);
        assert_eq!(a[PIPELINE], 8.0 * activation);
        assert_eq!(a[DATA], 12.0 * 4096.0 * 4096.0 * 16.0 / 4.0 * 2.0);
        assert_eq!(a[EXPERT], 2.0 * a[TENSOR]);
        let p = Plan {
            ranks: [4, 2, 1, 2, 2],
            kv: 0.125,
            ..Plan::default()
        };
        // Half the sequence; three rings of keys and values, an eighth of the heads, over four tensor ranks.
        let half = p.amounts();
        assert_eq!(half[TENSOR], a[TENSOR] / 2.0);
        assert_eq!(
            half[CONTEXT],
            3.0 * 2.0 * 0.125 * 8.0 * 16.0 * activation / 2.0 / 4.0
        );
    }

    /// Groups of Megatron's `RankGenerator` for 16 ranks of tp 2, cp 2, dp 2, pp 2 in its default order and with
    /// `--use-tp-pp-dp-mapping`, and its expert groups with ep 4 (written down from its definition).
    #[test]
    fn orders_are_those_of_megatron() {
        let t = plan("tp=2,cp=2,dp=2,pp=2,ep=4,ep-bytes=4,cp-bytes=5,pp-bytes=7,vpp=2").unwrap();
        let to = |name: &str, rank: u32| -> Vec<u32> {
            phase(&t, name).sends(rank).iter().map(|m| m.to).collect()
        };
        assert_eq!(to("tensor", 0), [1]);
        assert_eq!(to("context", 0), [2]);
        assert_eq!(to("data", 0), [2]);
        assert_eq!(to("data", 6), [0]);
        assert_eq!(to("pipeline", 3), [11]);
        assert_eq!(to("expert", 1), [3, 5, 7]);
        assert_eq!(phase(&t, "context").total_bytes(), 16.0 * 5.0);
        // Two virtual stages: two crossings forward and back, and one from the last to the first.
        let m = &phase(&t, "pipeline").sends(3)[0];
        assert_eq!((m.bytes, m.messages), (7.0 * 3.0, 8 * 3));
        let t = plan("tp=2,dp=2,pp=4,order=tp-pp-dp").unwrap();
        let to = |name: &str, rank: u32| phase(&t, name).sends(rank)[0].to;
        assert_eq!((to("pipeline", 0), to("data", 0)), (2, 8));
        let world = plan("world=32,tp=2,cp=2,pp=2").unwrap();
        assert_eq!(world.tasks, 32);
        let t = plan("tp=4,dp=4,ep=8,etp=2,ep-bytes=8").unwrap();
        let to: Vec<u32> = phase(&t, "expert").sends(0).iter().map(|m| m.to).collect();
        assert_eq!(to, [2, 4, 6, 8, 10, 12, 14]);
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        for (bad, part) in [
            ("", "dp·tp·pp from 2"),
            ("dp=1", "dp·tp·pp from 2"),
            ("dp=0", "found dp=0"),
            ("dp=2,dp=4", "found dp=4, expected dp once"),
            ("dp=4096,tp=4096,pp=4096", "dp·tp·pp"),
            ("dp=8,ep=3", "an ep that divides dp"),
            ("dp=8,cp=3,ep=16", "an ep that divides dp"),
            ("dp=2,vpp=2", "several pipeline stages"),
            ("dp=2,order=tp-tp", "found order=tp-tp"),
            ("dp=2,order=tp-xp", "found order=tp-xp"),
            ("world=12,tp=8", "a world that tp·cp·pp divides"),
            ("world=16,tp=8,dp=2", "without dp"),
            ("dp=4,ep=2,pp=2,order=tp-pp-dp", "an order that ends in pp"),
            ("dp=4,tp=2,etp=3,ep=2", "etp·ep that divides"),
            ("dp=2,kv=2", "found kv=2"),
            ("dp=8,algorithm=bruck", "found algorithm=bruck"),
            ("dp=8,dp-bytes=nan", "found dp-bytes=nan"),
            ("dp=8,hidden=-1", "found hidden=-1"),
            ("dp=8,hidden=1e300", "bytes that can be counted"),
            ("dp=8192,ep=8192", "pairs"),
        ] {
            let error = plan(bad).unwrap_err();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }
}
