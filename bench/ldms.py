"""LDMS's daemons for the benches beside it; bench/ldms.sh builds them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def found(prefix: Path) -> bool:
    """Whether LDMS is installed; prints a message if not."""
    there = (prefix / "sbin/ldmsd").exists()
    if not there:
        print(f"LDMS is skipped: it is not in {prefix} (bench/ldms.sh builds it)", file=sys.stderr)
    return there


def daemon(prefix: Path, folder: Path, name: str, port: int, conf: str, *more: str) -> list[str]:
    """The command of a daemon with this configuration; its files go to a folder."""
    (folder / f"{name}.conf").write_text(conf)
    at = folder / name
    files = ["-c", f"{at}.conf", "-l", f"{at}.log", "-r", f"{at}.pid"]
    return [f"{prefix}/sbin/ldmsd", "-F", "-x", f"sock:{port}", "-v", "ERROR", *files, *more]


def pull(ports: Iterable[int]) -> str:
    """Configuration of an aggregator that pulls from daemons each second."""
    producers = (
        f"prdcr_add name=p{port} type=active host=localhost port={port} xprt=sock reconnect=2000000\n"
        f"prdcr_start name=p{port}\n"
        for port in ports
    )
    updater = "updtr_add name=u interval=1000000 offset=200000\nupdtr_prdcr_add name=u regex=.*\nupdtr_start name=u\n"
    return "".join(producers) + updater


def sets(prefix: Path, port: int, how: str) -> list[str]:
    """The command that lists a daemon's sets."""
    return [f"{prefix}/sbin/ldms_ls", "-h", "localhost", "-x", "sock", "-p", str(port), how]


def cpu_ns(pid: int) -> int:
    """Processor time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)
