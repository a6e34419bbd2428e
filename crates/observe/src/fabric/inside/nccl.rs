//! NCCL topology XML: the output of `NCCL_TOPO_DUMP_FILE`, the input of `NCCL_TOPO_FILE`.
//!
//! ```text
//! <system version="1">
//!   <cpu numaid="0" …>
//!     <pci busid="0000:10:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
//!       <pci busid="0000:10:1c.0" class="0x030200" …> <gpu dev="0"><nvlink target="0000:20:1c.0" count="2"/></gpu>
//!       <pci busid="0000:10:1b.0" class="0x020000" …> <nic><net name="mlx5_0" speed="200000"/></nic>
//! ```

use super::{BETWEEN_PACKAGES, INSIDE_PACKAGE, Inside, Rate, line, parse, pci_device};
use crate::ObserveError;
use crate::text::{Line, Text};
use hopbyte_fabric::{Fabric, InputError, RouterId};
use roxmltree::Node;
use std::collections::HashMap;

/// Whether a line begins a topology.
pub fn recognise(line: Line<'_>) -> bool {
    line.trimmed().starts_with(b"<system version=")
}

/// One NVLink of the third generation each way; NCCL counts links and takes the rate from the chip.
const NVLINK: f64 = 25.0;

/// Reads a topology.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Fabric, ObserveError> {
    let document = parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "system" {
        let found = root.tag_name().name();
        return Err(text.error(found, "a <system>").at(line(root)).into());
    }
    let mut reader = Reader {
        text,
        inside: Inside::new(text),
        gpus: HashMap::new(),
        nvlinks: Vec::new(),
    };
    let top = reader.inside.router("system");
    for cpu in root.children().filter(|e| e.has_tag_name("cpu")) {
        reader.inside.count("CPU");
        let name = format!("cpu {}", cpu.attribute("numaid").unwrap_or("?"));
        let below = reader.inside.router(&name);
        reader
            .inside
            .join(top, below, "CPU", Rate::assumed(BETWEEN_PACKAGES));
        let cores = format!("cores {}", cpu.attribute("numaid").unwrap_or("?"));
        reader
            .inside
            .device(&cores, below, "core", Rate::assumed(INSIDE_PACKAGE));
        reader.pci_below(cpu, below)?;
    }
    reader.join_nvlinks(notes);
    Ok(reader.inside.finish(text, notes)?)
}

/// The router, the far GPU by bus id, and the number of links to it.
type NvLink = (RouterId, String, f64);

struct Reader<'a> {
    text: &'a Text,
    inside: Inside,
    /// Router of a GPU that has NVLinks, by bus id.
    gpus: HashMap<String, RouterId>,
    nvlinks: Vec<NvLink>,
}

impl Reader<'_> {
    fn pci_below(&mut self, of: Node<'_, '_>, at: RouterId) -> Result<(), ObserveError> {
        for pci in of.children().filter(|e| e.has_tag_name("pci")) {
            self.pci(pci, at)?;
        }
        Ok(())
    }

    fn pci(&mut self, pci: Node<'_, '_>, at: RouterId) -> Result<(), ObserveError> {
        let bus = pci
            .attribute("busid")
            .ok_or_else(|| self.wrong(pci, "a busid"))?;
        let class = pci
            .attribute("class")
            .and_then(|c| u32::from_str_radix(c.trim_start_matches("0x"), 16).ok());
        let class = class.ok_or_else(|| self.wrong(pci, "a class such as 0x030200"))?;
        let rate = rate(pci).unwrap_or(Rate::assumed(INSIDE_PACKAGE));
        // The last two digits are the programming interface.
        let Some(what) = pci_device(class >> 8) else {
            let below = self.inside.router(&format!("pci {bus}"));
            self.inside.count("PCI switch");
            self.inside.join(at, below, "PCI", rate);
            return self.pci_below(pci, below);
        };
        let n = self.inside.count(what);
        let nets: Vec<&str> = pci
            .descendants()
            .filter_map(|e| e.has_tag_name("net").then(|| e.attribute("name"))?)
            .collect();
        let gpu = pci.children().find(|e| e.has_tag_name("gpu"));
        let number = gpu
            .and_then(|g| g.attribute("dev"))
            .map_or(n.to_string(), str::to_owned);
        let name = nets.first().map_or_else(
            || format!("{}{number}", if what == "GPU" { "gpu" } else { "nic" }),
            |net| (*net).to_owned(),
        );
        let links: Vec<Node<'_, '_>> = gpu.map_or(Vec::new(), |g| {
            g.children().filter(|e| e.has_tag_name("nvlink")).collect()
        });
        let (router, rate, kind) = if links.is_empty() {
            (at, rate, "PCI")
        } else {
            // A GPU with its own links is a junction, so it gets a router.
            let own = self.inside.router(&format!("{name} {bus}"));
            self.inside.join(at, own, "PCI", rate);
            self.gpus.insert(bus.to_ascii_lowercase(), own);
            for link in links {
                let count = link.attribute("count").and_then(|c| c.parse::<u16>().ok());
                let target = link.attribute("target").map(str::to_ascii_lowercase);
                let (Some(count @ 1..), Some(target)) = (count, target) else {
                    return Err(self.wrong(link, "a target and a count from 1").into());
                };
                self.nvlinks.push((own, target, count.into()));
            }
            (own, Rate::assumed(INSIDE_PACKAGE), "GPU")
        };
        let node = self.inside.device(&name, router, kind, rate);
        self.inside
            .b
            .node_alias(crate::fabric::names::name(bus.as_bytes()), node);
        Ok(())
    }

    /// Joins GPUs that list each other; links to switches end at one router per switch.
    fn join_nvlinks(&mut self, notes: &mut Vec<String>) {
        let nvlinks = std::mem::take(&mut self.nvlinks);
        let mut switches: HashMap<String, RouterId> = HashMap::new();
        let mut joined = 0;
        for (from, target, count) in &nvlinks {
            let rate = Rate::assumed(NVLINK * count);
            let to = match self.gpus.get(target) {
                Some(&to) if from < &to => to,
                // The far GPU's entry adds this link, or it is the same GPU.
                Some(_) => continue,
                None => match switches.get(target) {
                    Some(&to) => to,
                    None => {
                        let to = self.inside.router(&format!("nvswitch {target}"));
                        switches.insert(target.clone(), to);
                        to
                    }
                },
            };
            joined += 1;
            self.inside.join(*from, to, "NVLink", rate);
        }
        if joined > 0 {
            notes.push(format!(
                "{joined} NVLink joints: {NVLINK} GB/s each way a link are assumed"
            ));
        }
    }

    fn wrong(&self, element: Node<'_, '_>, expected: &str) -> InputError {
        let found = format!("<{}>", element.tag_name().name());
        self.text.error(found, expected).at(line(element))
    }
}

/// `8 GT/s` or `16.0 GT/s PCIe` times the number of lanes.
fn rate(pci: Node<'_, '_>) -> Option<Rate> {
    let speed = pci
        .attribute("link_speed")?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    Rate::pci(speed, pci.attribute("link_width")?.parse().ok()?)
}
