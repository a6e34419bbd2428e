//! Capacities of machines whose description has none, by option.

use super::formats::Format;
use super::machine::{Machine, MachineFiles};
use super::{hosts, slurm};
use crate::ObserveError;
use hopbyte_fabric::bounds::CAPACITY;
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{AssumedRates, InputError};
use std::collections::HashMap;

/// The rates that the options give; `None` without options.
pub fn of(
    files: &MachineFiles,
    default: BytesPerSecond,
) -> Result<Option<AssumedRates>, InputError> {
    if files.rates.is_empty() && files.uplink_ratio.is_none() {
        return Ok(None);
    }
    let ratio = files.uplink_ratio.unwrap_or(1.0);
    if !(1.0..=1e6).contains(&ratio) {
        let expected = "a ratio from 1 (full bisection) to 1,000,000";
        return Err(InputError::new(
            "--uplink-ratio",
            ratio.to_string(),
            expected,
        ));
    }
    let is_rate = |gb: &f64| (CAPACITY.0..=CAPACITY.1).contains(&BytesPerSecond::from_gb(*gb).0);
    if let Some(bad) = files.rates.iter().find(|r| !is_rate(r)) {
        return Err(InputError::new(
            "--rates",
            bad.to_string(),
            "GB/s above zero",
        ));
    }
    let mut rates = files.rates.iter().map(|&gb| BytesPerSecond::from_gb(gb));
    Ok(Some(AssumedRates {
        host: rates.next().unwrap_or(default),
        levels: rates.collect(),
        uplink_ratio: ratio,
        nodes: Vec::new(),
    }))
}

/// Refuses the options for a machine with capacities of its own.
pub fn refuse(files: &MachineFiles) -> Result<(), InputError> {
    let options = [
        ("--rates", !files.rates.is_empty()),
        ("--uplink-ratio", files.uplink_ratio.is_some()),
    ];
    match options.iter().find(|o| o.1) {
        None => Ok(()),
        Some((option, _)) => {
            Err(InputError::new(&files.main, *option, "a topology without speeds").hint(HINT))
        }
    }
}

/// Gives a machine without speeds the capacities of the options, or of the adapters of its kinds of hosts.
pub fn apply(
    machine: Machine,
    format: Format,
    files: &MachineFiles,
) -> Result<Machine, ObserveError> {
    if !format.has_no_speeds() {
        return match of(files, slurm::CAPACITY)? {
            None => Ok(machine),
            Some(_) => {
                let found = "--rates or --uplink-ratio";
                let expected = "a topology without speeds";
                Err(InputError::new(machine.fabric.source(), found, expected)
                    .hint(HINT)
                    .into())
            }
        };
    }
    let by_kind = if files.rates.is_empty() {
        adapters(&machine, files)?
    } else {
        Vec::new()
    };
    let mut rates = match of(files, slurm::CAPACITY)? {
        None if by_kind.is_empty() => return Ok(machine),
        None => AssumedRates::full(slurm::CAPACITY),
        Some(rates) => rates,
    };
    rates.nodes = by_kind;
    let mut notes = machine.notes;
    notes.retain(|n| !n.starts_with("the topology has no speeds"));
    notes.insert(0, rates.describe());
    Ok(Machine {
        fabric: machine.fabric.with_rates(&rates),
        notes,
        ..machine
    })
}

/// Rates of nodes by the adapters of their kinds, by node; empty if no kind is known.
fn adapters(machine: &Machine, files: &MachineFiles) -> Result<Vec<BytesPerSecond>, ObserveError> {
    let kinds = hosts::kinds(machine, &files.hosts)?;
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let mut on_host: HashMap<&str, f64> = HashMap::new();
    for node in machine.fabric.nodes() {
        *on_host.entry(&node.host).or_default() += 1.0;
    }
    let rate = |node: &hopbyte_fabric::Node| match kinds.get(&node.host) {
        Some(kind) if kind.gpus > 0 => BytesPerSecond::from_gb(
            kind.adapter * f64::from(kind.gpus) / on_host[node.host.as_str()],
        ),
        _ => slurm::CAPACITY,
    };
    Ok(machine.fabric.nodes().iter().map(rate).collect())
}

const HINT: &str = "Slurm topologies, topograph's models and labels have none; the links of this machine have theirs";
