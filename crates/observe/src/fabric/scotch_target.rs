//! Target architectures of Scotch (`.tgt`): a name and its numbers, over any lines (Scotch user's guide, *Target files*).
//!
//! ```text
//! torus3D 4 4 4
//! tleaf 2  4 10  8 1        levels, then the children of a switch and the cost of a link, from the root down
//! sub 3  0 5 9  torus2D 4 4  some of the processors of another target
//! ```
//!
//! `cmplt`, `cmpltw`, `hcub`, `mesh2D`, `mesh3D`, `meshXD`, `torus2D`, `torus3D`, `torusXD`, `tleaf`, `ltleaf` and `sub`
//! are read. Targets
//! have no speeds. A hypercube is a torus of rings of four, with the same distances; Scotch counts processors with the
//! first dimension fastest.

use crate::text::{Line, Text, decimal_u32, lossy};
use hopbyte_fabric::fat_tree::FatTree;
use hopbyte_fabric::routing::TreeRouting;
use hopbyte_fabric::spec;
use hopbyte_fabric::torus::Grid;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{Direction, Fabric, FabricError, InputError, Routing, Shape};

/// Names of targets.
const NAMES: [&[u8]; 15] = [
    b"cmplt",
    b"cmpltw",
    b"hcub",
    b"mesh2D",
    b"mesh3D",
    b"meshXD",
    b"torus2D",
    b"torus3D",
    b"torusXD",
    b"tleaf",
    b"ltleaf",
    b"sub",
    b"deco",
    b"varcmplt",
    b"varhcub",
];

/// Maximum number of links of a target, each direction counted: a file of twenty bytes must not cost seconds. Scotch's
/// own users map to fewer processors; specs of the command line go further.
const MOST_LINKS: u64 = 1 << 19;

/// Whether a line begins a target.
pub fn recognise(line: Line<'_>) -> bool {
    let mut words = line.words();
    words.next().is_some_and(|w| NAMES.contains(&w))
        && words.all(|w| decimal_u32(w).is_some() || NAMES.contains(&w))
}

/// Reads a target, with its routing if it is a tree.
pub fn read(
    text: &Text,
    notes: &mut Vec<String>,
) -> Result<(Fabric, Option<Routing>), FabricError> {
    let mut words = Words {
        text,
        words: text
            .lines()
            .flat_map(|l| l.words().map(move |w| (l, w)))
            .collect(),
        next: 0,
    };
    let read = words.target(notes)?;
    if let Some(&(line, word)) = words.words.get(words.next) {
        return Err(text.error_in(line, word, "the end of the target").into());
    }
    notes.push("the target has no speeds: 12.5 GB/s each way are assumed on every link".into());
    Ok(read)
}

struct Words<'a> {
    text: &'a Text,
    words: Vec<(Line<'a>, &'a [u8])>,
    next: usize,
}

impl<'a> Words<'a> {
    fn word(&mut self, expected: &str) -> Result<(Line<'a>, &'a [u8]), InputError> {
        let word = self.words.get(self.next).copied();
        self.next += 1;
        word.ok_or_else(|| self.text.error("the end of the file", expected))
    }

    fn number(&mut self, expected: &str, least: u32) -> Result<u32, InputError> {
        let (line, word) = self.word(expected)?;
        let number = decimal_u32(word).filter(|&n| n >= least);
        number.ok_or_else(|| self.text.error_in(line, word, expected))
    }

    fn sizes(&mut self, count: u32) -> Result<Vec<u32>, InputError> {
        (0..count)
            .map(|_| self.number("a size from 1", 1))
            .collect()
    }

    fn target(
        &mut self,
        notes: &mut Vec<String>,
    ) -> Result<(Fabric, Option<Routing>), FabricError> {
        let (line, name) = self.word("the name of a target")?;
        let wrong = |expected: &str| self.text.error_in(line, name, expected);
        match name {
            b"cmplt" | b"cmpltw" => {
                let count = self.number("a number of processors", 1)?;
                self.bounded(line, u64::from(count).saturating_mul(u64::from(count) + 1))?;
                if name == b"cmpltw" {
                    for _ in 0..count {
                        self.number("the weight of a processor", 1)?;
                    }
                    notes.push("weights of processors are not used".into());
                }
                Ok((spec::fabric(&format!("hyperx:{count}"))?, None))
            }
            b"hcub" => {
                let dimensions = self.number("a number of dimensions", 0)?;
                let most = 2 * Direction::MAX_DIMENSIONS as u32;
                if dimensions > most {
                    let found = format!("{dimensions} dimensions");
                    return Err(self.text.error(found, format!("at most {most}")).into());
                }
                let mut dims = vec![4; dimensions as usize / 2];
                let mut wrap = vec![true; dims.len()];
                if dimensions % 2 == 1 || dims.is_empty() {
                    dims.push(1 + dimensions % 2);
                    wrap.push(false);
                }
                Ok((self.grid(line, dims, wrap)?, None))
            }
            b"mesh2D" | b"mesh3D" | b"meshXD" | b"torus2D" | b"torus3D" | b"torusXD" => {
                let count = match name[name.len() - 2] {
                    b'X' => self.number("a number of dimensions", 1)?,
                    digit => u32::from(digit - b'0'),
                };
                if count as usize > Direction::MAX_DIMENSIONS {
                    let found = format!("{count} dimensions");
                    let expected = format!("at most {}", Direction::MAX_DIMENSIONS);
                    return Err(self.text.error(found, expected).at(line.number).into());
                }
                let dims = self.sizes(count)?;
                let wrap = vec![name.starts_with(b"torus"); dims.len()];
                Ok((self.grid(line, dims, wrap)?, None))
            }
            b"tleaf" | b"ltleaf" => {
                let tree = self.tree(line, notes)?;
                if name == b"ltleaf" {
                    let leaves = self.number("a number of labels", 1)?;
                    for _ in 0..leaves {
                        self.number("a label", 0)?;
                    }
                    notes.push("labels of leaves are not used: they are numbered in order".into());
                }
                Ok(tree)
            }
            b"sub" => {
                let count = self.number("a number of processors", 1)?;
                let mut listed = Vec::new();
                for _ in 0..count {
                    listed.push(self.number("a processor's number", 0)?);
                }
                let (fabric, routing) = self.target(notes)?;
                let nodes = fabric.nodes().len();
                if let Some(beyond) = listed.iter().find(|&&p| p as usize >= nodes) {
                    let expected = format!("one of {nodes} processors, from 0");
                    return Err(self.text.error(beyond.to_string(), expected).into());
                }
                notes.push(format!(
                    "the target is {count} of these {nodes} processors; the whole machine is read: name nodes with --nodes"
                ));
                Ok((fabric, routing))
            }
            b"varcmplt" | b"varhcub" => Err(wrong("a target with a size")
                .hint("its size is that of the job: give cmplt N or hcub N")
                .into()),
            b"deco" => Err(wrong("a target with a closed form")
                .hint("decomposition-defined targets have distances and no links")
                .into()),
            _ => Err(wrong("cmplt, hcub, mesh2D, mesh3D, torus2D, torus3D, tleaf or sub").into()),
        }
    }

    /// Refuses a target of too many links.
    fn bounded(&self, line: Line<'_>, links: u64) -> Result<(), InputError> {
        if links <= MOST_LINKS {
            return Ok(());
        }
        let (found, most) = (
            format!("{links} links"),
            format!("at most {MOST_LINKS} links"),
        );
        let error = self.text.error(found, most).at(line.number);
        Err(error.hint("give a larger machine as a spec, such as torus:64x64x64"))
    }

    fn grid(&self, line: Line<'_>, dims: Vec<u32>, wrap: Vec<bool>) -> Result<Fabric, FabricError> {
        let ways = 2 * dims.len() as u64 + 2;
        self.bounded(line, product(&dims).saturating_mul(ways))?;
        let grid = Grid {
            shape: Shape { dims, wrap },
            nodes_per_router: 1,
            link: BytesPerSecond::from_gb(12.5),
            host: BytesPerSecond::from_gb(12.5),
            hop_latency: Seconds(100e-9),
        };
        grid.build(self.text.file())
    }

    /// `tleaf LEVELS (CHILDREN COST)…`, from the root down.
    fn tree(
        &mut self,
        line: Line<'a>,
        notes: &mut Vec<String>,
    ) -> Result<(Fabric, Option<Routing>), FabricError> {
        let levels = self.number("a number of levels", 1)?;
        let (mut down, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..levels {
            down.push(self.number("children of a switch", 1)?);
            costs.push(self.number("the cost of a link", 0)?);
        }
        // Of every level at most as many switches as leaves.
        let links = product(&down).saturating_mul(2 * u64::from(levels));
        self.bounded(line, links)?;
        down.reverse();
        let up = vec![1; down.len()];
        let tree = FatTree::of_levels(down, up).ok_or_else(|| {
            self.text
                .error(
                    format!("tleaf of {levels} levels"),
                    "at most eight levels and 2^32 leaves",
                )
                .at(line.number)
        })?;
        if costs.windows(2).any(|c| c[0] != c[1]) {
            let costs: Vec<String> = costs.iter().map(u32::to_string).collect();
            notes.push(format!(
                "costs of links by level ({}, from the root) are not used: every link has the same capacity",
                costs.join(", ")
            ));
        }
        let fabric = tree.build(&lossy(self.text.file().as_bytes()))?;
        Ok((fabric, Some(Routing::Tree(TreeRouting::new(&tree)))))
    }
}

fn product(sizes: &[u32]) -> u64 {
    sizes.iter().fold(1, |all, &n| all.saturating_mul(n.into()))
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::text::Limits;

    #[test]
    fn a_short_file_does_not_ask_for_a_million_links() {
        for (target, links) in [
            ("torusXD 1 1048576", 4_194_304),
            ("torus3D 256 64 5", 655_360),
            ("mesh2D 1024 512", 3_145_728),
            ("cmplt 724", 524_900),
            ("hcub 12", 0),
            ("cmplt 700", 0),
            ("tleaf 2 100000 1 10 1", 4_000_000),
            ("tleaf 3 64 1 16 1 16 1", 0),
            ("sub 1 0 torus2D 1000 1000", 6_000_000),
            (
                "torusXD 6 4294967295 4294967295 4294967295 4294967295 4294967295 4294967295",
                u64::MAX,
            ),
        ] {
            let text = Text::from_bytes("a.tgt", target.as_bytes(), Limits::TEXT).unwrap();
            let read = read(&text, &mut Vec::new());
            match (links, read) {
                (0, read) => assert!(read.is_ok(), "{target}"),
                (links, Ok(_)) => panic!("{target}: read, expected {links} links to be refused"),
                (links, Err(error)) => {
                    let error = error.to_string();
                    let found =
                        format!("a.tgt:1: found {links} links, expected at most 524288 links");
                    assert!(error.contains(&found), "{target}: {error}");
                }
            }
        }
    }
}
