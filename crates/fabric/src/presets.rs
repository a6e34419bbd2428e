//! Well-known machines by name.
//!
//! Sizes are published. Host names and the wiring between dragonfly groups are assumed if no dump is public; if they
//! matter, read the machine's own dump.

/// Name, spec and source of the size.
pub const PRESETS: [(&str, &str, &str); 11] = [
    (
        "cielo",
        "gemini:16x12x24",
        "Cray XE6, 4,608 Geminis (paper 000)",
    ),
    (
        "hopper",
        "gemini:17x8x24",
        "Cray XE6, 6,528 nodes (published node map)",
    ),
    (
        "titan",
        "gemini:25x16x24",
        "Cray XK7, 18,688 compute nodes among 19,200",
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
        "Cray XT3/XT4, 12,960 nodes",
    ),
    (
        "edison",
        "aries:15x6x16:blue=24,columns=8,absent=12",
        "Cray XC30, 5,760 nodes (published dump)",
    ),
    (
        "theta",
        "aries:9x6x16:blue=24,columns=10",
        "Cray XC40, nine groups (published description)",
    ),
    // 74 compute groups of 32 switches, 16 endpoints each; 128 nodes per group with four NICs each.
    (
        "frontier-like",
        "slingshot:74x32:nodes=16,global=4",
        "HPE Cray EX dragonfly of Frontier's order",
    ),
    // Four units of 32 hosts; each of a host's eight adapters has its own leaf.
    (
        "gpu-rails",
        "fattree:down=32x32,up=1x32,rails=8,link=50",
        "rail-optimised NDR cluster, 128 hosts of 8 GPUs",
    ),
    (
        "bgp-rack",
        "torus:8x8x8:link=0.425,host=2.55,latency=64",
        "half a rack of Blue Gene/P, 512 nodes",
    ),
    (
        "tpu-v4-pod",
        "torus:16x16x16:link=50,host=300",
        "4,096 chips on a 3-D torus",
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
    #[test]
    fn every_preset_builds_with_its_published_size() {
        for (name, nodes) in [
            ("cielo", 9216),
            ("hopper", 6528),
            ("titan", 19_200),
            ("bluewaters", 27_648),
            ("redstorm", 12_960),
            ("edison", 5760),
            ("theta", 3456),
            ("frontier-like", 37_888),
            ("gpu-rails", 1024),
            ("bgp-rack", 512),
            ("tpu-v4-pod", 4096),
        ] {
            let fabric = crate::spec::fabric(name).unwrap();
            assert_eq!(fabric.nodes().len(), nodes, "{name}");
            assert_eq!(fabric.components(), 1, "{name}");
        }
    }
}
