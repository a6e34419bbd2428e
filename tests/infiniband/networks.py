"""Network descriptions for ibsim: a fat tree, a torus, an irregular graph with double cables."""

from __future__ import annotations

import random

Cable = tuple[tuple[str, int], tuple[str, int]]


class Net:
    """Switches and adapters with their cables; ports are assigned in order."""

    def __init__(self) -> None:
        self.ports: dict[str, dict[int, tuple[str, int]]] = {}
        self.names: dict[str, str] = {}

    def switch(self, name: str) -> str:
        guid = f"S-{0x100000 + len(self.ports):016x}"
        self.ports[guid], self.names[guid] = {}, name
        return guid

    def adapter(self, name: str, switch: str) -> str:
        guid = f"H-{0x200000 + 16 * len(self.ports):016x}"
        self.ports[guid], self.names[guid] = {}, name
        self.cable(switch, guid)
        return guid

    def cable(self, a: str, b: str) -> None:
        pa, pb = len(self.ports[a]) + 1, len(self.ports[b]) + 1
        self.ports[a][pa], self.ports[b][pb] = (b, pb), (a, pa)

    def text(self) -> str:
        lines = []
        for guid, ports in self.ports.items():
            number, is_switch = guid[2:].lstrip("0"), guid.startswith("S")
            kind, width = ("Switch", 36) if is_switch else ("Ca", 1)
            word = "switchguid" if is_switch else "caguid"
            lines += [f"{word}=0x{number}", f'{kind}\t{width} "{guid}"\t\t# "{self.names[guid]}"']
            lines += [f'[{p}]\t"{far}"[{q}]' for p, (far, q) in ports.items()]
            lines.append("")
        return "\n".join(lines) + "\n"


def fat_tree(leaves: int, spines: int, hosts: int) -> Net:
    net = Net()
    tops = [net.switch(f"spine{s}") for s in range(spines)]
    for leaf_number in range(leaves):
        leaf = net.switch(f"leaf{leaf_number}")
        for top in tops:
            net.cable(leaf, top)
        for h in range(hosts):
            net.adapter(f"n{leaf_number:02}-{h} HCA-1", leaf)
    return net


def torus(x: int, y: int, z: int) -> Net:
    net = Net()
    at = {
        (i, j, k): net.switch(f"sw-{i}-{j}-{k}")
        for i in range(x)
        for j in range(y)
        for k in range(z)
    }
    for (i, j, k), switch in at.items():
        for far in {((i + 1) % x, j, k), (i, (j + 1) % y, k), (i, j, (k + 1) % z)} - {(i, j, k)}:
            net.cable(switch, at[far])
    for (i, j, k), switch in at.items():
        net.adapter(f"n-{i}-{j}-{k} HCA-1", switch)
    return net


def irregular(switches: int, cables: int, seed: int) -> Net:
    pick, net = random.Random(seed), Net()
    all_switches = [net.switch(f"odd{s}") for s in range(switches)]
    for s in range(1, switches):
        net.cable(all_switches[s], all_switches[pick.randrange(s)])
    for _ in range(cables):
        a, b = pick.sample(all_switches, 2)
        net.cable(a, b)
        if pick.random() < 0.3:
            net.cable(a, b)
    for s, switch in enumerate(all_switches):
        for h in range(1 + s % 3):
            net.adapter(f"h{s}-{h} mlx5_0", switch)
    return net
