"""A real Slurm on this machine: a controller and several node daemons, with their own folder and ports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# Hosts of torus:2x2, two ranks each; these are their node names in Slurm, all on this machine.
HOSTS = ["n0-0", "n0-1", "n1-0", "n1-1"]
SWITCHES = {"s0": ["n0-0", "n0-1"], "s1": ["n1-0", "n1-1"]}
# No munge and no accounting, nothing outside the folder, and more processors per node than the machine may have.
SETTINGS = """
ClusterName=hopbyte
SlurmctldHost={machine}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
MpiDefault=none
NodeName={hosts} NodeHostname={machine} NodeAddr=127.0.0.1 Port={ports} CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"""
START_SECONDS = 180


def free_ports(count: int) -> list[int]:
    """Ports currently without a listener."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@dataclass
class Slurm:
    """A running Slurm."""

    folder: Path
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        port, *ports = free_ports(1 + len(HOSTS))
        (self.folder / "state").mkdir()
        settings = SETTINGS.format(
            machine=socket.gethostname(), port=port, folder=self.folder, hosts=",".join(HOSTS),
            ports=",".join(map(str, ports)),
        )  # fmt: skip
        (self.folder / "slurm.conf").write_text(settings)
        leaves = [f"SwitchName={name} Nodes={','.join(nodes)}" for name, nodes in SWITCHES.items()]
        tree = "\n".join([*leaves, f"SwitchName=top Switches={','.join(SWITCHES)}"])
        (self.folder / "topology.conf").write_text(tree + "\n")
        self.daemon("slurmctld", "slurmctld", "-c", "-D")
        for host in HOSTS:
            (self.folder / f"spool.{host}").mkdir()
            self.daemon(f"slurmd.{host}", "slurmd", "-N", host, "-D")
        deadline = time.monotonic() + START_SECONDS
        while self.run("sinfo", "-h", "-o", "%T %D", ok=False).stdout.strip() != f"idle {len(HOSTS)}":
            ended = [d.args for d in self.daemons if d.poll() is not None]
            assert not ended and time.monotonic() < deadline, f"{ended}\n{self.logs()}"
            time.sleep(0.2)

    def daemon(self, log: str, *command: str) -> None:
        with (self.folder / f"{log}.log").open("w") as out:
            self.daemons.append(
                subprocess.Popen(command, stdout=out, stderr=out, env=self.environment(), start_new_session=True)
            )

    def environment(self, **more: str) -> dict[str, str]:
        # The environment of an outer Slurm job must not be taken for this one's.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
        return {**clean, "SLURM_CONF": str(self.folder / "slurm.conf"), **more}

    def run(self, *command: object, ok: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a client (or hopbyte, which runs one)."""
        done = subprocess.run(
            [*map(str, command)], check=False, capture_output=True, text=True, timeout=200, cwd=self.folder,
            env=self.environment(**environment),
        )  # fmt: skip
        assert done.returncode == 0 or not ok, f"{command}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done

    def ranks(self, *options: str, **environment: str) -> list[str]:
        """Starts ranks; the node of each, by rank."""
        told = self.run("srun", *options, "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME", **environment)
        found = dict(line.split() for line in told.stdout.splitlines())
        return [found[str(rank)] for rank in range(len(found))]

    def logs(self) -> str:
        return "\n".join(f"{p.name}: {p.read_text()[-500:]}" for p in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=60)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """One for all tests; always stopped at the end."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [p for p in ("slurmctld", "slurmd", "srun", "scontrol") if not shutil.which(p)]
    if missing:
        pytest.fail(f"missing: {missing} (Debian: slurm-wlm); `make test-slurm` installs it")
    if os.geteuid() != 0:
        pytest.skip("slurmd starts ranks as their user, for which it must be root")
    one = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        one.start()
        yield one
    finally:
        one.stop()
