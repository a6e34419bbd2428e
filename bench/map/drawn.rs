//! A second set of problems, drawn from a seed: no constant of the mapper was chosen on them. `S<seed>-<number>`.

use crate::problems::{Instance, instance, runs};
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Exchange, declared, spec};
use std::error::Error;

/// Problems of one seed.
pub const COUNT: u64 = 16;

/// Seed and number of a name such as `S7-3`.
pub fn parsed(name: &str) -> Option<(u64, u64)> {
    let (seed, number) = name.strip_prefix('S')?.split_once('-')?;
    let number = number.parse().ok().filter(|&n| n < COUNT)?;
    Some((seed.parse().ok()?, number))
}

/// Machine and traffic of one problem, and ranks on every node.
struct Draw {
    machine: String,
    traffic: Exchange,
    each: u32,
}

/// Builds a problem: even numbers fill the machine from its first node, odd ones take runs of free nodes.
pub fn build(seed: u64, number: u64) -> Result<Instance, Box<dyn Error>> {
    let mut random = Random::stream(seed, number);
    let draw = drawn(number, &mut random)?;
    let spec::Described { fabric, routing } = spec::machine(&draw.machine)?;
    let want = draw.traffic.tasks().div_ceil(draw.each as usize);
    let total = fabric.nodes().len();
    let hosts: Vec<u32> = if number.is_multiple_of(2) || want * 2 > total {
        (0..want as u32).collect()
    } else {
        runs(total as u32, want, 6.0, 12.0, random.next_u64())
    };
    if hosts.len() > total || hosts.iter().any(|&h| h as usize >= total) {
        return Err(format!("{} has {total} nodes, expected {want}", draw.machine).into());
    }
    let traffic = (draw.traffic, Vec::new());
    instance(fabric, routing, traffic, hosts, draw.each)
}

fn drawn(number: u64, random: &mut Random) -> Result<Draw, Box<dyn Error>> {
    let mut pick = |list: &[&'static str]| list[random.below(list.len())];
    let of = |text: &str| declared::traffic(text).map(|t| t.total());
    let (machine, each, traffic) = match number {
        0 => (
            pick(&["torus:4x4x4x2", "torus:4x4x4x4x2", "torus:4x4x2x2x2"]),
            1,
            of(pick(&[
                "stencil:8x4x4:7",
                "stencil:4x4x2x4:9",
                "stencil:2x8x2x4:9",
            ]))?,
        ),
        1 => (
            pick(&["gemini:8x6x8", "gemini:6x8x10", "gemini:10x4x12"]),
            8,
            of(pick(&[
                "stencil:16x8x8:27",
                "stencil:12x12x12:7",
                "stencil:32x32:9",
            ]))?,
        ),
        2 => (
            pick(&[
                "fattree:down=16x16,up=1x8",
                "fattree:down=8x16,up=1x4,link=50",
            ]),
            4,
            of(pick(&[
                "plan:dp=16,tp=4,pp=8",
                "plan:dp=8,tp=8,pp=8",
                "plan:dp=32,tp=2,pp=4",
            ]))?,
        ),
        3 => (
            pick(&["fattree:k=8,levels=3", "fattree:down=16x16,up=1x8"]),
            1,
            mesh(96, random),
        ),
        4 => (
            pick(&["dragonfly:9x4:nodes=4", "dragonfly:8x8:nodes=4,global=2"]),
            1,
            pencils(
                if random.below(2) == 0 {
                    (8, 16)
                } else {
                    (16, 8)
                },
                random,
            ),
        ),
        5 => (
            pick(&[
                "dragonfly:17x8:nodes=4",
                "aries:4x2x8",
                "slingshot:8x8:nodes=8",
            ]),
            2,
            mesh(400, random),
        ),
        6 => (
            pick(&["torus:8x8x8", "torus:16x8x4", "torus:8x16x4"]),
            1,
            shuffled(&of("stencil:8x8x8:7")?, random)?,
        ),
        7 => (
            pick(&[
                "aries:4x2x8",
                "dragonfly:9x8:nodes=4",
                "slingshot:6x8:nodes=4",
            ]),
            1,
            of(pick(&[
                "stencil:4x4x6:27",
                "stencil:12x8:9",
                "stencil:6x6x3:7",
            ]))?,
        ),
        8 => (
            pick(&[
                "hyperx:4x4x4:nodes=2",
                "hyperx:8x8:nodes=2",
                "hyperx:6x6x3:nodes=1",
            ]),
            1,
            of(pick(&[
                "stencil:8x8:5",
                "stencil:4x4x4:7",
                "collective:allreduce:64:1000000",
            ]))?,
        ),
        9 => (
            pick(&["torus:8x8", "mesh:12x10", "torus:4x4x8"]),
            1,
            random_pairs(40, 4, random),
        ),
        10 => (
            pick(&[
                "fattree:down=4x4,up=1x2",
                "torus:4x4",
                "dragonfly:4x4:nodes=1",
            ]),
            1,
            random_pairs(14, 3, random),
        ),
        11 => (
            pick(&["gemini:4x4x6", "torus:6x6x6", "dragonfly:9x4:nodes=2"]),
            4,
            mesh(256, random),
        ),
        12 => (
            pick(&["fattree:down=16x16,up=1x8", "fattree:down=24x8,up=1x12"]),
            2,
            of(pick(&[
                "stencil:16x16:9",
                "stencil:8x8x4:27",
                "collective:alltoall:128:4096",
            ]))?,
        ),
        13 => (
            pick(&[
                "slingshot:8x8:nodes=8",
                "dragonfly:9x8:nodes=4",
                "fattree:k=8,levels=3",
            ]),
            4,
            of(pick(&[
                "plan:dp=8,tp=4,pp=8",
                "plan:dp=16,tp=4,pp=4",
                "plan:dp=4,tp=8,pp=8",
            ]))?,
        ),
        14 => (
            pick(&[
                "torus:4x4x4x2:nodes=2",
                "torus:8x4x2x2",
                "hyperx:4x4x4:nodes=2",
            ]),
            1,
            pencils((8, 8), random),
        ),
        _ => (
            pick(&["gemini:6x6x8", "torus:8x8x8", "aries:4x2x8"]),
            4,
            shuffled(&mesh(300, random), random)?,
        ),
    };
    Ok(Draw {
        machine: machine.to_owned(),
        traffic,
        each,
    })
}

/// Transposes of a two-dimensional FFT in pencils: all-to-all in every row and every column.
fn pencils((rows, columns): (u32, u32), random: &mut Random) -> Exchange {
    let bytes = [1e4, 4e4].map(|b| b * (1.0 + random.below(3) as f64));
    let n = rows * columns;
    let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    let entries = pairs.filter(|(a, b)| a != b).filter_map(|(a, b)| {
        if a / columns == b / columns {
            Some((a, b, bytes[0], 1))
        } else {
            (a % columns == b % columns).then_some((a, b, bytes[1], 1))
        }
    });
    exchange(n as usize, entries.collect())
}

/// Points in a square, each sending to its six nearest: an irregular mesh.
fn mesh(tasks: usize, random: &mut Random) -> Exchange {
    let points: Vec<(f64, f64)> = (0..tasks).map(|_| (random.unit(), random.unit())).collect();
    let mut order: Vec<usize> = (0..tasks).collect();
    // Numbered along strips, as a partitioner would.
    order.sort_by_key(|&i| ((points[i].0 * 8.0) as u32, (points[i].1 * 1e6) as u32));
    let mut entries = Vec::new();
    for (a, &at) in order.iter().enumerate() {
        let far = |&b: &usize| {
            let (dx, dy) = (
                points[at].0 - points[order[b]].0,
                points[at].1 - points[order[b]].1,
            );
            dx * dx + dy * dy
        };
        let mut others: Vec<usize> = (0..tasks).filter(|&b| b != a).collect();
        others.sort_by(|x, y| far(x).total_cmp(&far(y)));
        for &b in others.iter().take(6) {
            entries.push((a as u32, b as u32, (1 + random.below(16)) as f64 * 1e4, 1));
        }
    }
    exchange(tasks, entries)
}

fn random_pairs(tasks: usize, each: usize, random: &mut Random) -> Exchange {
    let mut entries = Vec::new();
    for a in 0..tasks {
        for _ in 0..each {
            let b = (a + 1 + random.below(tasks - 1)) % tasks;
            entries.push((a as u32, b as u32, (1 + random.below(9)) as f64 * 1e5, 1));
        }
    }
    exchange(tasks, entries)
}

/// The same traffic with its tasks renumbered at random.
fn shuffled(of: &Exchange, random: &mut Random) -> Result<Exchange, Box<dyn Error>> {
    let name = random.permutation(of.tasks());
    let entries: Vec<_> = of
        .iter()
        .map(|(from, m)| {
            (
                name[from as usize],
                name[m.to as usize],
                m.bytes,
                m.messages,
            )
        })
        .collect();
    Ok(Exchange::new(of.tasks(), entries)?)
}

fn exchange(tasks: usize, entries: Vec<(u32, u32, f64, u64)>) -> Exchange {
    Exchange::new(tasks, entries).unwrap_or_else(|_| Exchange::empty(tasks))
}
