//! Traffic described by a spec: `stencil:16x16x16:27`, `collective:allreduce:64:1000000:ring`, `plan:dp=8,tp=4`, and
//! the options of Cray's rank reordering.

use crate::bounds::{MAX_BYTES, MAX_PAIRS};
use crate::collective::{Algorithms, Collective, Operation, Sizes, Used};
use crate::direction::Direction;
use crate::error::{FabricError, InputError};
use crate::plan;
use crate::spec::{count, dims};
use crate::traffic::{Exchange, Phase, Stencil, Traffic};

/// Forms of traffic specs with their meanings, for help texts.
pub const TRAFFIC_SPECS: [(&str, &str); 4] = [
    (
        "stencil:AxBx…:POINTS[:BYTES[,BYTES…]][:periodic]",
        "halo exchange on a grid, last dimension fastest; POINTS 2d+1 (faces) or 3^d",
    ),
    (
        "collective:NAME:RANKS:BYTES[:ALGORITHM or LIBRARY][:root=R]",
        "one collective operation as the messages of its algorithm",
    ),
    (
        "plan:dp=D,tp=T,pp=P,ep=E[,…]",
        "one training step of a model split over data, tensors, pipeline stages and experts",
    ),
    (
        "--ndims=N --dims=A,B,… [--nearest] [--periodic] [--halo=BYTES]",
        "a grid as in Cray's MPICH_RANK_REORDER_OPTS",
    ),
];

/// Whether the text is a traffic spec.
pub fn is_traffic_spec(text: &str) -> bool {
    ["stencil:", "collective:", "plan:", "--ndims", "--dims"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Builds the traffic of a spec (see [`TRAFFIC_SPECS`]).
///
/// # Errors
/// Invalid specs, with the expected form; too many tasks or pairs.
pub fn traffic(text: &str) -> Result<Traffic, FabricError> {
    match text.split_once(':') {
        Some(("stencil", _)) => stencil(text),
        Some(("collective", rest)) => collective(text, rest),
        Some(("plan", rest)) => plan::traffic(text, rest),
        _ => grid(text),
    }
}

/// Builds the traffic of a `stencil:DIMS:POINTS[:BYTES[,BYTES…]][:periodic]` spec.
///
/// POINTS is 2d+1 (faces only) or 3^d (faces, edges, corners) for d dimensions. BYTES are sent to neighbours across a
/// face, an edge, a corner; the default 80000,800,8 is a 100×100 face of doubles, its edge and its corner.
fn stencil(text: &str) -> Result<Traffic, FabricError> {
    let wrong = |found: &str, expected: String| {
        InputError::new(text, found, expected).of(crate::Class::Spec).hint(
            "write stencil:16x16x16:27, stencil:4x4x4:7:20000 or stencil:8x8:9:1000,10:periodic",
        )
    };
    let mut words = text.split(':').skip(1);
    let dims_text = words.next().unwrap_or("");
    let dims = dims(dims_text)
        .filter(|d| d.len() <= Direction::MAX_DIMENSIONS)
        .ok_or_else(|| wrong(dims_text, "sizes joined by x, such as 16x16x16".into()))?;
    let d = dims.len() as u32;
    let points = words.next().unwrap_or("");
    let orders = match points.parse::<u32>() {
        Ok(p) if p == 2 * d + 1 => 1,
        Ok(p) if p == 3u32.pow(d) => d as usize,
        _ => {
            let expected = match (2 * d + 1, 3u32.pow(d)) {
                (faces, all) if faces == all => format!("{all} points"),
                (faces, all) => format!("{faces} or {all} points"),
            };
            let found = if points.is_empty() {
                "no points"
            } else {
                points
            };
            return Err(wrong(found, expected).into());
        }
    };
    let mut bytes = vec![80_000.0, 800.0, 8.0, 8.0, 8.0, 8.0];
    let mut periodic = false;
    for word in words {
        if word == "periodic" {
            periodic = true;
            continue;
        }
        let given: Option<Vec<f64>> = word.split(',').map(|w| w.parse().ok()).collect();
        bytes = given
            .filter(|g: &Vec<f64>| {
                g.len() <= orders && g.iter().all(|b| (0.0..=MAX_BYTES).contains(b))
            })
            .ok_or_else(|| {
                wrong(
                    word,
                    format!("up to {orders} byte counts of at most {MAX_BYTES:e}, or periodic"),
                )
            })?;
    }
    bytes.truncate(orders);
    Stencil {
        dims,
        bytes,
        periodic,
    }
    .traffic(text)
}

/// Builds a grid from Cray's options: `--ndims=3 --dims=16,16,16 --nearest`, values after `=` or a blank.
///
/// Neighbours across faces (`--nearest`, the default) send `--halo` bytes, by default 1: Cray's options define
/// partners, not sizes. With `--halo=F,E,C` faces, edges and corners. `--periodic` closes the grid.
fn grid(text: &str) -> Result<Traffic, FabricError> {
    let wrong = |found: &str, expected: &str| {
        InputError::new(text, found, expected).of(crate::Class::Spec)
            .hint("write '--dims=16,16,16 --ndims=3 --nearest', with --periodic or --halo=BYTES if needed")
    };
    let (mut ndims, mut sizes, mut periodic) = (None, None, false);
    let mut bytes = vec![1.0];
    let mut words = text.split([' ', '=']).filter(|w| !w.is_empty());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| wrong(word, "a value after it"));
        match word {
            "--nearest" => {}
            "--periodic" => periodic = true,
            "--ndims" => {
                let value = value()?;
                let most = Direction::MAX_DIMENSIONS as u32;
                ndims = count(value, most);
                if ndims.is_none() {
                    return Err(wrong(value, &format!("1 to {most} dimensions")).into());
                }
            }
            "--dims" => {
                let value = value()?;
                sizes = dims(&value.replace(',', "x"));
                if sizes.is_none() {
                    return Err(wrong(value, "sizes joined by commas").into());
                }
            }
            "--halo" => {
                let value = value()?;
                let given: Option<Vec<f64>> = value.split(',').map(|w| w.parse().ok()).collect();
                bytes = given
                    .filter(|g| g.iter().all(|b: &f64| (0.0..=MAX_BYTES).contains(b)))
                    .ok_or_else(|| wrong(value, "byte counts of at most 1e18"))?;
            }
            other => {
                return Err(wrong(other, "--ndims, --dims, --nearest, --periodic, --halo").into());
            }
        }
    }
    let sizes = sizes.ok_or_else(|| wrong("no --dims", "the sizes of the grid"))?;
    let dimensions = sizes.len();
    if dimensions > Direction::MAX_DIMENSIONS || ndims.is_some_and(|n| n as usize != dimensions) {
        let expected = ndims.map_or("fewer dimensions".into(), |n| {
            format!("{n} sizes, as --ndims says")
        });
        return Err(wrong(&format!("{dimensions} sizes"), &expected).into());
    }
    if bytes.len() > dimensions {
        let expected = format!("at most {dimensions} byte counts: faces, edges, corners");
        return Err(wrong(&format!("{} byte counts", bytes.len()), &expected).into());
    }
    let stencil = Stencil {
        dims: sizes,
        bytes,
        periodic,
    };
    stencil.traffic(text)
}

/// Builds one collective: `allreduce:64:1000000:ring`.
fn collective(text: &str, rest: &str) -> Result<Traffic, FabricError> {
    let wrong = |found: &str, expected: String| {
        InputError::new(text, found, expected).of(crate::Class::Spec).hint(
            "write collective:allreduce:64:1000000, collective:broadcast:48:8192:binomial:root=3",
        )
    };
    let mut words = rest.split(':');
    let name = words.next().unwrap_or("");
    let kind = Collective::named(name).ok_or_else(|| {
        let error = wrong(name, Collective::names());
        match Collective::near(name) {
            Some(near) => {
                let meant = rest.replacen(name, &near, 1);
                error.hint(format!("did you mean collective:{meant}?"))
            }
            None => error,
        }
    })?;
    let word = words.next().unwrap_or("");
    let most = Stencil::MAX_TASKS as u32;
    let ranks = count(word, most).ok_or_else(|| wrong(word, format!("1 to {most} ranks")))?;
    // Only the all-to-all algorithms, which have their own bound, send more messages.
    let messages = u64::from(ranks) * u64::from(ranks.ilog2() + 1);
    if messages > MAX_PAIRS {
        let found = format!("{ranks} ranks, up to {messages} messages");
        return Err(wrong(&found, format!("at most {MAX_PAIRS} messages")).into());
    }
    let word = words.next().unwrap_or("");
    let bytes = word
        .parse()
        .ok()
        .filter(|b: &f64| (0.0..=MAX_BYTES).contains(b));
    let bytes: f64 = bytes.ok_or_else(|| wrong(word, format!("bytes, from 0 to {MAX_BYTES:e}")))?;
    let (mut rules, mut root) = (Algorithms::default(), 0);
    for word in words {
        if let Some(number) = word.strip_prefix("root=") {
            let parsed = number.parse().ok().filter(|&r: &u32| r < ranks);
            root = parsed.ok_or_else(|| wrong(word, format!("a root below {ranks}")))?;
        } else {
            rules = match kind.algorithm(word) {
                Some(algorithm) => rules.with(kind, algorithm),
                None => Algorithms::parse(word).map_err(|_| {
                    let expected = format!("{}, openmpi, mpich or nccl", kind.algorithm_names());
                    wrong(word, expected)
                })?,
            };
        }
    }
    let algorithm = rules.choose(kind, ranks as usize, bytes);
    let operation = Operation {
        collective: kind,
        algorithm,
        ranks,
        root,
        sizes: Sizes::Same(bytes),
        hosts: &[],
    };
    let mut entries = Vec::new();
    operation.add_to(&mut entries, ranks as usize, |rank| rank)?;
    let exchange = Exchange::new(ranks as usize, entries)?;
    let name = format!("{} {}", kind.name(), algorithm.name());
    let mut used = Used::default();
    used.add((kind, algorithm), rules.basis(kind), (ranks, bytes), 1);
    Ok(Traffic {
        source: text.into(),
        tasks: ranks as usize,
        phases: vec![Phase { name, exchange }],
        in_turn: false,
        notes: used.lines(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stencils_are_built_or_refused() {
        assert_eq!(traffic("stencil:4x4x4:7:20000").unwrap().tasks, 64);
        // A million ranks with 26 neighbours each are accepted.
        assert_eq!(traffic("stencil:100x100x100:27").unwrap().tasks, 1_000_000);
        for bad in [
            "stencil:",
            "stencil:4x4:7",
            "stencil:4x4:5:1,2",
            "stencil:4x4:5:-1",
            "stencil:4x4x4:27:x",
            "stencil:4x4:5:1e300",
            "stencil:256x256x256:27",
            "stencil:4294967295x4294967295:5",
            "stencil:18446744073709551616:3",
        ] {
            assert!(traffic(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cray_s_words_are_a_stencil() {
        let cray = traffic("--ndims=3 --dims=4,4,4 --nearest --halo=20000").unwrap();
        let ours = traffic("stencil:4x4x4:7:20000").unwrap();
        assert_eq!(cray.total(), ours.total());
        let cray = traffic("--dims 4,4 --ndims 2 --periodic --halo 100,10").unwrap();
        let ours = traffic("stencil:4x4:9:100,10:periodic").unwrap();
        assert_eq!(cray.total(), ours.total());
        for (bad, part) in [
            ("--ndims=3 --dims=4,4", "3 sizes"),
            ("--ndims=3", "no --dims"),
            ("--dims=4,0", "sizes joined by commas"),
            ("--dims=4,4 --diagonal", "--diagonal"),
            ("--dims=4,4 --halo=1,2,3", "at most 2 byte counts"),
            ("--dims=4,4 --halo=nan", "byte counts"),
            ("--dims", "a value after it"),
            ("--dims=99999,99999", "tasks"),
        ] {
            let error = traffic(bad).unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn collectives_are_built_or_refused() {
        let ring = traffic("collective:allreduce:6:600:ring").unwrap();
        let exchange = &ring.phases[0].exchange;
        // Every rank sends 2 (n-1)/n vectors to its successor.
        assert_eq!(exchange.pairs(), 6);
        assert!(
            exchange
                .iter()
                .all(|(from, m)| m.to == (from + 1) % 6 && m.bytes == 1000.0)
        );
        assert_eq!(ring.phases[0].name, "allreduce ring");
        let tree = traffic("collective:bcast:8:10:binomial:root=3").unwrap();
        assert_eq!(tree.total().sends(3).len(), 3);
        for (bad, part) in [
            ("collective:", "allreduce"),
            ("collective:allreduce", "ranks"),
            ("collective:allreduce:0:5", "ranks"),
            ("collective:allreduce:8:nan", "bytes"),
            ("collective:allreduce:8:5:bruck", "rabenseifner, ring"),
            ("collective:broadcast:8:5:root=8", "a root below 8"),
            (
                "collective:allgather:6:5:recursive-doubling",
                "power of two",
            ),
            ("collective:alltoall:100000:5:pairwise", "pairs"),
            ("collective:alltoall:16777216:1", "messages"),
            ("collective:allreduce:8:1e300", "1e18"),
        ] {
            let error = traffic(bad).unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn every_form_is_known_as_a_spec() {
        for (form, _) in TRAFFIC_SPECS {
            assert!(is_traffic_spec(form), "{form}");
        }
        assert!(!is_traffic_spec("matrix.csv"));
    }
}
