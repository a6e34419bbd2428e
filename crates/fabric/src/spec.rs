//! Machines and traffic described in a word: `gemini:16x12x24`, `torus:8x8x8`, `stencil:16x16x16:27`.

use crate::error::{FabricError, InputError};
use crate::fabric::{Direction, Fabric, Shape};
use crate::gemini;
use crate::torus::Grid;
use crate::traffic::{Stencil, Traffic};
use crate::units::{BytesPerSecond, Seconds};

/// Names of fabric specs, for recognition and help.
pub const FABRIC_SPECS: [&str; 3] = ["gemini", "torus", "mesh"];

/// Most routers a spec may ask for.
const MAX_ROUTERS: u64 = 1 << 22;

/// Whether the text looks like a fabric spec rather than a file name.
pub fn is_fabric_spec(text: &str) -> bool {
    text.split_once(':')
        .is_some_and(|(name, _)| FABRIC_SPECS.contains(&name))
}

/// Whether the text is a traffic spec.
pub fn is_traffic_spec(text: &str) -> bool {
    text.starts_with("stencil:")
}

/// Builds the fabric of a spec.
///
/// `gemini:XxYxZ` — a Cray XE/XK machine. `torus:AxBx…[:KEY=VALUE,…]` and `mesh:…` — up to six
/// dimensions, keys `nodes` (nodes a router, default 1), `link` and `host` (GB/s each way, default
/// 12.5), `latency` (ns a hop, default 100).
pub fn fabric(text: &str) -> Result<Fabric, FabricError> {
    let wrong = |found: &str, expected: &str| {
        InputError::new(text, found, expected).hint(
        "fabric specs are gemini:16x12x24, torus:8x8x8[:nodes=2,link=12.5,host=12.5,latency=100], mesh:8x8",
    )
    };
    let (name, rest) = text
        .split_once(':')
        .ok_or_else(|| wrong(text, "NAME:DIMENSIONS"))?;
    let (dims_text, options) = rest.split_once(':').unwrap_or((rest, ""));
    let dims = dims(dims_text)
        .ok_or_else(|| wrong(dims_text, "sizes from 1 joined by x, such as 8x8x8"))?;
    if dims.iter().map(|&d| u64::from(d)).product::<u64>() > MAX_ROUTERS {
        return Err(wrong(dims_text, "at most 4194304 routers").into());
    }
    match name {
        "gemini" => {
            let &[x, y, z] = &dims[..] else {
                return Err(wrong(dims_text, "three dimensions").into());
            };
            if !options.is_empty() {
                return Err(wrong(options, "nothing after the dimensions of a gemini").into());
            }
            gemini::build([x, y, z], text)
        }
        "torus" | "mesh" => {
            let mut grid = Grid {
                shape: Shape {
                    wrap: vec![name == "torus"; dims.len()],
                    dims,
                },
                nodes_per_router: 1,
                link: BytesPerSecond::from_gb(12.5),
                host: BytesPerSecond::from_gb(12.5),
                hop_latency: Seconds(100e-9),
            };
            for option in options.split(',').filter(|o| !o.is_empty()) {
                set_option(&mut grid, option).ok_or_else(|| {
                    wrong(
                        option,
                        "nodes=1..1024, link=GB/s, host=GB/s or latency=ns, above zero",
                    )
                })?;
            }
            grid.build(text)
        }
        _ => Err(wrong(name, "gemini, torus or mesh").into()),
    }
}

fn set_option(grid: &mut Grid, option: &str) -> Option<()> {
    let (key, value) = option.split_once('=')?;
    if key == "nodes" {
        grid.nodes_per_router = value.parse().ok().filter(|n| (1..=1024).contains(n))?;
        return Some(());
    }
    let number: f64 = value
        .parse()
        .ok()
        .filter(|v: &f64| v.is_finite() && *v > 0.0)?;
    match key {
        "link" => grid.link = BytesPerSecond::from_gb(number),
        "host" => grid.host = BytesPerSecond::from_gb(number),
        "latency" => grid.hop_latency = Seconds(number * 1e-9),
        _ => return None,
    }
    Some(())
}

/// Reads `4x4x4` with sizes of at least 1.
fn dims(text: &str) -> Option<Vec<u32>> {
    let dims: Vec<u32> = text
        .split('x')
        .map(|d| d.parse().ok().filter(|&d| d > 0))
        .collect::<Option<_>>()?;
    (dims.len() <= Direction::MAX_DIMENSIONS).then_some(dims)
}

/// Builds the traffic of a `stencil:DIMS:POINTS[:BYTES[,BYTES…]][:periodic]` spec.
///
/// POINTS is 2d+1 (faces only) or 3^d (faces, edges, corners) for d dimensions. BYTES are those sent
/// to neighbours across a face, an edge, a corner; the default 80000,800,8 is a 100×100 face of
/// doubles, its edge and its corner.
pub fn traffic(text: &str) -> Result<Traffic, FabricError> {
    let wrong = |found: &str, expected: String| {
        InputError::new(text, found, expected).hint(
            "write stencil:16x16x16:27, stencil:4x4x4:7:20000 or stencil:8x8:9:1000,10:periodic",
        )
    };
    let mut words = text.split(':').skip(1);
    let dims_text = words.next().unwrap_or("");
    let dims = dims(dims_text)
        .ok_or_else(|| wrong(dims_text, "sizes joined by x, such as 16x16x16".into()))?;
    let d = dims.len() as u32;
    let points = words.next().unwrap_or("");
    let orders = match points.parse::<u32>() {
        Ok(p) if p == 2 * d + 1 => 1,
        Ok(p) if p == 3u32.pow(d) => d as usize,
        _ => return Err(wrong(points, format!("{} or {} points", 2 * d + 1, 3u32.pow(d))).into()),
    };
    let mut bytes = vec![80_000.0, 800.0, 8.0, 8.0, 8.0, 8.0];
    let mut periodic = false;
    for word in words {
        if word == "periodic" {
            periodic = true;
            continue;
        }
        let given: Option<Vec<f64>> = word.split(',').map(|w| w.parse().ok()).collect();
        let given = given.filter(|g: &Vec<f64>| {
            g.len() <= orders && g.iter().all(|b| b.is_finite() && *b >= 0.0)
        });
        let given =
            given.ok_or_else(|| wrong(word, format!("up to {orders} byte counts, or periodic")))?;
        bytes = given;
    }
    bytes.truncate(orders);
    Stencil {
        dims,
        bytes,
        periodic,
    }
    .traffic(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_build_or_say_what_is_wrong() {
        assert_eq!(fabric("torus:4x4x4:nodes=2").unwrap().nodes().len(), 128);
        assert_eq!(
            fabric("mesh:3x3")
                .unwrap()
                .links()
                .iter()
                .filter(|l| l.direction.is_some())
                .count(),
            24
        );
        for bad in [
            "torus:",
            "torus:0x4",
            "torus:4x4:nodes=0",
            "gemini:4x4",
            "klein:4",
            "torus:99999x99999",
            "torus:4:link=nan",
        ] {
            let error = fabric(bad).unwrap_err().to_string();
            assert!(
                error.contains("expected") && error.contains("hint"),
                "{bad}: {error}"
            );
        }
        assert_eq!(traffic("stencil:4x4x4:7:20000").unwrap().tasks, 64);
        for bad in [
            "stencil:",
            "stencil:4x4:7",
            "stencil:4x4:5:1,2",
            "stencil:4x4:5:-1",
            "stencil:4x4x4:27:x",
        ] {
            assert!(traffic(bad).is_err(), "{bad}");
        }
    }
}
