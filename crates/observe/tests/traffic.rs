//! Traffic of real applications against independent counts; printed traffic read back; damaged files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::content;
use hopbyte_fabric::{Exchange, Traffic};
use hopbyte_observe::read_traffic;
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::traffic::traffic;
use hopbyte_testdata::{own, shared};
use proptest::prelude::*;
use std::path::Path;

fn read(path: &Path) -> Traffic {
    read_traffic(path.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"))
}

fn sums(t: &Traffic, phase: &str) -> (usize, f64, u64) {
    let e = &t.phases.iter().find(|p| p.name == phase).unwrap().exchange;
    (
        e.pairs(),
        e.total_bytes(),
        e.iter().map(|(_, m)| m.messages).sum(),
    )
}

/// Sums computed with `awk` over the files of the archives: lines, bytes and messages of each kind.
#[test]
fn lammps_on_64_ranks_is_a_periodic_grid() {
    let t = read(&own("comm/lammps-lj-64.prof.tar.zst"));
    assert_eq!(t.tasks, 64);
    assert_eq!(sums(&t, "point-to-point"), (384, 97_264_976.0, 18_432));
    assert_eq!(sums(&t, "library"), (565, 287_076.0, 31_320));
    assert_eq!(t.phases.len(), 2);
    assert_eq!(t.total().total_bytes(), 97_552_052.0);
    // 4x4x4 ranks, neighbours at distance 1, 4 and 16, with wraparound.
    let p2p = &t.phases[0].exchange;
    for rank in 0..64u32 {
        let c = [rank % 4, rank / 4 % 4, rank / 16];
        let mut expected: Vec<u32> = (0..3)
            .flat_map(|d| {
                [1, 3].map(|step| {
                    let mut n = c;
                    n[d] = (c[d] + step) % 4;
                    n[0] + 4 * n[1] + 16 * n[2]
                })
            })
            .collect();
        expected.sort_unstable();
        let ours: Vec<u32> = p2p.sends(rank).iter().map(|m| m.to).collect();
        assert_eq!(ours, expected);
    }
}

/// The same archive counted again, member by member, without the reader.
#[test]
fn lammps_is_what_its_lines_say() {
    for (name, tasks) in [("lammps-lj-64", 64usize), ("lammps-peptide-48", 48)] {
        let path = own(&format!("comm/{name}.prof.tar.zst"));
        let t = read(&path);
        let raw = Text::read(
            &path,
            Limits {
                binary: true,
                ..Limits::TEXT
            },
        )
        .unwrap();
        let raw = String::from_utf8_lossy(raw.bytes());
        for (kind, phase) in [('E', "point-to-point"), ('I', "library")] {
            let mut matrix = vec![0.0; tasks * tasks];
            for line in raw
                .split(['\n', '\0'])
                .filter(|l| l.starts_with(&format!("{kind}\t")))
            {
                let f: Vec<&str> = line.split('\t').collect();
                let at = f[1].parse::<usize>().unwrap() * tasks + f[2].parse::<usize>().unwrap();
                matrix[at] += f[3].strip_suffix(" bytes").unwrap().parse::<f64>().unwrap();
            }
            let exchange = &t.phases.iter().find(|p| p.name == phase).unwrap().exchange;
            let mut ours = vec![0.0; tasks * tasks];
            for (from, m) in exchange.iter() {
                ours[from as usize * tasks + m.to as usize] = m.bytes;
            }
            assert_eq!(ours, matrix, "{name} {kind}");
        }
    }
    let peptide = read(&own("comm/lammps-peptide-48.prof.tar.zst"));
    assert_eq!(
        sums(&peptide, "point-to-point"),
        (2256, 157_527_192.0, 102_635)
    );
    assert_eq!(sums(&peptide, "library"), (627, 19_213_234.0, 60_203));
}

#[test]
fn an_archive_is_its_unpacked_folder() {
    let path = own("comm/lammps-lj-64.prof.tar.zst");
    let archive = read(&path);
    let tar = Text::read(
        &path,
        Limits {
            binary: true,
            ..Limits::TEXT
        },
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Unpacked with the system's tar, and packed again with gzip by it.
    let plain = folder.path().join("lj.tar");
    std::fs::write(&plain, tar.bytes()).unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let run = |args: &[&str]| {
        let done = std::process::Command::new("tar")
            .args(args)
            .status()
            .unwrap();
        assert!(done.success());
    };
    let (plain, out) = (plain.to_str().unwrap(), out.to_str().unwrap());
    run(&["-xf", plain, "-C", out]);
    let packed = folder.path().join("lj.tar.gz");
    run(&[
        "-czf",
        packed.to_str().unwrap(),
        "-C",
        folder.path().to_str().unwrap(),
        "out",
    ]);
    for name in [
        plain,
        out,
        &format!("{out}/lj64.*.prof"),
        packed.to_str().unwrap(),
    ] {
        let t = read_traffic(name).unwrap();
        assert_eq!((t.tasks, &t.phases), (64, &archive.phases), "{name}");
    }
    std::fs::remove_file(format!("{out}/lj64.17.prof")).unwrap();
    let error = read_traffic(out).unwrap_err().to_string();
    assert!(
        error.contains("files of 63 ranks; rank 17 is missing"),
        "{error}"
    );
    // Cut at any byte, the archive is refused.
    let whole = std::fs::read(plain).unwrap();
    for cut in [100, 511, 513, 5000, whole.len() / 2] {
        let name = folder.path().join("cut.tar");
        std::fs::write(&name, &whole[..cut]).unwrap();
        assert!(read_traffic(name.to_str().unwrap()).is_err(), "{cut}");
    }
}

#[test]
fn plafrim_s_application_is_a_grid_with_a_reduction_tree() {
    let Some(path) = shared("infiniband/plafrim2/app.mat") else {
        return;
    };
    let t = read(&path);
    let raw = content(&path);
    let matrix: Vec<Vec<f64>> = raw
        .lines()
        .map(|l| l.split_whitespace().map(|w| w.parse().unwrap()).collect())
        .collect();
    let total = t.total();
    assert_eq!((t.tasks, total.pairs()), (64, 480));
    for (i, row) in matrix.iter().enumerate() {
        let mut ours = vec![0.0; 64];
        for m in total.sends(i as u32) {
            ours[m.to as usize] = m.bytes;
        }
        assert_eq!(&ours, row);
    }
}

#[test]
fn matrices_of_other_projects() {
    // Entries, sum without the diagonal; counted with awk.
    for (name, tasks, pairs) in [
        ("comm/maplib-amg-64.bytes.csv.zst", 64, 4002),
        ("comm/maplib-cg-64.bytes.csv.zst", 64, 248),
        ("comm/npb-sp-D-1024.topo.zst", 1024, 6144),
        ("matrices/can___24.mtx", 24, 136),
        ("matrices/metis-4elt.graph.zst", 15_606, 91_756),
    ] {
        let Some(path) = shared(name) else { continue };
        let t = read(&path);
        assert_eq!((t.tasks, t.total().pairs()), (tasks, pairs), "{name}");
        if name.contains("npb") {
            assert_eq!(t.total().total_bytes(), 3_209_578_288_128.0);
        }
        if name.contains("maplib") {
            let raw = content(&path);
            let mut sum = 0.0;
            for (i, line) in raw.lines().enumerate() {
                for (j, cell) in line.split(',').enumerate() {
                    sum += if i == j {
                        0.0
                    } else {
                        cell.parse::<f64>().unwrap()
                    };
                }
            }
            assert_eq!(t.total().total_bytes(), sum);
        }
    }
    // Matrices of coefficients are not traffic, and rectangular ones are not square.
    for (name, found) in [
        ("matrices/west0067", "west0067:1: found -1.863354"),
        ("matrices/lp_afiro.tri", "found 51, expected 27 columns"),
        ("matrices/bcsstk01.tri", "a non-negative number"),
    ] {
        let Some(path) = shared(name) else { continue };
        let error = read_traffic(path.to_str().unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains(found) && error.contains("hint"), "{error}");
    }
}

fn parse(content: &[u8]) -> Result<Traffic, String> {
    let limits = Limits {
        binary: true,
        ..Limits::ROWS
    };
    let text = Text::from_bytes("input", content, limits).map_err(|e| e.to_string())?;
    traffic(&text).map_err(|e| e.to_string())
}

/// All forms of a printed exchange.
fn printed(e: &Exchange) -> Vec<(&'static str, String)> {
    let n = e.tasks();
    let list = |separator: &str, base: u32| -> String {
        e.iter()
            .map(|(from, m)| {
                let cells = [
                    (from + base).to_string(),
                    (m.to + base).to_string(),
                    m.bytes.to_string(),
                ];
                cells.join(separator) + "\n"
            })
            .collect()
    };
    let dense = |separator: &str| -> String {
        (0..n as u32)
            .map(|row| {
                let mut cells = vec!["0".to_string(); n];
                for m in e.sends(row) {
                    cells[m.to as usize] = m.bytes.to_string();
                }
                cells.join(separator) + "\n"
            })
            .collect()
    };
    vec![
        ("dense", dense(" ")),
        ("dense csv", dense(",")),
        ("csv", format!("src,dst,bytes\n{}", list(",", 0))),
        ("topo", format!("{n}\n{}", list(" ", 0))),
        (
            "matrix market",
            format!(
                "%%MatrixMarket matrix coordinate real general\n{n} {n} {}\n{}",
                e.pairs(),
                list(" ", 1)
            ),
        ),
        (
            "cholmod",
            format!("{n} {n} {} 0\n{}", e.pairs(), list(" ", 1)),
        ),
    ]
}

proptest! {
    #[test]
    fn printed_traffic_is_read_back(
        n in 2u32..20,
        seeds in prop::collection::vec((any::<u32>(), any::<u32>(), 1u64..(1 << 53)), 3..60)
    ) {
        // The last task sends, so that lists name all tasks.
        let entries = seeds.iter().map(|&(a, b, bytes)| (a % n, b % n, bytes as f64 / 8.0, 0));
        let e = Exchange::new(n as usize, entries.chain([(n - 1, 0, 1.0, 0), (0, 1, 2.0, 0), (1, 0, 3.0, 0)])).unwrap();
        for (name, content) in printed(&e) {
            let t = parse(content.as_bytes());
            prop_assert_eq!(t.map(|t| t.total()), Ok(e.clone()), "{}\n{}", name, content);
        }
        let both = Exchange::new(n as usize, e.iter().flat_map(|(a, m)| {
            let w = (f64::from(a.min(m.to)) + 1.0) * 7.0 + f64::from(a.max(m.to));
            [(a, m.to, w, 0), (m.to, a, w, 0)]
        })).unwrap();
        let once = Exchange::new(n as usize, both.iter().map(|(a, m)| {
            let w = (f64::from(a.min(m.to)) + 1.0) * 7.0 + f64::from(a.max(m.to));
            (a, m.to, w, 0)
        })).unwrap();
        let mut graph = format!("{n} {} 001\n", once.pairs() / 2);
        for row in 0..n {
            for m in once.sends(row) {
                graph += &format!(" {} {}", m.to + 1, m.bytes);
            }
            graph += "\n";
        }
        let t = parse(graph.as_bytes());
        prop_assert_eq!(t.map(|t| t.total()), Ok(once), "{}", graph);
    }
}
