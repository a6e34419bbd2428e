//! Dynamic processes: spawning, and two jobs that connect.

use super::{Ability, Checked, Folder, LENIENT, Tried, answer, last_line};
use crate::error::Result;
use crate::record::launch::{self, Launcher};
use hopbyte_observe::threads::start;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

impl Checked {
    pub(super) fn spawn(&self, program: &Path) -> Result<Ability> {
        let mut command = self.command(1, &Attempt::default(), program);
        command.args(["--try", "spawn"]);
        let tried: Option<Tried> = self.answer(command)?;
        Ok(match tried {
            Some(t) if t.works => {
                self.row("spawn", Some(true), "", "MPI_Comm_spawn started a process")
            }
            Some(t) => self.row(
                "spawn",
                Some(false),
                "",
                format!("MPI_Comm_spawn: {}", last_line(&t.error)),
            ),
            None => self.row(
                "spawn",
                Some(false),
                "",
                "MPI_Comm_spawn did not return, or ended the job",
            ),
        })
    }

    /// Two jobs that find each other by a port, without flags and with those that are known to help.
    pub(super) fn connect(&self, program: &Path) -> Result<Ability> {
        let attempts = Attempt::all(&self.kind);
        let mut said = String::new();
        for attempt in &attempts {
            match self.connect_once(program, attempt)? {
                Ok(()) => {
                    let says = "MPI_Comm_connect and MPI_Comm_accept between two jobs";
                    return Ok(self.row("connect", Some(true), &attempt.flags(), says));
                }
                Err(why) => said = why,
            }
        }
        let tried: Vec<String> = attempts
            .iter()
            .map(Attempt::flags)
            .filter(|f| !f.is_empty())
            .collect();
        let also = match tried.is_empty() {
            true => String::new(),
            false => format!(", also not with {}", tried.join("; ")),
        };
        let hint = match self.kind {
            Launcher::OpenMpi(version) if version >= 5 => {
                "; its documentation asks for both jobs in one DVM (prte, prun), which is not tried"
            }
            _ => "",
        };
        Ok(self.row("connect", Some(false), "", format!("{said}{also}{hint}")))
    }

    pub(super) fn connect_once(
        &self,
        program: &Path,
        attempt: &Attempt,
    ) -> Result<Result<(), String>> {
        let folder = Folder::new()?;
        let (port, uri) = (folder.0.join("port"), folder.0.join("uri"));
        let mut server = Server(None);
        let mut attempt = attempt.clone();
        if attempt.server {
            let Some(started) = Server::start(&uri) else {
                return Ok(Err("ompi-server is not there or does not start".into()));
            };
            server = started;
            attempt.words = vec!["--ompi-server".into(), format!("file:{}", uri.display())];
        }
        let mut accept = self.command(1, &attempt, program);
        accept.args(["--try", "accept"]).arg(&port);
        let patience = self.patience;
        let accepting = start(move || answer::<Tried>(accept, patience))?;
        let mut connect = self.command(1, &attempt, program);
        connect.args(["--try", "connect"]).arg(&port);
        let connected = self.answer::<Tried>(connect);
        let accepted = accepting.join();
        drop(server);
        let (Ok(accepted), connected) = (accepted, connected?) else {
            return Ok(Err("the trial failed".into()));
        };
        Ok(match (accepted?, connected) {
            (Some(a), Some(c)) if a.works && c.works => Ok(()),
            (a, c) => Err(a
                .into_iter()
                .chain(c)
                .find(|t| !t.works)
                .map_or("the jobs do not find each other".into(), |t| {
                    last_line(&t.error).into()
                })),
        })
    }
}

/// A way to start two jobs that shall connect.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(&'static str, &'static str)>,
    /// With `ompi-server` beside them.
    pub(super) server: bool,
}

impl Attempt {
    fn all(kind: &Launcher) -> Vec<Self> {
        let plain = Self::default();
        match kind {
            Launcher::OpenMpi(version) if *version < 5 => vec![Self {
                server: true,
                ..plain
            }],
            Launcher::Hydra => vec![
                Self {
                    environment: vec![("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")],
                    ..plain.clone()
                },
                plain,
            ],
            _ => vec![plain],
        }
    }

    fn flags(&self) -> String {
        let mut words: Vec<String> = self
            .environment
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        if self.server {
            words.push("ompi-server --no-daemonize -r URI & mpirun --ompi-server file:URI".into());
        }
        words.join(" ")
    }
}

/// Open MPI's name server, ended when dropped.
struct Server(Option<Child>);

impl Server {
    fn start(uri: &Path) -> Option<Self> {
        let program = launch::find(OsStr::new("ompi-server"))?;
        let mut command = Command::new(program);
        command
            .args(["--no-daemonize", "-r"])
            .arg(uri)
            .envs(LENIENT);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self(Some(command.spawn().ok()?));
        for _ in 0..250 {
            if uri.metadata().is_ok_and(|m| m.len() > 0) {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_attempt() {
        let hydra = Attempt::all(&Launcher::Hydra);
        assert_eq!(hydra[0].flags(), "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp");
        assert_eq!(hydra[1].flags(), "");
        assert!(
            Attempt::all(&Launcher::OpenMpi(4))[0]
                .flags()
                .contains("--ompi-server file:URI")
        );
        assert_eq!(Attempt::all(&Launcher::OpenMpi(5))[0].flags(), "");
    }
}
