//! Well-known machines by name.
//!
//! Sizes are published. Host names and the wiring between dragonfly groups are assumed if no dump is public; if they
//! matter, read the machine's own dump.

/// Name, spec and source of the size.
pub const PRESETS: [(&str, &str, &str); 11] = [
    (
        "cielo",
        "gemini:16x12x24",
        "Cray XE6, 4,608 Geminis (paper 000; rtr --system-map in NERSC/LogSet)",
    ),
    (
        "hopper",
        "gemini:17x8x24",
        "Cray XE6, 6,528 nodes (node map in SST/macro)",
    ),
    (
        "titan",
        "gemini:25x16x24",
        "Cray XK7, 200 cabinets (paper 002), 18,688 compute nodes among 19,200",
    ),
    (
        "bluewaters",
        "gemini:24x24x24",
        "Cray XE6/XK7, 27,648 nodes (paper 003)",
    ),
    // SeaStar links carry 3.092 GB/s each way; injection reaches 62.5 % of HyperTransport's 3.2 GB/s (paper 001). In
    // Red Storm only the Z dimension is a ring.
    (
        "redstorm",
        "torus:27x20x24:open=XY,link=3.092,host=2.0,latency=50",
        "Cray XT3/XT4, 12,960 nodes (rates: paper 001)",
    ),
    // 24 blue tiles a group pair, 8 cabinets in a row, no group 12.
    (
        "edison",
        "aries:15x6x16:blue=24,columns=8,absent=12",
        "Cray XC30, 1,440 Aries, 48,240 link ends (rtr --interconnect in NERSC/LogSet)",
    ),
    // 48 blue tiles a group pair; 12 cabinets in the first row, 6 in the second.
    (
        "theta",
        "aries:9x6x16:blue=48,columns=12",
        "Cray XC40, 864 Aries, 29,376 link ends (rtr --interconnect in CODES, gen-cray-topo)",
    ),
    // A group has 32 switches with 16 ports for nodes, 31 within the group and up to 16 to other groups (Cray EX);
    // 128 nodes with four ports each. Frontier's 9,408 nodes at its publication leave 64 places empty; four cables a
    // group pair are assumed.
    (
        "frontier-like",
        "slingshot:74x32:nodes=16,global=4",
        "HPE Cray EX of Frontier's order, 74 groups of 128 nodes with four ports",
    ),
    // Four units of 32 hosts; each of a host's eight adapters has its own leaf. DGX SuperPOD (H100) has the same 32
    // leaves, and 16 spines with two cables to each leaf where this has 32 with one.
    (
        "gpu-rails",
        "fattree:down=32x32,up=1x32,rails=8,link=50,hosts=dgx-h100",
        "rail-optimised NDR cluster, 128 hosts of 8 GPUs (four DGX SuperPOD units)",
    ),
    // Links of 425 MB/s each way, 64 ns a hop for the smallest packet; 512 nodes are a midplane.
    (
        "bgp-rack",
        "torus:8x8x8:link=0.425,host=2.55,latency=64",
        "half a rack (midplane) of Blue Gene/P, 512 nodes (as in Boxfish's example data)",
    ),
    // Six links of 50 GB/s a chip; 64 cubes of 4x4x4 (Jouppi et al., ISCA 2023).
    (
        "tpu-v4-pod",
        "torus:16x16x16:link=50,host=300",
        "4,096 chips on a 3-D torus (Jouppi et al., ISCA 2023)",
    ),
];

/// The spec of a preset.
pub fn spec_of(name: &str) -> Option<&'static str> {
    PRESETS
        .iter()
        .find(|(n, ..)| *n == name)
        .map(|(_, spec, _)| *spec)
}

/// All names, for messages.
pub fn names() -> String {
    PRESETS.map(|(name, ..)| name).join(", ")
}

#[cfg(test)]
mod tests {
    /// Nodes, routers and link ends (ports of links between routers), counted from the published sources that
    /// [`PRESETS`](super::PRESETS) names: 40 network tiles a Gemini; the lines of the Aries dumps that are no
    /// `unused` and no `processor` tile; two ends a cable otherwise.
    const PUBLISHED: [(&str, usize, usize, usize); 11] = [
        ("cielo", 9216, 4608, 184_320),
        ("hopper", 6528, 3264, 130_560),
        ("titan", 19_200, 9600, 384_000),
        ("bluewaters", 27_648, 13_824, 552_960),
        // Rings in Z, lines in X and Y.
        (
            "redstorm",
            12_960,
            12_960,
            2 * (26 * 20 * 24 + 27 * 19 * 24 + 27 * 20 * 24),
        ),
        ("edison", 5760, 1440, 48_240),
        ("theta", 3456, 864, 29_376),
        ("frontier-like", 37_888, 2368, 74 * 32 * 31 + 74 * 73 * 4),
        ("gpu-rails", 1024, 64, 2 * 1024),
        ("bgp-rack", 512, 512, 3072),
        ("tpu-v4-pod", 4096, 4096, 6 * 4096),
    ];

    #[test]
    fn every_preset_has_its_published_counts() {
        assert_eq!(PUBLISHED.map(|p| p.0), super::PRESETS.map(|p| p.0));
        for (name, nodes, routers, ends) in PUBLISHED {
            let fabric = crate::spec::fabric(name).unwrap();
            assert_eq!(fabric.nodes().len(), nodes, "{name}");
            assert_eq!(fabric.network_routers(), routers, "{name}");
            let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
            let of_routers: usize = hops.map(|l| fabric.ports(l).len()).sum();
            assert_eq!(of_routers, ends, "{name}");
            assert_eq!(fabric.components(), 1, "{name}");
        }
    }

    /// The book has a row for each, with these counts and the source.
    #[test]
    fn the_book_has_every_preset_with_its_source() {
        let page = include_str!("../../../docs/src/machines.md");
        let number = |n: usize| {
            let digits = n.to_string();
            let (head, rest) = digits.split_at(digits.len() % 3);
            let groups = rest.as_bytes().chunks(3).map(String::from_utf8_lossy);
            let head = (!head.is_empty()).then_some(head.into());
            head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
        };
        for ((name, nodes, routers, ends), (_, spec, source)) in
            PUBLISHED.into_iter().zip(super::PRESETS)
        {
            let counts = [nodes, routers, ends].map(number).join(" | ");
            let row = format!("| {name} | `{spec}` | {counts} | {source} |");
            assert!(page.contains(&row), "{row}");
        }
    }

    /// Theta's cabinets by row and its blue cables, as in the published dump.
    #[test]
    fn theta_has_its_cabinets_and_blue_cables() {
        let theta = crate::spec::fabric("theta").unwrap();
        for name in ["c11-0c2s15a0", "c5-1c2s15a0"] {
            assert!(theta.find_router(name).is_ok(), "{name}");
        }
        for name in ["c12-0c0s0a0", "c6-1c0s0a0", "c0-2c0s0a0"] {
            assert!(theta.find_router(name).is_err(), "{name}");
        }
        for (from, to) in [
            ("c0-0c0s0a0", "c2-0c0s0a0"),
            ("c0-0c0s0a0", "c10-0c0s0a0"),
            ("c2-0c0s0a0", "c10-0c0s4a0"),
            ("c4-1c0s0a0", "c0-0c0s12a0"),
        ] {
            let from = theta.find_router(from).unwrap();
            let to = crate::End::Router(theta.find_router(to).unwrap());
            let cable = theta
                .links_from(from)
                .iter()
                .find(|&&l| theta.link(l).to == to);
            assert_eq!(cable.map(|&l| theta.ports(l).len()), Some(2), "{to:?}");
        }
    }
}
