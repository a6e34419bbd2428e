//! Traffic of one training step of a large model, from a parallelism plan.
//!
//! Ranks are numbered as in Megatron-LM: tensor-parallel fastest, then data-parallel, pipeline stages slowest
//! (Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC'21). Expert-parallel groups
//! are runs of the data-parallel ones. For each rank and step, with h the hidden size, s the sequence length, b the
//! micro-batch, m micro-batches, L layers over p stages, t tensor ranks, and w bytes per word, one activation is a =
//! b·s·h·w, and
//!
//! - tensor: 4 allreduces of an activation for each layer and micro-batch (two forward, two backward):
//!   4·m·(L/p)·a;
//! - pipeline: an activation to the next stage and its gradient back, each micro-batch: m·a each way;
//! - data: an allreduce of the gradients, 12·h²·(L/p)/t words: 12·h²·w·(L/p)/t;
//! - expert: 4 all-to-alls for each layer and micro-batch (to the experts and back, forward and backward) in
//!   which a rank sends topk·a in all: 4·m·(L/p)·topk·a, a share of it to each of the group.

use crate::bounds::{MAX_BYTES, MAX_PAIRS};
use crate::collective::{Algorithm, Collective, Operation, Sizes};
use crate::error::{FabricError, InputError};
use crate::spec::{count, positive};
use crate::traffic::{Exchange, Phase, Stencil, Traffic};

/// A parallelism plan with the model's sizes.
struct Plan {
    data: u32,
    tensor: u32,
    pipeline: u32,
    expert: u32,
    algorithm: Algorithm,
    hidden: f64,
    layers: f64,
    sequence: f64,
    batch: f64,
    batches: f64,
    word: f64,
    topk: f64,
    /// Bytes per rank and step from the spec: data, tensor, pipeline, expert.
    given: [Option<f64>; 4],
}

impl Default for Plan {
    /// The sizes of a model with 7 × 10⁹ parameters.
    fn default() -> Self {
        Self {
            data: 1,
            tensor: 1,
            pipeline: 1,
            expert: 1,
            algorithm: Algorithm::Ring,
            hidden: 4096.0,
            layers: 32.0,
            sequence: 4096.0,
            batch: 1.0,
            batches: 8.0,
            word: 2.0,
            topk: 2.0,
            given: [None; 4],
        }
    }
}

/// Bytes per rank for each kind of communication in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amounts {
    data: f64,
    tensor: f64,
    pipeline: f64,
    expert: f64,
}

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
        match key {
            "dp" => self.data = ranks()?,
            "tp" => self.tensor = ranks()?,
            "pp" => self.pipeline = ranks()?,
            "ep" => self.expert = ranks()?,
            "hidden" => self.hidden = number()?,
            "layers" => self.layers = number()?,
            "sequence" => self.sequence = number()?,
            "batch" => self.batch = number()?,
            "batches" => self.batches = number()?,
            "word" => self.word = number()?,
            "topk" => self.topk = number()?,
            "dp-bytes" => self.given[0] = Some(bytes()?),
            "tp-bytes" => self.given[1] = Some(bytes()?),
            "pp-bytes" => self.given[2] = Some(bytes()?),
            "ep-bytes" => self.given[3] = Some(bytes()?),
            "algorithm" => {
                let known = [Algorithm::Ring, Algorithm::Tree];
                self.algorithm = Algorithm::named(value).filter(|a| known.contains(a))?;
            }
            _ => return None,
        }
        Some(())
    }

    fn amounts(&self) -> Amounts {
        let layers = self.layers / f64::from(self.pipeline);
        let activation = self.batch * self.sequence * self.hidden * self.word;
        let calls = 4.0 * self.batches * layers;
        let parameters = 12.0 * self.hidden * self.hidden * layers / f64::from(self.tensor);
        let [data, tensor, pipeline, expert] = self.given;
        Amounts {
            data: data.unwrap_or(parameters * self.word),
            tensor: tensor.unwrap_or(calls * activation),
            pipeline: pipeline.unwrap_or(self.batches * activation),
            expert: expert.unwrap_or(calls * self.topk * activation),
        }
    }

    fn rank(&self, pipeline: u32, data: u32, tensor: u32) -> u32 {
        (pipeline * self.data + data) * self.tensor + tensor
    }
}

/// Builds the traffic of `dp=…,tp=…,pp=…,ep=…`: one phase for each kind of parallelism.
pub(crate) fn traffic(text: &str, rest: &str) -> Result<Traffic, FabricError> {
    let wrong = |found: &str, expected: &str| {
        InputError::new(text, found, expected).hint(
            "write plan:dp=8,tp=4,pp=2,ep=4 with hidden=, layers=, sequence=, batch=, batches=, word=, topk=, or bytes of a rank and step as dp-bytes=, tp-bytes=, pp-bytes=, ep-bytes=; algorithm=ring or tree",
        )
    };
    let mut plan = Plan::default();
    for option in rest.split(',').filter(|o| !o.is_empty()) {
        let set = option
            .split_once('=')
            .and_then(|(key, value)| plan.set(key, value));
        set.ok_or_else(|| wrong(option, "an option of a plan with its value"))?;
    }
    let sizes = [plan.data, plan.tensor, plan.pipeline];
    let tasks = sizes.iter().try_fold(1u32, |n, &d| n.checked_mul(d));
    // Each rank is in up to four kinds of exchange, with two partners or one for each expert.
    let most = (MAX_PAIRS / 8) as u32;
    let tasks = tasks.filter(|t| (2..=most).contains(t));
    let tasks = tasks.ok_or_else(|| wrong(rest, &format!("dp·tp·pp from 2 to {most} ranks")))?;
    if !plan.data.is_multiple_of(plan.expert) {
        let found = format!("ep={} of dp={}", plan.expert, plan.data);
        return Err(wrong(&found, "an ep that divides dp").into());
    }
    if u64::from(tasks) * u64::from(plan.expert) > MAX_PAIRS {
        let found = format!("{tasks} ranks with experts over {}", plan.expert);
        return Err(wrong(&found, &format!("at most {MAX_PAIRS} pairs")).into());
    }
    let amounts = plan.amounts();
    if ![
        amounts.data,
        amounts.tensor,
        amounts.pipeline,
        amounts.expert,
    ]
    .iter()
    .all(|b| *b <= MAX_BYTES)
    {
        return Err(wrong(rest, "bytes that can be counted").into());
    }
    let mut out = Phases {
        tasks: tasks as usize,
        list: Vec::new(),
    };
    let tensor = (0..plan.pipeline * plan.data)
        .map(|g| (0..plan.tensor).map(|t| g * plan.tensor + t).collect());
    out.allreduce("tensor", tensor, amounts.tensor, &plan)?;
    let data = (0..plan.pipeline * plan.tensor).map(|g| {
        let (p, t) = (g / plan.tensor, g % plan.tensor);
        (0..plan.data).map(|d| plan.rank(p, d, t)).collect()
    });
    out.allreduce("data", data, amounts.data, &plan)?;
    out.pipeline(amounts.pipeline, &plan)?;
    if plan.expert > 1 {
        let parts = plan.data / plan.expert;
        let expert = (0..plan.pipeline * plan.tensor * parts).map(|g| {
            let (rest, part) = (g / parts, g % parts);
            let (p, t) = (rest / plan.tensor, rest % plan.tensor);
            let first = part * plan.expert;
            (first..first + plan.expert)
                .map(|d| plan.rank(p, d, t))
                .collect()
        });
        let block = amounts.expert / f64::from(plan.expert);
        out.collective(
            "expert",
            expert,
            Collective::Alltoall,
            Algorithm::Pairwise,
            block,
        )?;
    }
    Ok(Traffic {
        source: text.into(),
        tasks: tasks as usize,
        phases: out.list,
        notes: Vec::new(),
    })
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

    fn allreduce(
        &mut self,
        name: &str,
        groups: impl Iterator<Item = Vec<u32>>,
        bytes: f64,
        plan: &Plan,
    ) -> Result<(), FabricError> {
        self.collective(name, groups, Collective::Allreduce, plan.algorithm, bytes)
    }

    fn collective(
        &mut self,
        name: &str,
        groups: impl Iterator<Item = Vec<u32>>,
        collective: Collective,
        algorithm: Algorithm,
        bytes: f64,
    ) -> Result<(), FabricError> {
        let mut entries = Vec::new();
        for members in groups.filter(|m| m.len() > 1) {
            let operation = Operation {
                collective,
                algorithm,
                ranks: members.len() as u32,
                root: 0,
                sizes: Sizes::Same(bytes),
            };
            operation.steps(&mut |s| {
                let (from, to) = (members[s.from as usize], members[s.to as usize]);
                let times = u64::from(s.times);
                entries.push((from, to, s.bytes * times as f64, times));
            })?;
        }
        self.add(name, entries)
    }

    fn pipeline(&mut self, bytes: f64, plan: &Plan) -> Result<(), FabricError> {
        let mut entries = Vec::new();
        for stage in 1..plan.pipeline {
            for d in 0..plan.data {
                for t in 0..plan.tensor {
                    let (a, b) = (plan.rank(stage - 1, d, t), plan.rank(stage, d, t));
                    let messages = plan.batches as u64;
                    entries.extend([(a, b, bytes, messages), (b, a, bytes, messages)]);
                }
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
            data: 2,
            tensor: 4,
            pipeline: 2,
            ..Plan::default()
        };
        let a = p.amounts();
        let activation = 4096.0 * 4096.0 * 2.0;
        assert_eq!(a.tensor, 4.0 * 8.0 * 16.0 * activation);
        assert_eq!(a.pipeline, 8.0 * activation);
        assert_eq!(a.data, 12.0 * 4096.0 * 4096.0 * 16.0 / 4.0 * 2.0);
        assert_eq!(a.expert, 2.0 * a.tensor);
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        for (bad, part) in [
            ("", "dp·tp·pp from 2"),
            ("dp=1", "dp·tp·pp from 2"),
            ("dp=0", "found dp=0"),
            ("dp=4096,tp=4096,pp=4096", "dp·tp·pp"),
            ("dp=8,ep=3", "an ep that divides dp"),
            ("dp=8,cp=2", "found cp=2"),
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
