//! The hosts of a machine in the compact format: absent from machines without described hosts.

use super::{Damage, Reader, Writer};
use crate::hosts::{HostKind, HostsRecord, InnerLink, Local, OwnPlace, PortRule, UnitSpec};
use crate::ids::NodeId;

impl Writer {
    pub(super) fn hosts(&mut self, hosts: &HostsRecord) {
        let rule = PortRule::ALL.iter().position(|r| r.0 == hosts.rule);
        self.number(rule.unwrap_or(0) as u64);
        self.number(hosts.kinds.len() as u64);
        hosts.kinds.iter().for_each(|kind| self.host_kind(kind));
        self.number(hosts.units.len() as u64);
        for unit in &hosts.units {
            self.number(unit.kind.into());
            self.texts(&unit.hosts);
            self.number(unit.ports.len() as u64);
            unit.ports.iter().for_each(|p| self.number(p.0.into()));
        }
        self.number(hosts.down.len() as u64);
        hosts.down.iter().for_each(|&l| self.number(l.into()));
    }

    fn host_kind(&mut self, kind: &HostKind) {
        self.text(&kind.name);
        self.number(kind.hosts.into());
        self.number(kind.ports.len() as u64);
        kind.ports.iter().for_each(|&h| self.number(h.into()));
        self.number(kind.own.len() as u64);
        for own in &kind.own {
            self.text(&own.name);
            self.number(own.host.into());
        }
        self.number(kind.places.len() as u64);
        kind.places.iter().for_each(|&p| self.local(p));
        self.number(kind.exclusive.into());
        self.texts(&kind.routers);
        self.number(kind.links.len() as u64);
        for link in &kind.links {
            self.local(link.from);
            self.local(link.to);
            self.text(&link.kind);
            self.float(link.capacity_bytes_per_s);
            self.float(link.latency_seconds);
        }
    }

    fn local(&mut self, end: Local) {
        let (tag, id) = match end {
            Local::Port(p) => (0, p),
            Local::Place(p) => (1, p),
            Local::Router(r) => (2, r),
        };
        self.number(u64::from(id) * 3 + tag);
    }
}

impl Reader<'_> {
    pub(super) fn hosts(&mut self) -> Result<HostsRecord, Damage> {
        let rule = PortRule::ALL[self.below(PortRule::ALL.len(), "a choice of ports")?].0;
        Ok(HostsRecord {
            rule,
            kinds: self.list(Self::host_kind)?,
            units: self.list(|r| {
                Ok(UnitSpec {
                    kind: r.u32()?,
                    hosts: r.list(Reader::text)?,
                    ports: r.list(|r| Ok(NodeId(r.u32()?)))?,
                })
            })?,
            down: self.list(Self::u32)?,
        })
    }

    fn host_kind(&mut self) -> Result<HostKind, Damage> {
        Ok(HostKind {
            name: self.text()?,
            hosts: self.u16()?,
            ports: self.list(Self::u16)?,
            own: self.list(|r| {
                Ok(OwnPlace {
                    name: r.text()?,
                    host: r.u16()?,
                })
            })?,
            places: self.list(Self::local)?,
            exclusive: self.below(2, "0 or 1")? == 1,
            routers: self.list(Self::text)?,
            links: self.list(|r| {
                Ok(InnerLink {
                    from: r.local()?,
                    to: r.local()?,
                    kind: r.text()?,
                    capacity_bytes_per_s: r.float()?,
                    latency_seconds: r.float()?,
                })
            })?,
        })
    }

    fn local(&mut self) -> Result<Local, Damage> {
        let number = self.number()?;
        let id = u16::try_from(number / 3).map_err(|_| self.damage("an end of an inner link"))?;
        Ok(match number % 3 {
            0 => Local::Port(id),
            1 => Local::Place(id),
            _ => Local::Router(id),
        })
    }
}
