//! Rank orders for training frameworks: torchrun, DLRover, JAX, Kueue.

use crate::advice::Advice;
use crate::blocks::{even_blocks, only_blocks};
use crate::error::ApplyError;
use crate::layout::Layout;
use std::fmt::Write;

/// Hosts in the order of their ranks, with the slots of each in rank order and the number of ranks of a host.
struct Blocks<'a> {
    each: u32,
    hosts: Vec<Block<'a>>,
}

/// A host, its position in the allocation, its slots in rank order.
type Block<'a> = (&'a str, u32, Vec<u32>);

/// The hosts of a placement with the same number of neighbouring ranks on each.
fn blocks<'a>(layout: &Layout<'a>, format: &'static str) -> Result<Blocks<'a>, ApplyError> {
    let (each, _) = even_blocks(layout).ok_or_else(|| only_blocks(layout, format))?;
    if !layout.ranks().is_multiple_of(each as usize) {
        return Err(only_blocks(layout, format));
    }
    let mut hosts = Vec::new();
    let mut rank = 0;
    for (place, ranks) in layout.runs() {
        let slots = layout.slot[rank..rank + ranks as usize].to_vec();
        hosts.push((layout.hosts[place as usize], place, slots));
        rank += ranks as usize;
    }
    Ok(Blocks { each, hosts })
}

fn listed(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(",")
}

/// `HOST NODE_RANK GPUS`: the node rank of every host, and its GPUs in the order of local ranks.
pub(crate) fn torchrun(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let blocks = blocks(layout, "torchrun")?;
    let mut text = String::from("# torchrun: host, node rank, GPUs in the order of local ranks\n");
    for (rank, (host, _, slots)) in blocks.hosts.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{host} {rank} {}", listed(slots));
    }
    Ok(text)
}

/// One line, the same on every host. The first host of the table is the master.
pub(crate) fn torchrun_line(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let nodes = layout.runs().len();
    let each = layout.most();
    let command = format!(
        "CUDA_VISIBLE_DEVICES=$(awk -v h=\"$(hostname)\" '$1==h{{print $3}}' FILE) torchrun --nnodes={nodes} \
         --nproc_per_node={each} --node_rank=$(awk -v h=\"$(hostname)\" '$1==h{{print $2}}' FILE) \
         --master_addr=$(awk '$2==0{{print $1}}' FILE) --master_port=29500 app.py"
    );
    Advice::new(command).warn([
        "give --node_rank as here: a dynamic rendezvous (--rdzv-backend=c10d) sorts hosts by name and ignores this order",
    ])
}

/// DLRover's world: local world sizes by node rank, in the order of ranks. Node ranks are those of the allocation.
pub(crate) fn dlrover(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let blocks = blocks(layout, "dlrover-world")?;
    let pairs = |value: &dyn Fn(&Block<'_>) -> String| {
        let all: Vec<String> = blocks
            .hosts
            .iter()
            .map(|h| format!("\"{}\": {}", h.1, value(h)))
            .collect();
        all.join(", ")
    };
    let world = pairs(&|_| blocks.each.to_string());
    let hosts = pairs(&|h| format!("\"{}\"", h.0));
    Ok(format!(
        "{{\"world\": {{{world}}},\n \"hosts\": {{{hosts}}}}}\n"
    ))
}

pub(crate) fn dlrover_advice(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new("return this world from the rendezvous manager: DLRover numbers ranks in its order")
        .warn(scrambled(layout, "DLRover"))
}

/// A warning if the GPUs of a host are not taken in order.
fn scrambled(layout: &Layout<'_>, what: &str) -> Option<String> {
    let in_order = |run: &[u32]| run.windows(2).all(|p| p[0] < p[1]);
    let mut rank = 0;
    let wrong = layout.runs().into_iter().find(|(_, n)| {
        let from = rank;
        rank += *n as usize;
        !in_order(&layout.slot[from..rank])
    });
    wrong.map(|(place, _)| {
        format!(
            "{what} numbers the GPUs of a host in order: the order on {} is lost; torchrun and csv keep it",
            layout.hosts[place as usize]
        )
    })
}

/// `permutation[rank]` is the number of a device in `jax.devices()`: hosts in the allocation's order, their GPUs in turn.
pub(crate) fn jax(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let mut first = Vec::with_capacity(layout.hosts.len());
    let mut devices = 0;
    for slots in &layout.slots {
        first.push(devices);
        devices += slots;
    }
    let device = |rank: usize| first[layout.place[rank] as usize] + layout.slot[rank];
    let permutation: Vec<u32> = (0..layout.ranks()).map(device).collect();
    Ok(format!(
        "{}\n",
        serde_json::json!({"permutation": permutation, "devices": devices, "hosts": layout.hosts})
    ))
}

pub(crate) fn jax_advice(_: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(
        "Mesh(np.array(sorted(jax.devices(), key=lambda d: (d.process_index, d.id)))[json.load(open('FILE'))['permutation']].reshape(SHAPE), NAMES)",
    )
    .warn(["processes are numbered in the order of `hosts`: give jax.distributed.initialize that process_id"])
}

/// Kueue's `TopologyAssignment` of a workload with one pod for every host, in rank order.
pub(crate) fn kueue(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let blocks = blocks(layout, "kueue-assignment")?;
    let mut text = String::from(
        "# one pod a host, pod index = node rank\ntopologyAssignment:\n  levels: [kubernetes.io/hostname]\n  domains:\n",
    );
    for (host, ..) in &blocks.hosts {
        let _ = writeln!(text, "  - count: 1\n    values: [{host}]");
    }
    let _ = writeln!(text, "ranksPerPod: {}", blocks.each);
    Ok(text)
}

pub(crate) fn kueue_advice(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(
        "(printf -- '- op: add\\n  path: /status/admission/podSetAssignments/0/topologyAssignment\\n  value:\\n'; \
         sed -n 's/^  /    /p' FILE) | kubectl patch workload NAME --subresource=status --type=json --patch-file /dev/stdin",
    )
        .warn(["Kueue assigns topologies itself: the order holds where its own controller is off, or as nodeSelector by pod index (node-order; Volcano's hostfile has the same lines)"])
        .warn(scrambled(layout, "a pod"))
}

/// One line for every rank: `rank,node,slot`, with hosts and the GPUs on them.
pub(crate) fn rank_gpus(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let mut text = String::from("rank,node,slot\n");
    for rank in 0..layout.ranks() {
        let _ = writeln!(text, "{rank},{},{}", layout.host(rank), layout.slot[rank]);
    }
    Ok(text)
}

pub(crate) fn rank_gpus_advice(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let n = layout.ranks();
    Advice::new(format!(
        "SLURM_HOSTFILE=<(awk -F, 'NR>1{{print $2}}' FILE) srun -n {n} --distribution=arbitrary sh -c 'CUDA_VISIBLE_DEVICES=$(awk -F, -v r=$SLURM_PROCID \"\\$1==r{{print \\$3}}\" FILE) exec ./app'"
    ))
}

/// Slurm's option that binds each task to its GPU, if the tasks of every host take the same GPUs in the same order.
pub(crate) fn gpu_bind(layout: &Layout<'_>) -> Option<Result<String, String>> {
    if !layout.gpus {
        return None;
    }
    let mut by_host: Vec<Vec<u32>> = vec![Vec::new(); layout.hosts.len()];
    for (&place, &slot) in layout.place.iter().zip(&layout.slot) {
        by_host[place as usize].push(slot);
    }
    let longest = by_host.iter().max_by_key(|l| l.len())?;
    Some(if by_host.iter().all(|l| longest.starts_with(l)) {
        Ok(format!("--gpu-bind=map_gpu:{}", listed(longest)))
    } else {
        Err("hosts take their GPUs in different orders, which --gpu-bind cannot say: rank-gpus gives each rank its own".into())
    })
}

/// A warning if local ranks do not take the GPUs of their host in order, for launchers that name hosts alone.
pub(crate) fn gpu_order(layout: &Layout<'_>) -> Option<String> {
    if !layout.gpus {
        return None;
    }
    let mut next = vec![0; layout.hosts.len()];
    let wrong = layout
        .place
        .iter()
        .zip(&layout.slot)
        .find(|&(&place, &slot)| {
            let next = &mut next[place as usize];
            *next += 1;
            slot != *next - 1
        });
    wrong.map(|(&place, _)| {
        format!(
            "ranks take the GPUs of a host in the order of ranks: the choice of GPUs on {} is lost; rank-gpus keeps it",
            layout.hosts[place as usize]
        )
    })
}

/// A note if the allocated GPUs of a host are not its first ones: files number the allocated ones from 0.
pub(crate) fn renumbered(layout: &Layout<'_>) -> Option<String> {
    let (fabric, allocation) = (layout.launch.fabric, layout.launch.allocation);
    let inside = fabric.inside().filter(|_| layout.gpus)?;
    let mut by_host: Vec<Vec<u32>> = vec![Vec::new(); layout.hosts.len()];
    for &(node, _) in allocation.nodes() {
        let own = fabric.node(node).host.as_str();
        let host = layout.hosts.iter().position(|h| *h == own)?;
        by_host[host].push(inside.number_on_host(node)?);
    }
    by_host.iter_mut().for_each(|gpus| gpus.sort_unstable());
    let moved = |gpus: &Vec<u32>| (0..).zip(gpus).any(|(i, &gpu)| gpu != i);
    let host = by_host.iter().position(moved)?;
    let gpus = listed(&by_host[host]);
    Some(format!(
        "GPUs are numbered from 0 among those allocated, as in a job that sees no others: on {} these are {gpus}; \
         where a job sees all, set CUDA_VISIBLE_DEVICES={gpus} first",
        layout.hosts[host]
    ))
}
