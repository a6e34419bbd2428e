//! Which format is this? Decided by content, never by name.

use super::{codes, cray, infiniband, inside, own, slingshot, slurm};
use crate::text::Text;
use hopbyte_fabric::InputError;

/// A format that describes a machine or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `ibnetdiscover`.
    IbRecords,
    /// `ibnetdiscover -p`.
    IbPorts,
    /// `opensm-subnet.lst`.
    SubnetList,
    /// `iblinkinfo`.
    LinkInfo,
    /// `ibdm` topology.
    IbdmTopology,
    /// netloc's node file.
    Netloc,
    /// `guid2lid`.
    GuidLids,
    /// `opensm-torus.dump`.
    TorusDump,
    /// `ibroute`, `dump_fts`, `opensm-lfts.dump`.
    IbTables,
    /// `rtr --interconnect` of a Gemini machine.
    Gemini,
    /// `rtr --interconnect` of an Aries machine.
    Aries,
    /// `rtr --phys-routes`.
    PhysRoutes,
    /// `rtr --system-map`.
    SystemMap,
    /// sst-macro's node map.
    NodeMap,
    /// Slingshot point-to-point CSV.
    Slingshot,
    /// CODES model of a dragonfly.
    Codes,
    /// Slurm's `topology.conf`.
    SlurmConf,
    /// Slurm's `topology.yaml`.
    SlurmYaml,
    /// hwloc's XML: what is inside a node.
    Hwloc,
    /// NCCL's XML: likewise.
    Nccl,
    /// hopbyte's own, as JSON.
    Document,
    /// hopbyte's own, compact.
    Compact,
}

/// Lines that are looked at before giving up; scans may begin with a line of progress for every device.
const LINES: usize = 100_000;

impl Format {
    /// Whether it is a scan of an InfiniBand subnet that goes with forwarding tables.
    pub fn is_infiniband(self) -> bool {
        matches!(
            self,
            Self::IbRecords | Self::IbPorts | Self::SubnetList | Self::LinkInfo
        )
    }

    /// The format of a text.
    pub fn of(text: &Text) -> Result<Self, InputError> {
        let unknown = |found: &str| {
            text.error(found, "a description of a machine").hint(
                "known are ibnetdiscover (with or without -p), iblinkinfo, opensm-subnet.lst, netloc \
                 node files, ibdm topologies, rtr --interconnect and --system-map, Slingshot \
                 point-to-point CSV, CODES models (.conf), Slurm topologies, hwloc and NCCL XML, what fabric convert writes, and specs \
                 such as gemini:16x12x24 or torus:8x8x8",
            )
        };
        if own::is_compact(text) {
            return Ok(Self::Compact);
        }
        if text.is_binary() {
            return Err(unknown("binary data").hint(
                "links of a CODES dragonfly are read through the model (.conf) that names them",
            ));
        }
        if infiniband::netloc::recognise(text) {
            return Ok(Self::Netloc);
        }
        let mut first = None;
        for line in text.lines().take(LINES) {
            if line.trimmed().is_empty() {
                continue;
            }
            first = first.or(Some(line));
            for (is_this, format) in [
                (cray::gemini::recognise as fn(_) -> bool, Self::Gemini),
                (cray::aries::recognise, Self::Aries),
                (cray::phys_routes::recognise, Self::PhysRoutes),
                (cray::system_map::recognise, Self::SystemMap),
                (cray::system_map::recognise_node_map, Self::NodeMap),
                (own::recognise, Self::Document),
                (inside::hwloc::recognise, Self::Hwloc),
                (inside::nccl::recognise, Self::Nccl),
                (codes::recognise, Self::Codes),
                (slurm::conf::recognise, Self::SlurmConf),
                (slurm::topology_yaml::recognise, Self::SlurmYaml),
                (slingshot::recognise, Self::Slingshot),
                (infiniband::port_lines::recognise, Self::IbPorts),
                (infiniband::records::recognise, Self::IbRecords),
                (infiniband::tables::recognise, Self::IbTables),
                (infiniband::tables::recognise_guid2lid, Self::GuidLids),
                (infiniband::torus_dump::recognise, Self::TorusDump),
                (infiniband::subnet_list::recognise, Self::SubnetList),
                (infiniband::link_info::recognise, Self::LinkInfo),
                (infiniband::ibdm_topology::recognise, Self::IbdmTopology),
            ] {
                if is_this(line) {
                    return Ok(format);
                }
            }
        }
        Err(match first {
            None => unknown(""),
            Some(line) => unknown(&line.text()).at(line.number),
        })
    }
}
