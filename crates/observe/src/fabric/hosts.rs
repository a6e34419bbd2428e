//! The inside of a machine's hosts, by option: a well-known kind, or a file of hwloc, NCCL or `nvidia-smi topo -m`.
//!
//! `KIND[/RULE][@HOSTS]`: `dgx-h100`, `mi300x/striped`, `gb200-nvl72@rack[01-04]n[01-18]`, `topo.xml/rail@n[1-8]`. Without a list
//! a kind is that of all hosts that no other option names, and a file of those with its adapters. Hosts without an option
//! have the kind that the description of nodes gives them.

use super::host_files::{Described, Matched};
use super::labels;
use super::machine::{KnownHost, Machine};
use crate::ObserveError;
use crate::placement::host_list;
use hopbyte_fabric::hosts::{
    HOST_KINDS, HostShape, HostSpec, HostsRecord, PortRule, Published, UnitSpec, describe_shaped,
};
use hopbyte_fabric::{Fabric, FabricError, InputError, NodeId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// Hosts with their endpoints.
type Groups = Vec<(String, Vec<NodeId>)>;

/// Describes the hosts of a machine.
///
/// # Errors
/// An unknown kind or host, hosts that are described already.
pub fn attach(mut machine: Machine, options: &[String]) -> Result<Machine, ObserveError> {
    if options.is_empty() && machine.hosts.iter().all(|h| h.kind.is_none()) {
        labels::remarks(&machine.hosts, &mut machine.notes);
        return Ok(machine);
    }
    let Machine {
        fabric,
        routing,
        mut notes,
        hosts: known,
    } = machine;
    if fabric.inside().is_some() {
        let found = format!("--hosts {}", options.join(" --hosts "));
        return Err(
            InputError::new(fabric.source(), found, "hosts described once")
                .hint("the machine's own description has hosts")
                .into(),
        );
    }
    let mut all: Groups = fabric
        .places_by_host()
        .into_iter()
        .map(|(name, nodes)| (name.to_owned(), nodes))
        .collect();
    if let Some(option) = options.iter().find(|o| o.ends_with('@')) {
        let expected = "names of hosts behind @, such as n[01-18]";
        let error = InputError::new(format!("--hosts {option}"), "no name", expected);
        let hint = "without @ it is the kind of all hosts that no other option names";
        return Err(error.hint(hint).into());
    }
    let mut record: Option<HostsRecord> = None;
    let mut choice = Choice::default();
    // Lists first: the others take the rest.
    let (listed, open): (Vec<&String>, Vec<&String>) =
        options.iter().partition(|o| o.contains('@'));
    for option in listed.into_iter().chain(open) {
        let (kind, list) = option.split_once('@').unwrap_or((option, ""));
        let next = if let Some((file, rule)) = file_and_rule(kind, option)? {
            let described = Described::read(file, &mut notes)?;
            let (chosen, rest) = choose(all, list, false, option)?;
            let (next, left) = by_file(&described, &fabric, chosen, (rule, !list.is_empty()));
            if list.is_empty() && next.units.is_empty() {
                return Err(fits_none(&described, &fabric, &left, option).into());
            }
            if !list.is_empty() && !left.is_empty() {
                let found = left[0].0.clone();
                let expected = "a host with the adapters of the file";
                return Err(InputError::new(format!("--hosts {option}"), found, expected).into());
            }
            all = [left, rest].concat();
            notes.push(format!("hosts {option}: {}", next.units.len()));
            choice.add(next.rule, rule.is_some(), option)?;
            next
        } else {
            let spec = HostSpec::parse(kind)?;
            choice.add(spec.rule, kind.contains('/'), option)?;
            let (chosen, rest) = choose(all, list, spec.kind.gpus == 0, option)?;
            all = rest;
            notes.push(counts(option, &spec, &chosen));
            in_domains(&fabric, spec, chosen, &known, false)?
        };
        record = Some(joined(record, next));
    }
    for (kind, chosen) in by_known(all, &known) {
        let spec = HostSpec::from(kind);
        for (gpus, hosts) in by_gpus(&chosen, &known) {
            let option = format!("{} of {gpus} GPUs", kind.name);
            notes.push(counts(&option, &spec, &hosts));
        }
        choice.add(spec.rule, false, "")?;
        let next = in_domains(&fabric, spec, chosen, &known, true)?;
        record = Some(joined(record, next));
    }
    let Some(mut record) = record else {
        return Ok(Machine {
            fabric,
            routing,
            notes,
            hosts: known,
        });
    };
    record.rule = choice.made(&mut notes).unwrap_or(record.rule);
    let rule = record.rule;
    Ok(Machine {
        fabric: fabric.with_hosts(record)?,
        routing: routing.within(rule),
        notes,
        hosts: known,
    })
}

/// Hosts that no option names, by the kinds that are known of them. Hosts of NVLink domains are together even if some have
/// fewer GPUs.
fn by_known(rest: Groups, known: &[KnownHost]) -> Vec<(Published, Groups)> {
    let kinds: HashMap<&str, Published> = known
        .iter()
        .filter_map(|h| Some((h.name.as_str(), h.kind?)))
        .collect();
    let mut found: Vec<(Published, Groups)> = Vec::new();
    for host in rest {
        let Some(&kind) = kinds.get(host.0.as_str()) else {
            continue;
        };
        let alike = |f: &&mut (Published, Groups)| {
            let most = f.0.gpus.max(kind.gpus);
            let same = |k: Published| Published { gpus: most, ..k };
            f.0 == kind || (kind.hosts > 1 && same(f.0) == same(kind))
        };
        match found.iter_mut().find(alike) {
            Some((first, hosts)) => {
                first.gpus = first.gpus.max(kind.gpus);
                hosts.push(host);
            }
            None => found.push((kind, vec![host])),
        }
    }
    found
}

/// Hosts by their known number of GPUs, the most first.
fn by_gpus(hosts: &Groups, known: &[KnownHost]) -> Vec<(u16, Groups)> {
    let gpus = gpus_of(known);
    let mut found: BTreeMap<u16, Groups> = BTreeMap::new();
    for host in hosts {
        let own = gpus.get(host.0.as_str()).copied().unwrap_or(0);
        found.entry(own).or_default().push(host.clone());
    }
    found.into_iter().rev().collect()
}

/// Known numbers of GPUs by host.
fn gpus_of(known: &[KnownHost]) -> HashMap<&str, u16> {
    let own = known.iter().filter_map(|h| Some((h, h.kind?)));
    own.map(|(h, kind)| (h.name.as_str(), kind.gpus)).collect()
}

/// The GPUs and rails of hosts of a kind.
fn shapes(
    fabric: &Fabric,
    kind: &Published,
    hosts: &Groups,
    gpus: &HashMap<&str, u16>,
) -> Vec<HostShape> {
    let ends: Vec<(&str, &[NodeId])> = hosts.iter().map(|h| (h.0.as_str(), &h.1[..])).collect();
    let rails = hopbyte_fabric::hosts::rails(&ends, |n| fabric.node(n).name.as_str());
    let shape = |(host, (rails, all_rails)): (&(String, _), (Vec<u16>, u16))| {
        let whole = HostShape::whole(kind, rails.len());
        HostShape {
            gpus: gpus.get(host.0.as_str()).copied().unwrap_or(whole.gpus),
            rails,
            all_rails,
        }
    };
    hosts.iter().zip(rails).map(shape).collect()
}

/// Kinds of hosts by name: of options, else of the description. Faults of options are left to [`attach`].
pub fn kinds(
    machine: &Machine,
    options: &[String],
) -> Result<HashMap<String, Published>, ObserveError> {
    let described = machine.hosts.iter();
    let mut kinds: HashMap<String, Published> = described
        .filter_map(|h| Some((h.name.clone(), h.kind?)))
        .collect();
    let (listed, open): (Vec<&String>, Vec<&String>) =
        options.iter().partition(|o| o.contains('@'));
    for option in open.into_iter().chain(listed) {
        let (kind, list) = option.split_once('@').unwrap_or((option, ""));
        if file_and_rule(kind, option)?.is_some() {
            continue;
        }
        let kind = HostSpec::parse(kind)?.kind;
        let hosts = match list {
            "" => machine
                .fabric
                .nodes()
                .iter()
                .map(|n| n.host.clone())
                .collect(),
            list => host_list(list).unwrap_or_default(),
        };
        kinds.extend(hosts.into_iter().map(|h| (h, kind)));
    }
    Ok(kinds)
}

/// Hosts of a kind in NVLink domains: those that the description gives, else consecutive hosts on one switch. A domain
/// larger than the kind's is divided into its parts, if they are known. With `own_gpus` hosts have the GPUs that the
/// description gives them.
fn in_domains(
    fabric: &Fabric,
    spec: HostSpec,
    mut hosts: Groups,
    known: &[KnownHost],
    own_gpus: bool,
) -> Result<HostsRecord, FabricError> {
    let gpus = if own_gpus {
        gpus_of(known)
    } else {
        HashMap::new()
    };
    let names: HashSet<&str> = hosts.iter().map(|h| h.0.as_str()).collect();
    let labelled = known
        .iter()
        .filter(|h| h.domain.is_some() && names.contains(h.name.as_str()));
    let labelled: HashMap<String, &KnownHost> = labelled.map(|h| (h.name.clone(), h)).collect();
    if spec.kind.hosts < 2 || labelled.is_empty() {
        let leaf = |_: &str, ports: &[NodeId]| {
            let first = ports.first()?;
            Some(u64::from(fabric.node(*first).router.0))
        };
        let shapes = shapes(fabric, &spec.kind, &hosts, &gpus);
        return describe_shaped(spec, &hosts, &shapes, (spec.kind.hosts, &leaf));
    }
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for domain in labelled.values().filter_map(|h| h.domain.as_deref()) {
        *sizes.entry(domain).or_default() += 1;
    }
    let mut numbers: HashMap<(&str, &str), u64> = HashMap::new();
    let mut keys: HashMap<String, u64> = HashMap::new();
    for (at, (host, _)) in (0u64..).zip(&hosts) {
        let domain = labelled
            .get(host)
            .and_then(|h| Some((*h, h.domain.as_deref()?)));
        let key = match domain {
            // Alone.
            None => (1 << 32) + at,
            Some((known, domain)) => {
                let large = sizes[domain] > usize::from(spec.kind.hosts);
                let part = known.sub_domain.as_deref().filter(|_| large);
                let next = numbers.len() as u64;
                *numbers.entry((domain, part.unwrap_or(""))).or_insert(next)
            }
        };
        keys.insert(host.clone(), key);
    }
    hosts.sort_by_key(|h| keys[&h.0]);
    let shapes = shapes(fabric, &spec.kind, &hosts, &gpus);
    let domain = |host: &str, _: &[NodeId]| keys.get(host).copied();
    describe_shaped(spec, &hosts, &shapes, (u16::MAX, &domain))
}

/// Splits the hosts into those of an option and the rest; without a list all, or those with several adapters.
fn choose(
    all: Groups,
    list: &str,
    several: bool,
    option: &str,
) -> Result<(Groups, Groups), ObserveError> {
    let wrong = |found: &str, expected: &str| {
        InputError::new(format!("--hosts {option}"), found, expected)
            .hint("a list is rack1,n[01-18]; every host is described once")
    };
    if list.is_empty() {
        let (chosen, rest): (Groups, Groups) =
            all.into_iter().partition(|h| !several || h.1.len() > 1);
        let found = match rest.is_empty() {
            true => "no host that is left for it",
            false => "no host with several adapters",
        };
        return match chosen.is_empty() {
            true => Err(wrong(found, "hosts of this kind, or @ and a list of them").into()),
            false => Ok((chosen, rest)),
        };
    }
    let names = host_list(list).ok_or_else(|| wrong(list, "names with ranges such as n[01-18]"))?;
    let mut index: HashMap<String, Vec<NodeId>> = all.iter().cloned().collect();
    let mut chosen = Vec::new();
    for name in names {
        let nodes = index.remove(&name);
        let nodes = nodes.ok_or_else(|| wrong(&name, "a host of the fabric, once"))?;
        chosen.push((name, nodes));
    }
    let rest = all.into_iter().filter(|h| index.contains_key(&h.0));
    Ok((chosen, rest.collect()))
}

/// The file of an option and the choice of ports after it, if the option names a file.
fn file_and_rule<'a>(
    kind: &'a str,
    option: &str,
) -> Result<Option<(&'a Path, Option<PortRule>)>, InputError> {
    if Path::new(kind).is_file() {
        return Ok(Some((Path::new(kind), None)));
    }
    let Some((file, rule)) = kind.rsplit_once('/').filter(|f| Path::new(f.0).is_file()) else {
        return Ok(None);
    };
    let rules: Vec<&str> = PortRule::ALL.iter().map(|r| r.1).collect();
    let expected = format!("one of {} after the file", rules.join(", "));
    let rule = rule
        .parse::<PortRule>()
        .map_err(|()| InputError::new(format!("--hosts {option}"), rule, expected));
    Ok(Some((Path::new(file), Some(rule?))))
}

/// The refusal of a file that fits no host, with the adapters of the first host and of the file.
fn fits_none(file: &Described, scan: &Fabric, hosts: &Groups, option: &str) -> InputError {
    let few = |names: Vec<&str>| {
        let more = if names.len() > 4 { ", …" } else { "" };
        format!("{}{more}", names[..names.len().min(4)].join(", "))
    };
    let found = match hosts.first() {
        Some((host, ports)) => {
            let ports = ports.iter().map(|&n| scan.node(n).name.as_str()).collect();
            format!("{host} with {}", few(ports))
        }
        None => "no hosts".to_owned(),
    };
    let expected = format!(
        "hosts with the file's adapters {}",
        few(file.adapter_names())
    );
    InputError::new(format!("--hosts {option}"), found, expected).hint(
        "an adapter is known by its GUID or its name; --hosts FILE@HOSTS takes those of hosts in order",
    )
}

/// Hosts of a file, and those whose adapters are not in it.
fn by_file(
    file: &Described,
    scan: &Fabric,
    hosts: Groups,
    (rule, listed): (Option<PortRule>, bool),
) -> (HostsRecord, Groups) {
    let rule = rule.unwrap_or(if file.has_own_links() {
        PortRule::Rail
    } else {
        PortRule::Nearest
    });
    let mut record = HostsRecord {
        rule,
        kinds: Vec::new(),
        units: Vec::new(),
        down: Vec::new(),
    };
    let mut known: HashMap<Matched, u32> = HashMap::new();
    let mut left = Groups::new();
    for (name, ports) in hosts {
        let Some(matched) = file.matched(scan, &ports, listed) else {
            left.push((name, ports));
            continue;
        };
        let kind = *known.entry(matched).or_insert_with_key(|matched| {
            record.kinds.push(file.structure(matched));
            record.kinds.len() as u32 - 1
        });
        record.units.push(UnitSpec {
            kind,
            hosts: vec![name],
            ports,
        });
    }
    (record, left)
}

/// Hosts by number of adapters, as a note.
fn counts(option: &str, spec: &HostSpec, hosts: &Groups) -> String {
    let mut by_count: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, nodes) in hosts {
        *by_count.entry(nodes.len()).or_default() += 1;
    }
    let words: Vec<String> = by_count
        .iter()
        .rev()
        .map(|(adapters, hosts)| match adapters {
            1 => format!("{hosts} with 1 adapter"),
            _ => format!("{hosts} with {adapters} adapters"),
        })
        .collect();
    let source = HOST_KINDS.iter().find(|k| k.name == spec.kind.name);
    let source = source.map_or("", |k| k.source);
    format!(
        "hosts {option}: {} ({}); ports: {}; {source}",
        hosts.len(),
        words.join(", "),
        spec.rule.help()
    )
}

/// Two sets of hosts of one machine; the first one's choice of ports holds.
fn joined(first: Option<HostsRecord>, second: HostsRecord) -> HostsRecord {
    let Some(mut first) = first else {
        return second;
    };
    let kinds = first.kinds.len() as u32;
    first.kinds.extend(second.kinds);
    first.units.extend(second.units.into_iter().map(|mut unit| {
        unit.kind += kinds;
        unit
    }));
    first
}

/// The choice of ports of all sets of hosts: the stated one, else that of the first.
#[derive(Default)]
struct Choice {
    stated: Option<PortRule>,
    first: Option<PortRule>,
    differs: bool,
}

impl Choice {
    /// Adds a set of hosts.
    ///
    /// # Errors
    /// Two different choices are stated: a machine has one.
    fn add(&mut self, rule: PortRule, stated: bool, option: &str) -> Result<(), InputError> {
        let before = *self.first.get_or_insert(rule);
        self.differs |= before != rule;
        if !stated {
            return Ok(());
        }
        match self.stated.replace(rule) {
            Some(other) if other != rule => {
                let expected =
                    format!("{other}, as for the hosts before: a machine has one choice of ports");
                Err(InputError::new(
                    format!("--hosts {option}"),
                    rule.name(),
                    expected,
                ))
            }
            _ => Ok(()),
        }
    }

    /// The choice, with a note if hosts have others by default.
    fn made(&self, notes: &mut Vec<String>) -> Option<PortRule> {
        let rule = self.stated.or(self.first)?;
        if self.differs {
            notes.push(format!(
                "ports of all hosts are chosen by one rule, {rule}: KIND/RULE states another"
            ));
        }
        Some(rule)
    }
}
