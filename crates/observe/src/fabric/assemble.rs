//! Combines a dump and its companion files into one machine.

use super::cray::system_map::SystemMap;
use super::machine::Machine;
use super::{cray, infiniband};
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::bounds::{MAX_DISTANCES, MAX_ENTRIES};
use hopbyte_fabric::{Fabric, Family, InputError, Routing};
use std::collections::HashMap;

/// Files of tables, each with whether it comes from a folder of files.
pub type Texts<'a> = dyn Iterator<Item = Result<(Text, bool), ObserveError>> + 'a;

/// A dump and its companions; files of tables are read one after the other.
pub struct Parts<'a> {
    pub text: &'a Text,
    pub named: &'a [Text],
    pub map: Option<&'a Text>,
    pub names: Option<&'a Text>,
    pub routes: &'a mut Texts<'a>,
    pub notes: Vec<String>,
}

/// Reads a Cray dump, with its system map if one was given; remarks are added to the notes.
type ReadCray = fn(&Text, Option<&SystemMap>, &mut Vec<String>) -> Result<Fabric, ObserveError>;

/// A netloc file; it contains its own paths.
pub fn netloc(mut parts: Parts<'_>) -> Result<Machine, ObserveError> {
    let read = infiniband::netloc::read(parts.text)?;
    let names = parts.names()?;
    let (fabric, addresses) = read.scan.clone().build(&names, None, &mut parts.notes)?;
    check_tables_fit(&fabric)?;
    let tables = read.tables(&fabric, &addresses, &mut parts.notes)?;
    let routing = tables.map(Routing::Tables);
    finish(fabric, routing, parts.routes, parts.notes)
}

impl Parts<'_> {
    /// A Cray machine, with its system map if one was given.
    pub fn cray(mut self, read: ReadCray) -> Result<Machine, ObserveError> {
        let map = self.map.map(cray::system_map::read).transpose()?;
        let fabric = read(self.text, map.as_ref(), &mut self.notes)?;
        finish(fabric, None, self.routes, self.notes)
    }

    fn names(&mut self) -> Result<HashMap<u64, String>, InputError> {
        let read = |text| infiniband::guid_names::read(text, &mut self.notes);
        self.names.map_or_else(|| Ok(HashMap::new()), read)
    }

    /// A scan of a subnet, with coordinates, names and forwarding tables.
    pub fn infiniband(mut self, scan: infiniband::Scan) -> Result<Machine, ObserveError> {
        let names = self.names()?;
        let coordinates = self.map.map(infiniband::torus_dump::read).transpose()?;
        let (fabric, addresses) = scan.build(&names, coordinates.as_ref(), &mut self.notes)?;
        let mut given = self.routes.peekable();
        let first = match given.peek() {
            Some(Ok((text, _))) => text.file().to_owned(),
            _ => String::new(),
        };
        let mut tables = None;
        if given.peek().is_some() {
            check_tables_fit(&fabric)?;
            let mut reader = infiniband::tables::TableReader::new(&fabric, addresses);
            for table in given {
                let (table, of_folder) = table?;
                self.notes.extend(table.unended());
                reader.read(&table, of_folder, &mut self.notes)?;
            }
            reader.check_read(&first)?;
            if reader.has_tables() {
                tables = Some(reader.finish(&mut self.notes));
            }
        }
        let Some(tables) = tables else {
            self.notes.push(
                "no forwarding tables: all minimal paths are assumed, split by capacity".into(),
            );
            return finish(fabric, None, &mut std::iter::empty(), self.notes);
        };
        if tables.entries() == 0 {
            let found = "no entry for any node of the fabric";
            return Err(InputError::new(first, found, "its tables")
                .of(hopbyte_fabric::Class::OtherMachine)
                .hint("do the tables belong to this fabric?")
                .into());
        }
        Ok(Machine {
            routing: Routing::Tables(tables),
            fabric,
            notes: self.notes,
            hosts: Vec::new(),
        })
    }
}

/// Tables take two bytes for every router and node; a hostile scan could require terabytes.
fn check_tables_fit(fabric: &Fabric) -> Result<(), InputError> {
    let (routers, nodes) = (fabric.routers().len(), fabric.nodes().len());
    if routers.saturating_mul(nodes) as u64 <= MAX_ENTRIES {
        return Ok(());
    }
    let found = format!("{routers} routers and {nodes} nodes");
    let expected = format!("forwarding tables of at most {MAX_ENTRIES} entries");
    Err(InputError::new(fabric.source(), found, expected))
}

/// Combines a fabric with its own routing or the family's default: dimension order, dragonfly minimal, all minimal
/// paths. Routes of a Gemini machine are checked against it; other fabrics accept no tables.
pub fn finish(
    fabric: Fabric,
    routing: Option<Routing>,
    routes: &mut Texts<'_>,
    mut notes: Vec<String>,
) -> Result<Machine, ObserveError> {
    let by_coordinate = matches!(
        fabric.family(),
        Family::Gemini | Family::Torus | Family::Mesh
    );
    if routing.is_none() && !by_coordinate && fabric.routers().len() as u64 > MAX_DISTANCES {
        let found = format!(
            "{} routers without forwarding tables",
            fabric.routers().len()
        );
        let expected = format!("at most {MAX_DISTANCES} to compute shortest paths for");
        return Err(InputError::new(fabric.source(), found, expected)
            .hint("give the forwarding tables as routes")
            .into());
    }
    let mut routing = routing.unwrap_or_else(|| Routing::default_for(&fabric));
    let mut first = routes.next();
    if fabric.family() == Family::Gemini && first.is_some() {
        check_tables_fit(&fabric)?;
        let mut reader = cray::phys_routes::PhysRoutes::new(&fabric, &routing);
        for text in first.take().into_iter().chain(routes) {
            let (text, _) = text?;
            notes.extend(text.unended());
            reader.read(&text)?;
        }
        let other = reader.finish(&mut notes);
        routing = other.unwrap_or(routing);
    }
    if let Some(table) = first {
        let expected = "no forwarding tables: this machine routes by its own rule";
        let error = InputError::new("--routes", table?.0.file(), expected);
        let hint = "leave --routes out; InfiniBand fabrics take forwarding tables, Gemini machines rtr --phys-routes";
        return Err(error.hint(hint).into());
    }
    Ok(Machine {
        fabric,
        routing,
        notes,
        hosts: Vec::new(),
    })
}
