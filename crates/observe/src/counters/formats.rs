//! Table of the counter formats: recognised by content, never by name.

use super::delta::Moment;
use super::end::End;
use super::reading::Reading;
use super::{
    CounterOptions, aries_csv, aries_tiles, ethtool, gm, gnmi, gpcdr, ibswinfo, interfaces,
    ldms_csv, ldms_ls, link_lines, mads, openmetrics, ports, prometheus, registers, snmp,
    torus_table,
};
use crate::ObserveError;
use crate::known::{Known, known, names};
use crate::text::{Line, Text};
use hopbyte_fabric::{Fabric, Increase, InputError, LeftOut};

/// One row of the table.
pub(super) struct Format {
    pub(super) known: Known,
    /// Whether a line is in this format. The first recognised line decides; if several rows recognise it, the first
    /// row wins.
    is_line: fn(&[u8]) -> bool,
    end: End,
    pub(super) read: Read,
}

/// Reads totals of devices; entries that are not used are counted.
type ReadDevices = fn(&Text, Option<&str>, &mut LeftOut) -> Result<Vec<Reading>, InputError>;

/// Reads GUIDs with part numbers.
type ReadSystems = fn(&Text, &mut LeftOut) -> Result<Vec<(u64, String)>, InputError>;

/// Reads the links behind named ports of switches.
type ReadPorts = fn(&Text, &mut LeftOut) -> Result<Vec<ports::Row>, InputError>;

/// Reader of a format.
#[derive(Clone, Copy)]
pub(super) enum Read {
    /// Totals of devices; the caller may give the node if the file does not name it.
    Readings(ReadDevices),
    /// Totals of many devices of a fabric; no single node is selected.
    Devices(ReadDevices),
    /// Part numbers of switches by GUID: no counters, but the ticks of theirs.
    Systems(ReadSystems),
    /// Peers of named ports: no counters, but the links of theirs.
    Ports(ReadPorts),
    /// Increases by link.
    Increases(fn(&Text, &Fabric, &CounterOptions) -> Result<Vec<Increase>, ObserveError>),
    /// Increases by link and code region.
    Regions(fn(&Text, &Fabric, Option<i64>) -> Result<Increase, ObserveError>),
}

const TABLE: &[Format] = &[
    Format {
        known: known(
            "libgm text",
            "increases of Gemini links (paper 000, Fig. 4)",
            "counters.md",
            "gm",
        ),
        is_line: |line| line.starts_with(b"(") && gm::is_header(line),
        end: End::Line,
        read: Read::Increases(|text, fabric, _| gm::read(text, fabric)),
    },
    Format {
        known: known(
            "output of `hopbyte links --json`",
            "increases by link",
            "counters.md",
            "link_lines",
        ),
        is_line: link_lines::is_line,
        end: End::Summary,
        read: Read::Increases(|text, fabric, _| link_lines::read(text, fabric)),
    },
    Format {
        known: known(
            "Aries link CSV",
            "increases of Aries links (AriesNCL in DragonView's form)",
            "counters.md",
            "aries_csv",
        ),
        is_line: aries_csv::is_line,
        end: End::Line,
        read: Read::Increases(|text, fabric, _| Ok(vec![aries_csv::read(text, fabric)?])),
    },
    Format {
        known: known(
            "Aries tile counters",
            "increases of Aries tiles (AriesNCL, by router and tile or by rank)",
            "counters.md",
            "aries_tiles",
        ),
        is_line: aries_tiles::is_line,
        end: End::Row,
        read: Read::Increases(|text, fabric, options| {
            let node = options.node.as_deref();
            Ok(vec![aries_tiles::read(text, fabric, node)?])
        }),
    },
    Format {
        known: known(
            "Boxfish link table",
            "increases of Blue Gene links, by code region",
            "counters.md",
            "torus_table",
        ),
        is_line: |line| line.starts_with(b"- ["),
        end: End::Line,
        read: Read::Regions(torus_table::read),
    },
    Format {
        known: known(
            "ldms_ls -l",
            "totals of LDMS sets",
            "counters.md",
            "ldms_ls",
        ),
        is_line: |line| ldms_ls::is_header(line) || ldms_ls::is_bare(line),
        end: End::Line,
        read: Read::Readings(|text, _, left_out| ldms_ls::readings(text, left_out)),
    },
    Format {
        known: known(
            "LDMS store_csv",
            "totals of LDMS sets over time",
            "counters.md",
            "ldms_csv",
        ),
        is_line: |line| ldms_csv::is_header(line) || ldms_csv::is_released(line),
        end: End::Row,
        read: Read::Readings(|text, _, left_out| ldms_csv::readings(text, left_out)),
    },
    Format {
        known: known(
            "gpcdr metrics",
            "totals of a Gemini or Aries node",
            "counters.md",
            "gpcdr",
        ),
        is_line: |line| line.starts_with(b"timestamp "),
        end: End::Line,
        read: Read::Readings(|text, node, left_out| {
            Ok(vec![gpcdr::reading(text, node, left_out)?])
        }),
    },
    Format {
        known: known(
            "ibqueryerrors and perfquery",
            "totals of InfiniBand ports",
            "counters.md",
            "mads",
        ),
        is_line: mads::is_line,
        end: End::Line,
        read: Read::Devices(|text, node, left_out| {
            mads::readings(text, node, Moment::default(), left_out)
        }),
    },
    Format {
        known: known(
            "ibswinfo",
            "type of an InfiniBand switch, beside its counters",
            "counters.md",
            "ibswinfo",
        ),
        is_line: ibswinfo::is_line,
        end: End::Line,
        read: Read::Systems(ibswinfo::systems),
    },
    Format {
        known: known(
            "OpenMetrics text",
            "totals of nodes from node_exporter and others",
            "counters.md",
            "openmetrics",
        ),
        is_line: openmetrics::is_line,
        end: End::Eof,
        read: Read::Readings(openmetrics::readings),
    },
    Format {
        known: known(
            "Prometheus JSON",
            "the same metrics, from its HTTP API (answers of /api/v1/query and query_range)",
            "counters.md",
            "prometheus",
        ),
        is_line: prometheus::is_line,
        end: End::Document,
        read: Read::Readings(prometheus::readings),
    },
    Format {
        known: known(
            "ethtool -S",
            "totals of a node's interfaces, by their drivers' names",
            "counters.md",
            "ethtool",
        ),
        is_line: ethtool::is_line,
        end: End::Line,
        read: Read::Readings(ethtool::readings),
    },
    Format {
        known: known(
            "ip -s link, /proc/net/dev",
            "totals of a node's interfaces, as the kernel counts them",
            "counters.md",
            "interfaces",
        ),
        is_line: interfaces::is_line,
        end: End::Line,
        read: Read::Readings(interfaces::readings),
    },
    Format {
        known: known(
            "snmpwalk of ifXTable",
            "totals of an Ethernet switch's ports",
            "counters.md",
            "snmp",
        ),
        is_line: snmp::is_line,
        end: End::Line,
        read: Read::Devices(snmp::readings),
    },
    Format {
        known: known(
            "gNMI JSON",
            "totals of Ethernet switches' ports (OpenConfig, gnmic)",
            "counters.md",
            "gnmi",
        ),
        is_line: gnmi::is_line,
        end: End::Document,
        read: Read::Devices(gnmi::readings),
    },
    Format {
        known: known(
            "table of ports",
            "peers of named ports of switches, beside their counters",
            "counters.md",
            "ports",
        ),
        is_line: ports::is_line,
        end: End::Line,
        read: Read::Ports(ports::rows),
    },
    Format {
        known: known(
            "Gemini and Aries registers",
            "totals of a router, one line per register",
            "counters.md",
            "registers",
        ),
        is_line: registers::is_line,
        end: End::Line,
        // The router has its own name.
        read: Read::Readings(registers::readings),
    },
];

/// Maximum number of lines searched to recognise a format.
const LINES: usize = 1000;

/// Formats of counters, in the order in which they are tried.
pub fn known_formats() -> impl Iterator<Item = Known> {
    TABLE.iter().map(|f| f.known)
}

/// The format of a text.
pub fn format(text: &Text) -> Result<Known, InputError> {
    Ok(Format::of(text)?.known)
}

/// A CSV header with quoted cells, without the quotes; `None` for other lines.
fn without_quotes(line: &[u8]) -> Option<Vec<u8>> {
    let is_quoted = line.starts_with(b"\"") && memchr::memmem::find(line, b"\",\"").is_some();
    is_quoted.then(|| line.iter().copied().filter(|&b| b != b'"').collect())
}

impl Format {
    /// The format of a text.
    ///
    /// # Errors
    /// None is recognised, or the text ends before its end.
    pub(super) fn of(text: &Text) -> Result<&'static Self, InputError> {
        for line in text.lines().take(LINES) {
            let content = line.trimmed();
            let of = |content: &[u8]| TABLE.iter().find(|f| (f.is_line)(content));
            if let Some(found) = of(content).or_else(|| of(&without_quotes(content)?)) {
                found.end.check(text)?;
                return Ok(found);
            }
        }
        let first = text.lines().find(|l| !l.trimmed().is_empty());
        let error = text
            .error(first.map_or_else(String::new, Line::text), "counters")
            .hint(format!("known formats: {}", names(known_formats())));
        Err(first.map_or(error.clone(), |l| error.at(l.number)))
    }
}
