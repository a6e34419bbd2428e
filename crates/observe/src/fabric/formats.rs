//! Table of the formats that describe a machine or a part of it: recognised by content, never by name.

use super::assemble::{self, Parts, finish};
use super::{
    Machine, codes, cray, flux, infiniband, infragraph, inside, kubernetes, own, scotch_target,
    slingshot, slurm, topograph,
};
use crate::ObserveError;
use crate::known::{Known, known, names};
use crate::text::{Line, Text};
use hopbyte_fabric::InputError;

/// One row of the table.
struct FormatRow {
    known: Known,
    recognise: Recognise,
    read: Read,
}

/// Way to recognise a format.
enum Recognise {
    /// By the whole text, before any single line is examined.
    Whole(fn(&Text) -> bool),
    /// By one line: the first recognised line decides.
    Line(fn(Line<'_>) -> bool),
}

/// Reader of a format.
enum Read {
    /// A scan of an InfiniBand subnet, which is combined with forwarding tables and coordinates.
    Subnet(fn(&Text) -> Result<infiniband::Scan, InputError>),
    /// A machine with its companion files.
    Machine(fn(Parts<'_>) -> Result<Machine, ObserveError>),
    /// None: the file is only a part of a machine. It is refused; the strings are the text found and a hint.
    Part(&'static str, &'static str),
}

/// The enum and its table from one list. If several formats recognise the same line, the first one wins.
macro_rules! formats {
    ($($format:ident: $name:literal, $about:literal, $page:literal, $fuzz:literal => $recognise:expr, $read:expr;)+) => {
        /// A format that describes a machine or a part of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Format {
            $(#[doc = concat!($name, ": ", $about)] $format,)+
        }

        impl Format {
            /// All of them, in the order in which they are tried.
            pub const ALL: [Self; TABLE.len()] = [$(Self::$format),+];
        }

        const TABLE: &[FormatRow] = &[$(FormatRow {
            known: known($name, $about, concat!("formats/", $page, ".md"), $fuzz),
            recognise: $recognise,
            read: $read,
        }),+];
    };
}

use Read::{Part, Subnet};
use Recognise::Whole;

formats! {
    Compact: "hopbyte's own binary", "fabric and routes, in a few bytes per link", "own", "compact"
        => Whole(own::is_compact), Read::Machine(|parts| {
            let (fabric, routing) = own::read_compact(parts.text)?;
            finish(fabric, Some(routing), parts.routes, parts.notes)
        });
    Netloc: "netloc node file", "fabric and its paths", "infiniband", "netloc"
        => Whole(infiniband::netloc::recognise), Read::Machine(assemble::netloc);
    Kubernetes: "kubectl get nodes -o json", "a tree of switches and GPUs of hosts, by labels", "hosts", "kubernetes"
        => Whole(kubernetes::recognise), Read::Machine(|parts| described(parts, kubernetes::read));
    TopographGraph: "topograph graph", "a tree of switches, by instance", "hosts", "topograph_graph"
        => Whole(topograph::recognise_graph), Read::Machine(|parts| described(parts, topograph::read_graph));
    InfraGraph: "InfraGraph", "fabric with the inside of its hosts", "hosts", "infragraph"
        => Whole(infragraph::recognise), Read::Machine(|mut parts| {
            let (fabric, hosts) = infragraph::read(parts.text, &mut parts.notes)?;
            let machine = finish(fabric, None, parts.routes, parts.notes)?;
            match hosts {
                Some(hosts) => {
                    let routing = machine.routing.within(hosts.rule);
                    let fabric = machine.fabric.with_hosts(hosts)?;
                    Ok(Machine { fabric, routing, ..machine })
                }
                None => Ok(machine),
            }
        });
    Flux: "Flux resource graph (JGF, R)", "fabric, a tree of containers", "targets", "flux"
        => Whole(flux::recognise), Read::Machine(|mut parts| {
            let plan = flux::read(parts.text, &mut parts.notes)?;
            let fabric = plan.build(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    Gemini: "rtr --interconnect of Gemini", "fabric", "cray", "gemini"
        => Recognise::Line(cray::gemini::recognise), Read::Machine(|parts| parts.cray(cray::gemini::read));
    Aries: "rtr --interconnect of Aries", "fabric", "cray", "aries"
        => Recognise::Line(cray::aries::recognise), Read::Machine(|parts| parts.cray(cray::aries::read));
    PhysRoutes: "rtr --phys-routes", "routes (`--routes`)", "cray", "phys_routes"
        => Recognise::Line(cray::phys_routes::recognise), Part(
            "routes of a Gemini machine",
            "give its interconnect (rtr --interconnect) and these as its routes",
        );
    SystemMap: "rtr --system-map", "node numbers and names (`--system-map`); of Gemini the fabric too", "cray", "system_map"
        => Recognise::Line(cray::system_map::recognise), Read::Machine(|parts| {
            parts.cray(|text, _, notes| cray::system_map::read(text)?.whole_gemini(notes))
        });
    NodeMap: "sst-macro node map", "the same", "cray", "system_map"
        => Recognise::Line(cray::system_map::recognise_node_map), Read::Machine(|parts| {
            parts.cray(|text, _, notes| cray::system_map::read(text)?.whole_gemini(notes))
        });
    Document: "hopbyte's own JSON", "fabric and routes", "own", "document"
        => Recognise::Line(own::recognise), Read::Machine(|parts| {
            let (fabric, routing) = own::read(parts.text)?;
            finish(fabric, Some(routing), parts.routes, parts.notes)
        });
    Hwloc: "hwloc XML", "fabric of one node", "node", "hwloc"
        => Recognise::Line(inside::hwloc::recognise), Read::Machine(|mut parts| {
            let fabric = inside::hwloc::read(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    Nccl: "NCCL topology XML", "fabric of one node", "node", "nccl"
        => Recognise::Line(inside::nccl::recognise), Read::Machine(|mut parts| {
            let fabric = inside::nccl::read(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    GpuTopology: "nvidia-smi topo -m", "fabric of one node", "node", "gpu_topology"
        => Recognise::Line(inside::topo::recognise), Read::Machine(|mut parts| {
            let fabric = inside::topo::read(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    ScotchTarget: "Scotch target (.tgt)", "fabric", "targets", "scotch_target"
        => Recognise::Line(scotch_target::recognise), Read::Machine(|mut parts| {
            let (fabric, routing) = scotch_target::read(parts.text, &mut parts.notes)?;
            finish(fabric, routing, parts.routes, parts.notes)
        });
    Codes: "CODES model (.conf)", "fabric, with the files of links that it names", "dragonfly", "codes"
        => Recognise::Line(codes::recognise), Read::Machine(|mut parts| {
            let fabric = codes::read(parts.text, parts.named, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    SlurmConf: "Slurm topology.conf", "fabric", "slurm", "slurm_conf"
        => Recognise::Line(slurm::conf::recognise), Read::Machine(|mut parts| {
            let plan = slurm::conf::read(parts.text, &mut parts.notes)?;
            let fabric = plan.build(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    SlurmYaml: "Slurm topology.yaml", "fabric", "slurm", "slurm_yaml"
        => Recognise::Line(slurm::topology_yaml::recognise), Read::Machine(|mut parts| {
            let plan = slurm::topology_yaml::read(parts.text, &mut parts.notes)?;
            let fabric = plan.build(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    TopographModel: "topograph model", "a tree of switches with domains of accelerators", "hosts", "topograph_model"
        => Recognise::Line(topograph::recognise_model), Read::Machine(|parts| described(parts, topograph::read_model));
    Slingshot: "Slingshot point-to-point CSV", "fabric", "dragonfly", "slingshot"
        => Recognise::Line(slingshot::recognise), Read::Machine(|mut parts| {
            let fabric = slingshot::read(parts.text, &mut parts.notes)?;
            finish(fabric, None, parts.routes, parts.notes)
        });
    ServiceLevels: "opensm-sl2vl.dump", "virtual lanes, as a check (`--routes`)", "infiniband", "ib_tables"
        => Recognise::Line(infiniband::service_levels::recognise), TABLES;
    IbPorts: "ibnetdiscover -p", "fabric", "infiniband", "ibnetdiscover_ports"
        => Recognise::Line(infiniband::port_lines::recognise), Subnet(infiniband::port_lines::read);
    IbRecords: "ibnetdiscover", "fabric", "infiniband", "ibnetdiscover"
        => Recognise::Line(infiniband::records::recognise), Subnet(infiniband::records::read);
    IbTables: "ibroute, dump_fts, opensm-lfts.dump, opensm.fdbs", "routes (`--routes`)", "infiniband", "ib_tables"
        => Recognise::Line(infiniband::tables::recognise), TABLES;
    GuidLids: "guid2lid", "LIDs for these", "infiniband", "ib_tables"
        => Recognise::Line(infiniband::tables::recognise_guid2lid), TABLES;
    TorusDump: "opensm-torus.dump", "coordinates (`--system-map`)", "infiniband", "torus_dump"
        => Recognise::Line(infiniband::torus_dump::recognise), Part(
            "coordinates of switches",
            "give the fabric (ibnetdiscover) and these as its system map",
        );
    SubnetList: "opensm-subnet.lst", "fabric", "infiniband", "subnet_list"
        => Recognise::Line(infiniband::subnet_list::recognise), Subnet(infiniband::subnet_list::read);
    LinkInfo: "iblinkinfo", "fabric", "infiniband", "link_info"
        => Recognise::Line(infiniband::link_info::recognise), Subnet(infiniband::link_info::read);
    IbdmTopology: "ibdm topology", "fabric", "infiniband", "ibdm_topology"
        => Recognise::Line(infiniband::ibdm_topology::recognise), Read::Machine(|parts| {
            let scan = infiniband::ibdm_topology::read(parts.text)?;
            parts.infiniband(scan)
        });
}

/// A description of nodes, which knows the inside of hosts.
fn described(
    mut parts: Parts<'_>,
    read: fn(&Text, &mut Vec<String>) -> Result<topograph::Read, InputError>,
) -> Result<Machine, ObserveError> {
    let (plan, hosts) = read(parts.text, &mut parts.notes)?;
    let fabric = plan.build(parts.text, &mut parts.notes)?;
    let machine = finish(fabric, None, parts.routes, parts.notes)?;
    Ok(machine.with_known(hosts))
}

const TABLES: Read = Part(
    "forwarding tables or LIDs",
    "give the fabric (ibnetdiscover) and these as its routes",
);

/// Maximum number of lines examined; scans may begin with a progress line for every device.
const LINES: usize = 100_000;

impl Format {
    fn row(self) -> &'static FormatRow {
        &TABLE[self as usize]
    }

    /// Its description for help, hints and the book.
    pub fn known(self) -> Known {
        self.row().known
    }

    /// Formats of machines without companions.
    pub(crate) fn machines() -> impl Iterator<Item = Known> {
        let whole = |row: &&FormatRow| !matches!(row.read, Part(..));
        TABLE.iter().filter(whole).map(|row| row.known)
    }

    /// Whether its files have no speeds, so that these are assumed.
    pub(super) fn has_no_speeds(self) -> bool {
        matches!(
            self,
            Self::SlurmConf
                | Self::SlurmYaml
                | Self::Flux
                | Self::Kubernetes
                | Self::TopographGraph
                | Self::TopographModel
        )
    }

    /// Whether it is a scan of an InfiniBand subnet that can be combined with forwarding tables.
    pub fn is_infiniband(self) -> bool {
        matches!(self.row().read, Subnet(_))
    }

    /// Whether its reader takes `--system-map`, and `--names`.
    fn takes(self) -> (bool, bool) {
        match self {
            Self::Gemini | Self::Aries => (true, false),
            Self::Netloc => (false, true),
            Self::IbdmTopology => (true, true),
            _ => (self.is_infiniband(), self.is_infiniband()),
        }
    }

    /// Whether a text in YAML has a key of the format: the first line alone, such as `topology: Ring`, is one of many tools.
    fn has_key(self, text: &Text) -> bool {
        let keys: &[&str] = match self {
            Self::SlurmYaml => &[
                "cluster_default",
                "tree",
                "block",
                "ring",
                "torus3d",
                "flat",
            ],
            Self::TopographModel => &["switches", "blocks", "capacity_blocks"],
            _ => return true,
        };
        let is_key = |line: Line<'_>| {
            let content = line.trimmed();
            let content = content
                .strip_prefix(b"- ")
                .unwrap_or(content)
                .trim_ascii_start();
            let content = content.strip_prefix(b"\"").unwrap_or(content);
            let rest = keys
                .iter()
                .find_map(|key| content.strip_prefix(key.as_bytes()));
            rest.is_some_and(|rest| matches!(rest, [b':', ..] | [b'"', b':', ..]))
        };
        text.lines().take(LINES).any(is_key)
    }

    /// Refuses companions that the reader of this format would ignore; `None` stands for a spec.
    pub(super) fn check_companions(
        format: Option<Self>,
        machine: &str,
        (map, names): (bool, bool),
    ) -> Result<(), InputError> {
        let (takes_map, takes_names) = format.map_or((false, false), Self::takes);
        let refused = |option, expected, hint| {
            let error = InputError::new(machine, option, expected);
            Err(error.hint(hint))
        };
        if map && !takes_map {
            return refused(
                "--system-map",
                "an interconnect of a Cray machine or a scan of InfiniBand",
                "this machine has its own names and numbers; leave the option out",
            );
        }
        if names && !takes_names {
            return refused(
                "--names",
                "a scan of InfiniBand, whose names can be replaced",
                "this machine has no GUIDs; leave the option out",
            );
        }
        Ok(())
    }

    /// The format of a text.
    pub fn of(text: &Text) -> Result<Self, InputError> {
        let unknown = |found: &str| {
            text.error(found, "a description of a machine")
                .hint(format!(
                    "known formats: {}, and specs such as gemini:16x12x24 or torus:8x8x8",
                    names(Self::machines())
                ))
        };
        let whole = |f: &Self| matches!(f.row().recognise, Whole(is_this) if is_this(text));
        if let Some(format) = Self::ALL.into_iter().find(whole) {
            return Ok(format);
        }
        if let Some(error) = text.unreadable("a description of a machine") {
            return Err(error);
        }
        if text.is_binary() {
            return Err(unknown("binary data").hint(
                "links of a CODES dragonfly are read through the model (.conf) that names them",
            ));
        }
        let mut first = None;
        for line in text.lines().take(LINES) {
            if line.trimmed().is_empty() {
                continue;
            }
            first = first.or(Some(line));
            let is = |f: &Self| {
                matches!(f.row().recognise, Recognise::Line(is_this) if is_this(line))
                    && f.has_key(text)
            };
            if let Some(format) = Self::ALL.into_iter().find(is) {
                return Ok(format);
            }
        }
        Err(match first {
            None => unknown(""),
            Some(line) if infiniband::is_device_list(line) => unknown(&line.text())
                .at(line.number)
                .hint("ibhosts and ibswitches list devices without cables; ibnetdiscover has both"),
            Some(_) if topograph::is_source(text) => text
                .error("an answer of NetQ or NMX", "a description of a machine")
                .hint("topograph makes its topology of both: give its model or the answer of its graph engine (instances with network_layers)"),
            Some(line) => unknown(&line.text()).at(line.number),
        })
    }

    /// Reads a machine and merges its companions.
    pub(super) fn read(self, mut parts: Parts<'_>) -> Result<Machine, ObserveError> {
        let given = (parts.map.is_some(), parts.names.is_some());
        Self::check_companions(Some(self), parts.text.file(), given)?;
        let texts = [Some(parts.text), parts.map, parts.names];
        let texts = texts.into_iter().flatten().chain(parts.named);
        parts.notes.extend(texts.filter_map(Text::unended));
        match self.row().read {
            Subnet(read) => {
                let scan = read(parts.text)?;
                parts.infiniband(scan)
            }
            Read::Machine(read) => read(parts),
            Part(found, hint) => Err(parts.text.error(found, "a machine").hint(hint).into()),
        }
    }
}
