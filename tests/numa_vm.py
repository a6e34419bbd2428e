"""A virtual machine with three NUMA nodes: two with a CPU each and one without, which has four times their bandwidth.

QEMU emulates it on any host, without KVM. Debian's cloud kernel runs a script of the test on files of this host; node
2 has 256 MB. Needs qemu-system-x86, busybox-static, cpio and the kernel's package, of which only the kernel is taken.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from program import ROOT

FULL = os.environ.get("HOPBYTE_TEST_FULL", "") not in ("", "0")
in_vm = pytest.mark.skipif(not FULL, reason="in a virtual machine: make test-full")
FOLDER = ROOT / "build/numa-vm"
NEEDS = ["qemu-system-x86_64=qemu-system-x86", "busybox=busybox-static", "cpio=cpio"]
BOOT_SECONDS = 300

NODES = [("m0", "640M", "cpus=0"), ("m1", "512M", "cpus=1"), ("m2", "256M", "initiator=0")]
# (initiator, target): latency in ns, bandwidth in bytes/s, as the firmware publishes them.
ATTRIBUTES = {
    (0, 0): (100, "80G"),
    (0, 1): (180, "40G"),
    (0, 2): (120, "320G"),
    (1, 0): (180, "40G"),
    (1, 1): (100, "80G"),
    (1, 2): (200, "160G"),
}

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/ TERM=dumb
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/shm /tmp /dev/pts; mount -t tmpfs t /dev/shm; mount -t devpts d /dev/pts
hostname numavm; ifconfig lo 127.0.0.1 up
echo 0 > /proc/sys/kernel/printk
sh /cases
poweroff -f
"""


@functools.cache
def kernel() -> Path:
    """The kernel's file; skips the test where it or a program cannot be had."""
    done = subprocess.run([ROOT / "scripts/need.sh", *NEEDS], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no virtual machine: {done.stderr.strip()}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Tests that begin at once fetch it once.
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = sorted(FOLDER.glob("boot/vmlinuz-*")) or fetched()
    if not found:
        pytest.skip("no virtual machine: Debian's cloud kernel (linux-image-cloud-amd64) could not be fetched")
    return found[-1]


def fetched() -> list[Path]:
    """The kernels of Debian's newest cloud package."""
    depends = subprocess.run(
        ["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, check=False
    ).stdout
    name = re.search(r"linux-image-\S+-cloud-amd64", depends)
    package = name[0] if name else "linux-image-cloud-amd64"
    subprocess.run(["apt-get", "download", "-q", package], cwd=FOLDER, capture_output=True, check=False)
    for archive in FOLDER.glob("linux-image-*.deb"):
        subprocess.run(["dpkg", "-x", archive, FOLDER], check=True)
        archive.unlink()
    shutil.rmtree(FOLDER / "lib", ignore_errors=True)
    return sorted(FOLDER.glob("boot/vmlinuz-*"))


def libraries(files: list[Path]) -> set[Path]:
    """The files, and all shared libraries that they need, by the names that the loader uses."""
    whole = {Path(f) for f in files}
    for file in files:
        done = subprocess.run(["ldd", file], capture_output=True, text=True, check=False)
        whole |= {Path(m) for m in re.findall(r"(/\S+) \(0x", done.stdout)}
    return whole


def pack(folder: Path, files: list[Path], cases: dict[str, str]) -> Path:
    """The initial file system: files at the same places as here."""
    tree = folder / "tree"
    for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "root"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", tree / "bin/busybox")
    for file in libraries(files):
        target = tree / str(file).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(file, target)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost numavm\n")
    case = "echo; echo '=== {}'\n( {}\n) 2>&1\necho \"=== code $?\"\n"
    text = "".join(case.format(name, script) for name, script in cases.items())
    (tree / "cases").write_text(text)
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    image = folder / "image"
    with image.open("wb") as out:
        names = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names, stdout=out, check=True)
    shutil.rmtree(tree)
    return image


def command(image: Path) -> list[str]:
    """QEMU's command line."""
    words = ["qemu-system-x86_64", "-machine", "q35,accel=tcg,hmat=on", "-cpu", "max", "-m", "1408M", "-smp", "2"]
    for number, (name, size, rest) in enumerate(NODES):
        words += ["-object", f"memory-backend-ram,id={name},size={size}"]
        words += ["-numa", f"node,nodeid={number},memdev={name},{rest}"]
    for (initiator, target), (latency, bandwidth) in ATTRIBUTES.items():
        place = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory"
        words += ["-numa", f"{place},data-type=access-latency,latency={latency}"]
        words += ["-numa", f"{place},data-type=access-bandwidth,bandwidth={bandwidth}"]
    words += ["-kernel", str(kernel()), "-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1"]
    return [*words, "-nographic", "-no-reboot"]


def run_in_vm(folder: Path, files: list[Path], cases: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Boots once, runs every case's shell script, and returns exit codes and outputs."""
    kernel()  # installs the programs that `pack` takes
    image = pack(folder, files, cases)
    done = subprocess.run(
        command(image),
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=BOOT_SECONDS + 60 * len(cases),
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    image.unlink()
    out = done.stdout.replace("\r", "")
    found = re.findall(r"^=== (?!code)(.+)\n([\s\S]*?)=== code (\d+)$", out, re.M)
    assert len(found) == len(cases), f"{len(found)} of {len(cases)} cases ended:\n{out[-4000:]}\n{done.stderr}"
    return {name: (int(code), text) for name, text, code in found}
