//! The command to launch: its number of ranks, its program, and the nodes that it gets.

use super::options::{FILES, FLUX, LISTS, PAIRS, RANKS, SINGLE};
use super::slurm::repeated;
use crate::error::{Context, Result, refuse};
use crate::record::launch::{Launcher, find, speaks};
use crate::record::output::{PATIENCE, SAID, output};
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::{host_line, host_list};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Most slots of a host, and in all, that are believed.
pub(super) const MOST: u32 = 1 << 24;

/// The words of a launch command.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Shape {
    /// Number of ranks, if the command or the scheduler states it.
    pub ranks: Option<u32>,
    /// Index of the program among the words, if it is found.
    pub program: Option<usize>,
    /// Index of the first word that belongs to no option, of the program or of one that runs it.
    pub first: Option<usize>,
    /// Options with an influence on the number of ranks, in all or of a host.
    pub layout: Vec<String>,
    launcher: OsString,
    file: Option<String>,
    list: Option<String>,
    pub(super) is_srun: bool,
    pub(super) is_flux: bool,
    /// Number of nodes, if the command states it, and those that srun leaves out.
    pub nodes: Option<u32>,
    pub(super) skipped: usize,
    pub(super) excluded: Vec<String>,
    /// Ranks of a node, if the command states it.
    pub(super) each: Option<u32>,
    /// Whether hosts get one rank each in turn, in place of all that they have slots for.
    pub(super) is_dealt: bool,
}

impl Shape {
    /// Reads the launcher's options, up to the program.
    ///
    /// # Errors
    /// Several programs (`:`), which the preload libraries are not passed to; numbers that are none.
    pub fn of(words: &[OsString], scheduled: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut shape = Self {
            launcher: words[0].clone(),
            ..Self::default()
        };
        let texts: Vec<String> = words
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        if texts.iter().any(|w| w == ":") {
            refuse!("several programs in one launch are not supported");
        }
        let launcher = Path::new(&texts[0]).file_name();
        shape.is_srun = launcher.is_some_and(|n| n == "srun");
        shape.is_flux = launcher.is_some_and(|n| n == "flux");
        // Slurm deals tasks to nodes even where it numbers them in blocks.
        shape.is_dealt = shape.is_srun;
        if texts.iter().any(|w| is_torchrun(w)) {
            refuse!(
                "torchrun numbers its hosts itself; `hopbyte map PLAN --emit torchrun` gives their node ranks"
            );
        }
        let mut i = 1;
        if shape.is_flux {
            if texts.get(1).is_none_or(|verb| verb != "run") {
                refuse!("of Flux's commands only `flux run` is supported");
            }
            i = 2;
        }
        while i < texts.len() {
            let (name, joined) = match texts[i].split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (texts[i].as_str(), None),
            };
            if !name.starts_with('-') {
                if find(&words[i]).is_some() {
                    shape.program = Some(i);
                    break;
                }
                // Behind an option that is not known it may be a value.
                let is_value = texts[i - 1].starts_with('-') && !texts[i - 1].contains('=');
                if !is_value {
                    shape.first = shape.first.or(Some(i));
                }
                i += 1;
                continue;
            }
            if ["--app", "-app", "-configfile", "--configfile"].contains(&name) {
                refuse!(
                    "{name}: several programs in one launch are not supported, nor options in a file"
                );
            }
            let value = joined.clone().or_else(|| texts.get(i + 1).cloned());
            // `-c` is the number of ranks for Open MPI, and of processors of a rank for srun and Flux.
            let value = value.filter(|_| !((shape.is_srun || shape.is_flux) && name == "-c"));
            if shape.is_srun && shape.elsewhere(name, value.as_deref(), scheduled)? {
                i += 1 + usize::from(joined.is_none());
                continue;
            }
            if let Some(values) = shape.lay_out(name, value.as_deref())? {
                i += 1 + if joined.is_some() { 0 } else { values };
                continue;
            }
            if PAIRS.contains(&name) {
                shape.parameter(&texts[i + 1..]);
            }
            let values = match shape.take(name, value)? {
                true => 1,
                false if PAIRS.contains(&name) => 2,
                false if shape.is_flux => usize::from(FLUX.contains(&name)),
                false => usize::from(SINGLE.contains(&name)),
            };
            i += 1 + if joined.is_some() { 0 } else { values };
        }
        if shape.ranks.is_none() && shape.is_srun {
            shape.ranks = scheduled("SLURM_NTASKS").and_then(|n| n.parse().ok());
        }
        let policies = [
            "OMPI_MCA_rmaps_base_mapping_policy",
            "PRTE_MCA_rmaps_default_mapping_policy",
        ];
        let policy = policies.iter().find_map(|name| scheduled(name));
        if let Some(policy) = policy.filter(|_| speaks(&words[0]) && shape.layout.is_empty()) {
            shape.parameter(&["rmaps_base_mapping_policy".to_owned(), policy]);
        }
        if let (None, Some(nodes), Some(each)) = (shape.ranks, shape.nodes, shape.each) {
            shape.ranks = nodes.checked_mul(each);
        }
        Ok(shape)
    }

    /// Reads a parameter of Open MPI that stands for an option, `NAME VALUE`.
    fn parameter(&mut self, words: &[String]) {
        let [name, value, ..] = words else { return };
        if name.ends_with("_default_hostfile") {
            self.file = self.file.take().or_else(|| Some(value.clone()));
        } else if name.ends_with("_mapping_policy") {
            self.layout.push(format!("--map-by {value}"));
            self.map_by(value);
        }
    }

    /// Whether an option and its value say something about ranks or hosts.
    fn take(&mut self, name: &str, value: Option<String>) -> Result<bool> {
        if RANKS.contains(&name) {
            let ranks = match name {
                // A shell's takes a command.
                "-c" => value.and_then(|v| v.parse().ok()),
                _ => number(name, value)?,
            };
            self.ranks = ranks.or(self.ranks);
        } else if FILES.contains(&name) {
            self.file = value;
        } else if LISTS.contains(&name) {
            self.list = value;
        } else if self.is_flux && ["-N", "--nodes"].contains(&name) {
            self.nodes = number(name, value)?;
        } else if self.is_flux && name == "--tasks-per-node" {
            self.each = number(name, value)?;
        } else if let Some(nodes) = name.strip_prefix("-N").filter(|_| self.is_flux) {
            self.nodes = number("-N", Some(nodes.to_owned()))?;
            return Ok(false);
        } else if let Some(number) = name.strip_prefix("-n").and_then(|n| n.parse().ok()) {
            self.ranks = Some(number);
            return Ok(false);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Hosts of the launch with their slots, in the launcher's order; none if nothing names any.
    ///
    /// # Errors
    /// A host file that cannot be read, or a list that is none.
    pub fn hosts(&self, scheduled: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, u32)>> {
        if self.is_flux {
            return self.of_flux(&instance()?);
        }
        let mut hosts = self.named(scheduled)?;
        hosts.retain(|(host, _)| !self.excluded.contains(host));
        if self.is_srun {
            hosts.drain(..self.skipped.min(hosts.len()));
            hosts.truncate(self.nodes.map_or(usize::MAX, |n| n as usize));
        }
        if let Some(each) = self.each {
            hosts.iter_mut().for_each(|host| host.1 = each.min(MOST));
        }
        Ok(hosts)
    }

    fn named(&self, scheduled: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, u32)>> {
        // Of a host file and a list Open MPI uses the list's hosts, slots and order.
        if let Some(list) = &self.list {
            return of_list(list, scheduled);
        }
        if let Some(file) = self.file.clone().or_else(|| self.default_file(scheduled)) {
            return of_file(Path::new(&file));
        }
        if let Some(list) = scheduled("SLURM_JOB_NODELIST").filter(|l| !l.is_empty()) {
            return of_list(&of_step(scheduled).unwrap_or(list), scheduled);
        }
        for variable in ["PBS_NODEFILE", "LSB_DJOB_HOSTFILE"] {
            if let Some(file) = scheduled(variable) {
                return of_file(Path::new(&file));
            }
        }
        if self.is_srun {
            refuse!(
                "srun outside an allocation chooses its nodes when it starts: run it inside salloc or sbatch"
            );
        }
        Ok(Vec::new())
    }

    /// The host file that a launcher takes from the environment. The launcher is only asked which it is if there is one.
    fn default_file(&self, scheduled: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let open_mpi = [
            "OMPI_MCA_orte_default_hostfile",
            "PRTE_MCA_prte_default_hostfile",
        ];
        let open_mpi = open_mpi.iter().find_map(|name| scheduled(name));
        let hydra = scheduled("HYDRA_HOST_FILE");
        if !speaks(&self.launcher) || (open_mpi.is_none() && hydra.is_none()) {
            return None;
        }
        match Launcher::of(&self.launcher).ok()? {
            Launcher::OpenMpi(_) => open_mpi,
            Launcher::Hydra => hydra,
            Launcher::Scheduler => None,
        }
    }

    /// Hosts and their numbers of ranks. More ranks than slots go round again, as under Hydra.
    ///
    /// # Errors
    /// No slots.
    pub fn spread(&self, hosts: &[(String, u32)], ranks: u32) -> Result<Vec<(String, u64)>> {
        let slots: u64 = hosts.iter().map(|host| u64::from(host.1)).sum();
        if slots == 0 {
            refuse!("{ranks} ranks on hosts without slots");
        }
        let (rounds, mut left) = (u64::from(ranks) / slots, u64::from(ranks) % slots);
        let mut own = vec![0; hosts.len()];
        let room = |own: &[u64], i: usize| u64::from(hosts[i].1) - own[i];
        while left > 0 {
            let open: Vec<usize> = (0..hosts.len()).filter(|&i| room(&own, i) > 0).collect();
            let least = open.iter().map(|&i| room(&own, i)).min().unwrap_or(0);
            let level = least.min(left / open.len() as u64).max(1);
            for i in open {
                let most = if self.is_dealt { level } else { u64::MAX };
                let more = room(&own, i).min(most).min(left);
                own[i] += more;
                left -= more;
            }
        }
        let all = hosts.iter().zip(own);
        let all = all.map(|((host, slots), own)| (host.clone(), rounds * u64::from(*slots) + own));
        Ok(all.filter(|host| host.1 > 0).collect())
    }
}

impl Shape {
    /// Hosts of a Flux instance, ranks in equal parts.
    fn of_flux(&self, list: &str) -> Result<Vec<(String, u32)>> {
        let names = names(list.trim())?;
        let count = names.len() as u32;
        if self.nodes.is_some_and(|nodes| nodes != count) {
            refuse!("the job does not use all {count} nodes of this Flux instance");
        }
        let each = self.ranks.unwrap_or(count).div_ceil(count.max(1));
        Ok(names.into_iter().map(|name| (name, each)).collect())
    }
}

/// The value of an option that takes a number.
pub(super) fn number(option: &str, value: Option<String>) -> Result<Option<u32>> {
    let Some(value) = value else {
        return Ok(None);
    };
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => refuse!("{option}: found {value}, expected a number"),
    }
}

/// The hosts of a list, at least one.
pub(super) fn names(list: &str) -> Result<Vec<String>> {
    match host_list(list).filter(|names| !names.is_empty()) {
        Some(names) => Ok(names),
        None => refuse!("found the hosts {list:?}, expected a list such as n1,n[2-4]"),
    }
}

/// Whether a word starts PyTorch's launcher, as a program or as a module.
fn is_torchrun(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(|n| n.to_str());
    name == Some("torchrun") || word == "torch.distributed.run"
}

/// The hosts of the Flux instance that this process belongs to.
fn instance() -> Result<String> {
    let said = output(
        Command::new("flux").args(["getattr", "hostlist"]),
        PATIENCE,
        SAID,
    )
    .context("asking flux for its hosts")?;
    let text = said.text();
    if said.status.is_none_or(|s| !s.success()) || said.truncated || text.trim().is_empty() {
        refuse!("`flux getattr hostlist` named no hosts");
    }
    Ok(text)
}

/// Hosts of a host file: `host`, `host:4`, `host slots=4`, one or several times.
fn of_file(path: &Path) -> Result<Vec<(String, u32)>> {
    let text = Text::read(path, Limits::TEXT)?;
    let mut hosts = Hosts::default();
    for line in text.lines() {
        let line = lossy(line.bytes);
        let (names, slots) = host_line(line.split('#').next().unwrap_or(""));
        let Some(name) = names.split_whitespace().next() else {
            continue;
        };
        hosts.add(name, slots.and_then(|s| s.parse().ok()));
    }
    Ok(hosts.list)
}

/// Slurm's tasks by node: of the job, or of the step in which the variables are read; and of that step.
const TASKS: &str = "SLURM_TASKS_PER_NODE";
const STEP_TASKS: &str = "SLURM_STEP_TASKS_PER_NODE";

/// The hosts of a step on a part of the job's nodes, whose tasks Slurm gives as those of the job. The shell of an
/// allocation is a step too, with the tasks of the job.
fn of_step(scheduled: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let list = scheduled("SLURM_STEP_NODELIST")?;
    let of = |tasks| Some(repeated(&scheduled(tasks)?)?.len());
    let is_part = of(TASKS) == of(STEP_TASKS) && of(TASKS) == Some(host_list(&list)?.len());
    is_part.then_some(list)
}

/// Hosts of a list such as `a:2,b` or Slurm's `n[1-4]`; Slurm's tasks by node are their slots.
fn of_list(list: &str, scheduled: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, u32)>> {
    let mut hosts = Hosts::default();
    let names = names(list)?;
    let tasks = [TASKS, STEP_TASKS, "SLURM_JOB_CPUS_PER_NODE"];
    let mut tasks = tasks.iter().filter_map(|v| repeated(&scheduled(v)?));
    let tasks = tasks.find(|t| t.len() == names.len());
    for (i, name) in names.iter().enumerate() {
        hosts.add(name, tasks.as_ref().map(|t| t[i]));
    }
    Ok(hosts.list)
}

/// Hosts in order of appearance; slots of a repeated one add up.
#[derive(Default)]
struct Hosts {
    list: Vec<(String, u32)>,
    index: HashMap<String, usize>,
}

impl Hosts {
    fn add(&mut self, name: &str, slots: Option<u32>) {
        let (name, own) = match name.rsplit_once(':') {
            Some((host, n)) if n.parse::<u32>().is_ok() => (host, n.parse().ok()),
            _ => (name, None),
        };
        let slots = slots.or(own).unwrap_or(1);
        let at = *self.index.entry(name.to_owned()).or_insert_with(|| {
            self.list.push((name.to_owned(), 0));
            self.list.len() - 1
        });
        self.list[at].1 = self.list[at].1.saturating_add(slots).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(line: &str, environment: &[(&str, &str)]) -> (Shape, Vec<(String, u32)>) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let variable = |name: &str| {
            let found = environment.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        };
        let shape = Shape::of(&words, &variable).unwrap();
        let hosts = shape.hosts(&variable).unwrap();
        (shape, hosts)
    }

    #[test]
    fn a_gain_is_not_rounded_to_all() {
        let gains = [0.003, 0.69, 0.0].map(super::super::less);
        assert_eq!(gains, [99, 31, 100]);
    }

    #[test]
    fn ranks_and_hosts_of_launch_commands() {
        let slurm = [
            ("SLURM_JOB_NODELIST", "n[1-2,7]"),
            ("SLURM_TASKS_PER_NODE", "4(x2),2"),
            ("SLURM_NTASKS", "10"),
        ];
        let of = |line: &str, environment| {
            let (shape, hosts) = shape(line, environment);
            let hosts: Vec<String> = hosts.iter().map(|(h, s)| format!("{h}:{s}")).collect();
            (shape.ranks, shape.program, hosts.join(" "))
        };
        let none: &[(&str, &str)] = &[];
        assert_eq!(
            of("mpirun -np 4 sh -n 9", none),
            (Some(4), Some(3), String::new())
        );
        assert_eq!(
            of("mpirun --host a:2,b:2 -n 4 sh", none),
            (Some(4), Some(5), "a:2 b:2".into())
        );
        assert_eq!(
            of("srun --mpi=pmix sh", &slurm),
            (Some(10), Some(2), "n1:4 n2:4 n7:2".into())
        );
        assert_eq!(
            of("srun -n6 -w n[1-2] sh", &slurm),
            (Some(6), Some(4), "n1:1 n2:1".into())
        );
        // A step on one of the nodes, and the shell of the allocation.
        let job = ("SLURM_JOB_NODELIST", "n[1-2,7]");
        let step = ("SLURM_STEP_NODELIST", "n2");
        let of_step = ("SLURM_STEP_TASKS_PER_NODE", "4");
        let within = [job, step, of_step, ("SLURM_TASKS_PER_NODE", "4")];
        assert_eq!(of("mpirun sh", &within).2, "n2:4");
        let shell = [job, step, of_step, ("SLURM_TASKS_PER_NODE", "4(x2),2")];
        assert_eq!(of("mpirun sh", &shell).2, "n1:4 n2:4 n7:2");
        let named = [job, of_step, ("SLURM_TASKS_PER_NODE", "9(x3)")];
        assert_eq!(of("mpirun --host n2 sh", &named).2, "n2:4");
        assert_eq!(of("srun -c 2 sh", &slurm).0, Some(10));
        assert_eq!(of("srun --ntasks=6 sh", &slurm).0, Some(6));
        let words: Vec<OsString> = ["srun", "-n6", "sh"].map(Into::into).into();
        let outside = Shape::of(&words, &|_| None).unwrap().hosts(&|_| None);
        let said = outside.unwrap_err().to_string();
        assert!(said.contains("inside salloc or sbatch"), "{said}");
        assert_eq!(
            of("mpirun sh", &slurm),
            (None, Some(1), "n1:4 n2:4 n7:2".into())
        );
    }

    #[test]
    fn lists_and_numbers_that_are_none_are_refused() {
        let of = |line: &str, list: Option<&str>| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let list = |name: &str| list.filter(|_| name == "SLURM_JOB_NODELIST");
            let variable = |name: &str| list(name).map(str::to_owned);
            let hosts = Shape::of(&words, &variable).and_then(|s| s.hosts(&variable));
            hosts.unwrap_err().to_string()
        };
        let error = of("srun -n 2 sh", Some("n[1-"));
        assert!(error.contains("the hosts \"n[1-\""), "{error}");
        let error = of("srun -n 2 sh", Some(""));
        assert!(error.contains("outside an allocation"), "{error}");
        let error = of("mpirun --host a[1- -n 2 sh", None);
        assert!(error.contains("a[1-"), "{error}");
        let error = of("mpirun -n foo sh", None);
        assert!(error.contains("-n: found foo"), "{error}");
        let error = of("flux run -N two sh", None);
        assert!(error.contains("-N: found two"), "{error}");
    }

    #[test]
    fn host_files_of_all_launchers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        for (text, expected) in [
            ("a slots=4 # x\n\nb slots=2 max_slots=9\n", "a 4 b 2"),
            ("a:4\nb:2\n", "a 4 b 2"),
            ("a\na\nb\n", "a 2 b 1"),
        ] {
            std::fs::write(&file, text).unwrap();
            let hosts: Vec<String> = of_file(&file)
                .unwrap()
                .iter()
                .map(|(h, s)| format!("{h} {s}"))
                .collect();
            assert_eq!(hosts.join(" "), expected);
        }
    }

    #[test]
    fn the_hosts_and_ranks_of_flux() {
        let of = |line: &str, list: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let shape = Shape::of(&words, &|_| None)?;
            let hosts = shape.of_flux(list)?;
            let hosts: Vec<String> = hosts.iter().map(|(h, s)| format!("{h}:{s}")).collect();
            Ok::<_, crate::error::JobError>((shape.ranks, shape.program, hosts.join(" ")))
        };
        assert_eq!(
            of("flux run -n 8 -c 2 -o cpu-affinity=off sh", "n[1-4]\n").unwrap(),
            (Some(8), Some(8), "n1:2 n2:2 n3:2 n4:2".into())
        );
        assert_eq!(
            of("flux run -N 2 --tasks-per-node=3 --env=A=b sh", "n[1-2]").unwrap(),
            (Some(6), Some(6), "n1:3 n2:3".into())
        );
        assert_eq!(of("flux run -n6 sh", "n1").unwrap().0, Some(6));
        assert!(of("flux run -N 2 -n 4 sh", "n[1-4]").is_err());
        assert!(of("flux run -N2 -n4 sh", "n[1-4]").is_err());
        assert!(of("flux submit -n 4 sh", "n[1-4]").is_err());
    }

    #[test]
    fn torchrun_is_told_where_its_order_comes_from() {
        for line in [
            "torchrun --nnodes 4 train.py",
            "srun /opt/bin/torchrun train.py",
            "python3 -m torch.distributed.run train.py",
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = Shape::of(&words, &|_| None).unwrap_err().to_string();
            assert!(error.contains("--emit torchrun"), "{error}");
        }
    }

    #[test]
    fn several_programs_are_refused_and_slots_filled_in_order() {
        let words: Vec<OsString> = "mpirun -n 1 sh : -n 2 sh"
            .split(' ')
            .map(Into::into)
            .collect();
        assert!(Shape::of(&words, &|_| None).is_err());
        let hosts = [
            ("a".to_owned(), 4),
            ("b".to_owned(), 4),
            ("c".to_owned(), 4),
        ];
        let spread = |ranks, is_dealt| {
            let shape = Shape {
                is_dealt,
                ..Shape::default()
            };
            let all = shape.spread(&hosts, ranks).unwrap();
            let all: Vec<String> = all.iter().map(|(h, n)| format!("{h}:{n}")).collect();
            all.join(",")
        };
        assert_eq!(spread(6, false), "a:4,b:2");
        assert_eq!(spread(12, false), "a:4,b:4,c:4");
        assert_eq!(spread(13, false), "a:5,b:4,c:4");
        assert_eq!(spread(7, true), "a:3,b:2,c:2");
        assert_eq!(spread(2, true), "a:1,b:1");
        assert!(Shape::default().spread(&[("a".to_owned(), 0)], 1).is_err());
        assert_eq!(repeated("4(x3),2"), Some(vec![4, 4, 4, 2]));
        assert_eq!(repeated("4(x99999999999)"), None);
        assert_eq!(repeated("1,4(x18446744073709551615)"), None);
    }
}
