//! Capacities of machines whose description has none, by option.

use super::formats::Format;
use super::machine::{Machine, MachineFiles};
use crate::ObserveError;
use hopbyte_fabric::bounds::CAPACITY;
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{AssumedRates, InputError};

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
            Err(
                InputError::new(&files.main, *option, "a topology without speeds")
                    .hint("Slurm topologies have none; the links of this machine have theirs"),
            )
        }
    }
}

/// Gives a machine other capacities than those assumed by its reader.
pub fn apply(
    machine: Machine,
    format: Format,
    rates: &AssumedRates,
) -> Result<Machine, ObserveError> {
    if !matches!(format, Format::SlurmConf | Format::SlurmYaml) {
        let found = "--rates or --uplink-ratio";
        return Err(
            InputError::new(machine.fabric.source(), found, "a topology without speeds")
                .hint("Slurm topologies have none; the links of this machine have theirs")
                .into(),
        );
    }
    let mut notes = machine.notes;
    notes.retain(|n| !n.starts_with("the topology has no speeds"));
    notes.insert(0, rates.describe());
    Ok(Machine {
        fabric: machine.fabric.with_rates(rates),
        routing: machine.routing,
        notes,
    })
}
