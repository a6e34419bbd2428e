#!/usr/bin/env python3
"""Bill of materials of the programs, from `cargo metadata`.

usage: scripts/sbom.py FOLDER

Writes FOLDER/hopbyte.cdx.json (CycloneDX 1.5: every crate that the released programs contain, with version, licence,
checksum of Cargo.lock and its dependencies) and FOLDER/third-party.txt (the licence texts of these crates, which have
to accompany the programs). The same Cargo.lock gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What packages install; benches and tests are no part of them.
SHIPPED = ("hopbyte-cli", "hopbyte-collect", "hopbyte-capi", "hopbyte-py")
TEXTS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")


def metadata() -> dict:
    """Cargo's view of the workspace for the platform that is built here."""
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    target = next(line.split()[1] for line in host.splitlines() if line.startswith("host:"))
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def contained(data: dict) -> dict[str, set[str]]:
    """Package: its dependencies that become part of the programs; procedural macros and build scripts do not."""
    packages = {package["id"]: package for package in data["packages"]}
    macros = {p["id"] for p in data["packages"] if any("proc-macro" in t["kind"] for t in p["targets"])}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    found: dict[str, set[str]] = {}
    pending = [id for id, package in packages.items() if package["name"] in SHIPPED]
    while pending:
        id = pending.pop()
        if id in found:
            continue
        normal = [d["pkg"] for d in nodes[id]["deps"] if any(k["kind"] is None for k in d["dep_kinds"])]
        found[id] = {other for other in normal if other not in macros}
        pending.extend(found[id])
    return found


def reference(package: dict) -> str:
    """Package URL, which identifies a component."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, sums: dict[tuple[str, str], str]) -> dict:
    """One crate."""
    own = package["source"] is None
    entry = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
        "scope": "required",
    }
    if package["license"]:
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = sums.get((package["name"], package["version"]))
    if checksum and not own:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def document(data: dict, found: dict[str, set[str]]) -> dict:
    """The CycloneDX document."""
    packages = {package["id"]: package for package in data["packages"]}
    lock = (ROOT / "Cargo.lock").read_bytes()
    locked = tomllib.loads(lock.decode())["package"]
    sums = {(p["name"], p["version"]): p["checksum"] for p in locked if "checksum" in p}
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    rows = sorted(found, key=lambda id: reference(packages[id]))
    program = f"pkg:generic/hopbyte@{version}"
    shipped = [reference(packages[id]) for id in rows if packages[id]["name"] in SHIPPED]
    depends = [{"ref": program, "dependsOn": shipped}]
    for id in rows:
        others = sorted(reference(packages[other]) for other in found[id])
        depends.append({"ref": reference(packages[id]), "dependsOn": others})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(lock).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": program, "name": "hopbyte", "version": version,
                          "licenses": [{"expression": "MIT OR Apache-2.0"}]},
        },
        "components": [component(packages[id], sums) for id in rows],
        "dependencies": depends,
    }  # fmt: skip


def notices(data: dict, found: dict[str, set[str]]) -> tuple[str, list[str]]:
    """Licence texts of other people's crates, equal ones once; and the crates that carry none."""
    crates: dict[str, list[str]] = {}
    without = []
    others = [p for p in data["packages"] if p["id"] in found and p["source"] is not None]
    for package in sorted(others, key=reference):
        folder = Path(package["manifest_path"]).parent
        files = sorted(f for f in folder.iterdir() if f.is_file() and f.name.upper().startswith(TEXTS))
        named = f"{package['name']} {package['version']} ({package['license']})"
        if not files:
            without.append(named)
        for file in files:
            crates.setdefault(file.read_text(errors="replace").strip(), []).append(named)
    parts = ["Licences of the Rust crates that the programs of hopbyte contain.\n"]
    if without:
        parts.append("Without a text of their own, under the licence named:\n" + "".join(f"  {w}\n" for w in without))
    parts += ["=" * 78 + "\n" + "".join(f"  {n}\n" for n in sorted(set(names))) + f"\n{text}\n"
              for text, names in sorted(crates.items(), key=lambda item: item[1][0])]  # fmt: skip
    return "\n".join(parts), without


def main() -> int:
    """Writes both files."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    data = metadata()
    found = contained(data)
    bom = document(data, found)
    (folder / "hopbyte.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")
    text, without = notices(data, found)
    (folder / "third-party.txt").write_text(text)
    print(f"{len(bom['components'])} crates, {len(without)} of them without a licence text of their own")
    return 0


if __name__ == "__main__":
    sys.exit(main())
