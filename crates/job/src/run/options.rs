//! Options of launchers, and programs before them.

use super::allocation::{Shape, names, number};
use crate::error::{Result, refuse};
use crate::record::launch::{find, speaks};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Options of mpirun, mpiexec and srun with the number of ranks.
pub(super) const RANKS: [&str; 6] = ["-n", "-np", "--n", "--np", "--ntasks", "-c"];
/// Options with a file of hosts.
pub(super) const FILES: [&str; 6] = [
    "--hostfile",
    "-hostfile",
    "--machinefile",
    "-machinefile",
    "-f",
    "--default-hostfile",
];
/// Options with a list of hosts.
pub(super) const LISTS: [&str; 7] = [
    "--host",
    "-host",
    "-H",
    "-hosts",
    "--hosts",
    "-w",
    "--nodelist",
];
/// Other options of mpirun (Open MPI, Hydra) and srun that take values as the next words, so that none of them is
/// mistaken for the program: two, or one.
pub(super) const PAIRS: [&str; 6] = ["--mca", "-mca", "--gmca", "--prtemca", "--pmixmca", "-genv"];
pub(super) const SINGLE: [&str; 33] = [
    "-x",
    "--bind-to",
    "-bind-to",
    "-wdir",
    "--wdir",
    "-wd",
    "--prefix",
    "--path",
    "--timeout",
    "-timeout",
    "--output-filename",
    "--output",
    "--personality",
    "-launcher",
    "-launcher-exec",
    "-bootstrap",
    "-bootstrap-exec",
    "-iface",
    "-rmk",
    "-genvlist",
    "-envlist",
    "-configfile",
    "-topolib",
    "-p",
    "-A",
    "-t",
    "-J",
    "-o",
    "-e",
    "-i",
    "-D",
    "--mpi",
    "--cpu-bind",
];
/// Options of `flux run` that take the next word as value, beside those for ranks.
pub(super) const FLUX: [&str; 26] = [
    "-c",
    "--cores-per-task",
    "-g",
    "--gpus-per-task",
    "--cores",
    "--tasks-per-core",
    "--gpus-per-node",
    "-t",
    "--time-limit",
    "-q",
    "--queue",
    "-B",
    "--bank",
    "--job-name",
    "-o",
    "--setopt",
    "-S",
    "--setattr",
    "--env",
    "--env-file",
    "--requires",
    "--urgency",
    "--cwd",
    "--output",
    "--error",
    "--input",
];
/// Options of mpirun and srun that determine how many ranks there are, or how many on each host: with a value, or none.
const LAYOUT: [&str; 26] = [
    "--map-by",
    "-map-by",
    "--rank-by",
    "-rank-by",
    "-rf",
    "--rankfile",
    "-rankfile",
    "-N",
    "--nodes",
    "-npernode",
    "--npernode",
    "-npersocket",
    "--npersocket",
    "-ppn",
    "--ppn",
    "-perhost",
    "--cpus-per-proc",
    "-cpus-per-proc",
    "--cpus-per-rank",
    "-cpus-per-rank",
    "-r",
    "--relative",
    "--ntasks-per-node",
    "-m",
    "--distribution",
    "--cpus-per-task",
];
const LAYOUT_ALONE: [&str; 6] = [
    "-bynode",
    "--bynode",
    "-byslot",
    "--byslot",
    "-pernode",
    "--pernode",
];
/// Programs that run the rest of their command line.
const PREFIXES: [&str; 9] = [
    "env", "ionice", "nice", "nohup", "numactl", "stdbuf", "taskset", "time", "timeout",
];

impl Shape {
    /// Reads an option that determines how ranks are laid out on hosts; the number of its values as next words, if it does.
    pub(super) fn lay_out(&mut self, name: &str, value: Option<&str>) -> Result<Option<usize>> {
        if self.is_flux {
            return Ok(None);
        }
        if LAYOUT_ALONE.contains(&name) {
            self.layout.push(name.to_owned());
            self.is_dealt |= name.ends_with("bynode");
            if name.ends_with("pernode") {
                self.each = Some(1);
            }
            return Ok(Some(0));
        }
        let (name, value, values) = match name.strip_prefix("-N").filter(|n| !n.is_empty()) {
            Some(joined) if self.is_srun => ("-N", Some(joined), 0),
            _ => (name, value, 1),
        };
        let Some(value) = value.filter(|_| LAYOUT.contains(&name)) else {
            return Ok(None);
        };
        self.layout.push(format!("{name} {value}"));
        match name {
            "-N" | "--nodes" if self.is_srun => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                self.nodes = least.parse().ok().filter(|_| least == most);
            }
            "-r" | "--relative" => self.skipped = value.parse().unwrap_or(0),
            "-m" | "--distribution" => {
                let word = value.split([':', ',']).next().unwrap_or("");
                self.is_dealt = !["plane", "arbitrary"].iter().any(|w| word.starts_with(w))
                    && !value.to_ascii_lowercase().contains(",pack");
            }
            "--map-by" | "-map-by" => self.map_by(value),
            "-N" | "-npernode" | "--npernode" | "-ppn" | "--ppn" | "-perhost"
            | "--ntasks-per-node" => {
                self.each = number(name, Some(value.to_owned()))?;
            }
            "--rank-by" | "-rank-by" | "--cpus-per-task" => {}
            _ => self.is_dealt = true,
        }
        Ok(Some(values))
    }

    /// A mapping policy of Open MPI: `node`, `ppr:2:node`, with modifiers. All but those of parts of a host, as far as its
    /// slots go, may leave slots free.
    pub(super) fn map_by(&mut self, policy: &str) {
        let policy = policy.to_ascii_lowercase();
        let words: Vec<&str> = policy.split(':').collect();
        let fills =
            ["", "slot", "core", "hwthread", "socket", "package", "numa"].contains(&words[0]);
        if let ["ppr", each, "node", ..] = words[..] {
            self.each = each.parse().ok();
        }
        let frees = |word: &&str| word.starts_with("pe=") || *word == "span";
        self.is_dealt = !(fills || self.each.is_some()) || words.iter().any(frees);
    }

    /// Reads an option of srun that names other nodes than the job's own.
    ///
    /// # Errors
    /// It runs in another job, or in several sections of this one.
    pub(super) fn elsewhere(
        &mut self,
        name: &str,
        value: Option<&str>,
        scheduled: &dyn Fn(&str) -> Option<String>,
    ) -> Result<bool> {
        let job = || scheduled("SLURM_JOB_ID").or_else(|| scheduled("SLURM_JOBID"));
        match (name, value) {
            ("--het-group", Some(value)) => refuse!(
                "--het-group={value} starts ranks on other sections of a heterogeneous job, whose nodes are not known here"
            ),
            ("--jobid", Some(value)) if job().as_deref() != Some(value) => {
                refuse!(
                    "--jobid={value} starts ranks in another job, whose nodes are not known here"
                )
            }
            ("-x" | "--exclude", Some(value)) => self.excluded = names(value)?,
            ("--jobid", _) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Whether a word starts one of the launchers whose options are known.
pub(super) fn is_launcher(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or(word);
    speaks(word) || ["srun", "flux", "torchrun"].iter().any(|l| name == *l)
}

/// Number of words before the launcher: programs such as `timeout 30` and `env A=1` that run it, with their options.
///
/// # Errors
/// `env` with variables and options on which the preload or its files depend.
pub(super) fn before_launcher(words: &[OsString]) -> Result<usize> {
    let is_prefix = |word: &OsStr| {
        let name = Path::new(word).file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| PREFIXES.contains(&n))
    };
    if !words.first().is_some_and(|w| is_prefix(w)) {
        return Ok(0);
    }
    let runs = |word: &&OsString| !is_prefix(word) && (is_launcher(word) || find(word).is_some());
    let at = words.iter().position(|word| runs(&word));
    let Some(at) = at.filter(|&at| is_launcher(&words[at])) else {
        return Ok(0);
    };
    for word in words[..at].iter().map(|w| w.to_string_lossy()) {
        let hides = ["-", "-i", "--ignore-environment", "LD_PRELOAD"].contains(&&*word);
        if hides
            || ["LD_PRELOAD=", "HOPBYTE_", "-S", "--split-string"]
                .iter()
                .any(|w| word.starts_with(w))
        {
            refuse!("`env {word}` before the launcher: give variables before `hopbyte run`");
        }
    }
    Ok(at)
}

/// A variable that `env` sets before the launcher.
pub(super) fn set_before(before: &[OsString], name: &str) -> Option<String> {
    let value = |word: &OsString| {
        let value = word.to_str()?.strip_prefix(name)?.strip_prefix('=')?;
        Some(value.to_owned())
    };
    before.iter().rev().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    /// Ranks and hosts with their numbers of ranks on four hosts of two slots, or on those of a job of Slurm.
    fn spread(line: &str) -> (Option<u32>, String) {
        let variable = |name: &str| {
            let value = match name {
                "SLURM_JOB_NODELIST" => "n[1-4]",
                "SLURM_TASKS_PER_NODE" => "2(x4)",
                "SLURM_JOB_ID" => "77",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let shape = Shape::of(&words(line), &variable).unwrap();
        let hosts = shape.hosts(&variable).unwrap();
        let slots = hosts.iter().map(|h| h.1).sum();
        let all = shape.spread(&hosts, shape.ranks.unwrap_or(slots)).unwrap();
        let all: Vec<String> = all.iter().map(|(h, n)| format!("{h}:{n}")).collect();
        (shape.ranks, all.join(" "))
    }

    #[test]
    fn ranks_by_host_follow_the_launcher_s_options() {
        let hosts = "--host n1:2,n2:2,n3:2,n4:2";
        for (line, expected) in [
            ("-np 2", "n1:2"),
            ("-np 6", "n1:2 n2:2 n3:2"),
            ("--map-by node -np 6", "n1:2 n2:2 n3:1 n4:1"),
            ("--mca rmaps_base_mapping_policy node -np 2", "n1:1 n2:1"),
            ("-bynode -np 2", "n1:1 n2:1"),
            ("--map-by core -np 2", "n1:2"),
            ("--map-by slot:PE=2 -np 2", "n1:1 n2:1"),
            ("-N 1", "n1:1 n2:1 n3:1 n4:1"),
            ("-npernode 2", "n1:2 n2:2 n3:2 n4:2"),
            ("--map-by ppr:1:node -np 3", "n1:1 n2:1 n3:1"),
            ("-pernode", "n1:1 n2:1 n3:1 n4:1"),
        ] {
            assert_eq!(
                spread(&format!("mpirun {hosts} {line} sh")).1,
                expected,
                "{line}"
            );
        }
        for (line, expected) in [
            ("-n 2", "n1:1 n2:1"),
            ("-n 6", "n1:2 n2:2 n3:1 n4:1"),
            ("-N 1 -n 2", "n1:2"),
            ("-N1 -n 2", "n1:2"),
            ("--nodes=2-4 -n 8", "n1:2 n2:2 n3:2 n4:2"),
            ("-r 1 -N 1 -n 2", "n2:2"),
            ("-x n1,n2,n4 -n 2", "n3:2"),
            ("--jobid=77 -m plane=2 -n 2", "n1:2"),
        ] {
            assert_eq!(spread(&format!("srun {line} sh")).1, expected, "{line}");
        }
    }

    #[test]
    fn nodes_of_other_jobs_and_files_of_options_are_refused() {
        for (line, said) in [
            ("srun --jobid=5 sh", "--jobid=5 starts ranks in another job"),
            ("srun --het-group=0,1 sh", "--het-group=0,1"),
            ("mpirun --app file", "options in a file"),
        ] {
            let job = |name: &str| (name == "SLURM_JOB_ID").then(|| "77".to_owned());
            let error = Shape::of(&words(line), &job).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn programs_before_the_launcher_are_seen_through() {
        for (line, before) in [
            ("mpirun -np 2 sh", 0),
            ("timeout 30 mpirun -np 2 sh", 2),
            ("env A=1 nice -n 5 srun sh", 5),
            ("timeout 30 sh -c mpirun", 0),
            ("sh mpirun", 0),
            ("nice jsrun sh", 0),
        ] {
            assert_eq!(before_launcher(&words(line)).unwrap(), before, "{line}");
        }
        for line in ["env -i srun sh", "env LD_PRELOAD=u.so mpirun sh"] {
            assert!(before_launcher(&words(line)).is_err(), "{line}");
        }
        let before = words("env A=1 A=2 B=3");
        assert_eq!(set_before(&before, "A"), Some("2".to_owned()));
        assert_eq!(set_before(&before, "C"), None);
    }

    #[test]
    fn host_files_of_the_environment_are_those_of_the_launcher() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("of"), "a slots=2\nb slots=2\n").unwrap();
        let launcher = |name: &str, version: &str| {
            let path = path(name);
            std::fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        let open = launcher("mpirun", "mpirun (Open MPI) 4.1.4");
        let hydra = launcher("mpiexec", "HYDRA build details:");
        let file = path("of");
        for (line, variable, expected) in [
            (format!("{open} sh"), "OMPI_MCA_orte_default_hostfile", 2),
            (format!("{open} sh"), "PRTE_MCA_prte_default_hostfile", 2),
            (format!("{open} sh"), "HYDRA_HOST_FILE", 0),
            (format!("{hydra} sh"), "HYDRA_HOST_FILE", 2),
            (
                format!("{open} --mca orte_default_hostfile {file} sh"),
                "",
                2,
            ),
            (format!("{open} --hostfile {file} --host b:1 sh"), "", 1),
        ] {
            let variable = |name: &str| (name == variable).then(|| file.clone());
            let shape = Shape::of(&words(&line), &variable).unwrap();
            assert_eq!(shape.hosts(&variable).unwrap().len(), expected, "{line}");
        }
    }
}
