"""Machines, allocations and plans of the table of rank orders."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

NVL72 = "fattree:down=72x8,up=1x72,rails=4,link=50,hosts=gb200-nvl72"
XGMI = "fattree:down=32x8,up=1x32,rails=8,link=50,hosts=mi300x"
LARGE = "fattree:down=64x256,up=1x64,rails=8,link=50,hosts=dgx-h100"
# Sizes of a plan; data parallelism takes the rest.
PLANS = [
    {"tp": 8}, {"tp": 8, "pp": 2}, {"tp": 8, "pp": 4}, {"tp": 8, "pp": 8}, {"tp": 8, "pp": 16},
    {"tp": 4}, {"tp": 4, "pp": 2}, {"tp": 4, "pp": 4, "cp": 2}, {"tp": 4, "pp": 8}, {"tp": 2},
    {"tp": 2, "pp": 4, "cp": 4}, {"tp": 1}, {"tp": 1, "pp": 16}, {"tp": 8, "ep": 8},
    {"tp": 4, "ep": 16}, {"tp": 1, "pp": 2, "ep": 8}, {"tp": 1, "ep": 64},
    {"tp": 2, "pp": 4, "ep": 16}, {"tp": 1, "pp": 4, "ep": 32}, {"tp": 2, "ep": 64},
]  # fmt: skip


@dataclass
class Problem:
    """A machine and the hosts of an allocation in natural order."""

    name: str
    fabric: list[str]
    """Words of the command that name the machine."""
    hosts: list[str]
    gpus: int
    """GPUs of a host."""
    tree: dict[str, list[str]] = field(default_factory=dict)
    """Switches above every host, the nearest last; empty if all are alike."""
    domain: dict[str, str] = field(default_factory=dict)
    """NVLink domain of every host, if it spans hosts."""

    def ranks(self) -> int:
        return len(self.hosts) * self.gpus


def natural(name: str) -> list:
    """Numbers in a name as numbers."""
    return [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", name)]


def plan(sizes: dict[str, int], ranks: int) -> str | None:
    """The spec of a plan for some ranks; none if it does not divide them."""
    each = sizes["tp"] * sizes.get("pp", 1) * sizes.get("cp", 1)
    data = ranks // each
    experts = sizes.get("ep", 1)
    if data * each != ranks or (data * sizes.get("cp", 1)) % experts:
        return None
    words = [f"dp={data}", *(f"{k}={v}" for k, v in sizes.items())]
    return "plan:" + ",".join(words)


def power(count: int) -> int:
    return 1 << (count.bit_length() - 1)


def taken(name: str, whole: Problem, rng: random.Random, most: int) -> list[Problem]:
    """A contiguous allocation of a machine, and fragments of it."""
    count = min(most // whole.gpus, power(len(whole.hosts)))
    few = min(count, power(max(2, len(whole.hosts) * 2 // 3)))
    scattered = sorted(rng.sample(range(len(whole.hosts)), few))
    rest = (whole.gpus, whole.tree, whole.domain)
    return [
        Problem(name, whole.fabric, whole.hosts[:count], *rest),
        Problem(f"{name}, fragments", whole.fabric, [whole.hosts[i] for i in scattered], *rest),
    ]


def spec(text: str, unit: int, gpus: int, count: int) -> Problem:
    """A machine by its spec; `unit` hosts are on one group of leaves."""
    hosts = [f"h{i}" for i in range(count)]
    group = {h: str(i // unit) for i, h in enumerate(hosts)}
    domain = group if "nvl72" in text else {}
    return Problem(text, [text], hosts, gpus, {h: [g] for h, g in group.items()}, domain)


def model(path: Path) -> Problem:
    """One of topograph's models, with the hosts of GB200 NVL72."""
    import yaml

    document = yaml.safe_load(path.read_text())
    above = {}
    for name, switch in document["switches"].items():
        above.update({child: name for child in switch.get("switches", [])})
    tree, domain = {}, {}
    for block in document["blocks"]:
        line, at = [], block["switch"]
        while at:
            line.insert(0, at)
            at = above.get(at)
        notes = block.get("annotations", {}).values()
        for word in block["nodes"]:
            for host in expanded(word):
                tree[host] = line
                domain[host] = " ".join(notes)
    return Problem(
        path.stem, [str(path), "--hosts", "gb200-nvl72"], sorted(tree, key=natural), 4, tree, domain
    )  # fmt: skip


def expanded(word: str) -> list[str]:
    """`srv[01-08]`."""
    found = re.fullmatch(r"(.*)\[(\d+)-(\d+)\](.*)", word)
    if not found:
        return [word]
    head, first, last, tail = found.groups()
    numbers = range(int(first), int(last) + 1)
    return [f"{head}{n:0{len(first)}}{tail}" for n in numbers]


def scan(path: Path) -> Problem:
    """An ibnetdiscover file: hosts with four adapters, by their first leaf."""
    tree: dict[str, list[str]] = {}
    adapters: dict[str, set[str]] = {}
    switch = ""
    for line in path.read_text().splitlines():
        if line.startswith("Switch"):
            switch = line.split('"')[1]
        elif line.startswith("Ca"):
            switch = ""
        elif switch and (found := re.match(r'\[\d+\]\s+"H-.*#\s+"(\S+) (mlx5_\d+)"', line)):
            tree.setdefault(found[1], [switch])
            adapters.setdefault(found[1], set()).add(found[2])
    hosts = [h for h in tree if len(adapters[h]) == 4]
    listed = ",".join(hosts)
    words = [str(path), "--hosts", f"plain@{listed}"]
    return Problem(path.stem, words, sorted(hosts, key=natural), 4, tree)


def blueprints(python: str) -> list[tuple[str, int, str]]:
    """Documents of InfraGraph's blueprints: name, GPUs of a host, text."""
    code = """
from infragraph.blueprints.fabrics.single_tier_fabric import SingleTierFabric
from infragraph.blueprints.fabrics.clos_fat_tree_fabric import ClosFatTreeFabric
from infragraph.blueprints.devices.nvidia.dgx import NvidiaDGX
from infragraph.blueprints.devices.generic.generic_switch import Switch
import json
dgx = lambda: NvidiaDGX('dgx_h100')
out = [('InfraGraph single tier', 8, SingleTierFabric(dgx(), 8).serialize())]
try:
    tree = ClosFatTreeFabric(Switch(port_count=16), dgx(), 2, [])
    out.append(('InfraGraph Clos', 8, tree.serialize()))
except Exception as error:
    print(error, file=__import__('sys').stderr)
print(json.dumps(out))
"""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def problems(peers: Path, hopbyte: str, python: str) -> list[Problem]:
    """All machines, whole and in fragments."""
    rng = random.Random(1)
    rails = spec("gpu-rails", 128, 8, 128)
    found = [
        *taken("gpu-rails", rails, rng, 128),
        *taken("MI300X", spec(XGMI, 4, 8, 32), rng, 128),
        *taken("GB200 NVL72", spec(NVL72, 18, 4, 144), rng, 128),
    ]
    for name in ["nvl72", "medium", "large", "dual-xclr-regular", "dual-xclr-irregular"]:
        path = peers / f"tests/models/{name}.yaml"
        if path.exists():
            found += taken(f"topograph {name}", model(path), rng, 128)
    path = peers / "tests/output/ibnetdiscover/example.out"
    if path.exists():
        found += taken("topograph's NDR scan", scan(path), rng, 128)
    for name, gpus, text in blueprints(python):
        path = peers / f"{name.replace(' ', '-')}.yaml"
        path.write_text(text)
        asked = [hopbyte, "fabric", "convert", str(path), "--to", "json"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        words = re.findall(r'"((?:dgx|server|host|xpu)[\w-]*\.\d+)"', done.stdout)
        hosts = sorted(set(words), key=natural)
        if hosts:
            found += taken(name, Problem(name, [str(path)], hosts, gpus), rng, 128)
    return found
