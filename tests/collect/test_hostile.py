"""A cluster's less friendly days: slow name servers, few descriptors, thousands of interfaces, stores that vanish."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest
from conftest import Site, require, resident, wait
from program import ROOT

NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

/* Every name has two addresses, of which the first has no listener, after four seconds. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(name, "collector.test") != 0)
        return next(name, service, hints, found);
    sleep(4);
    struct addrinfo only = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *second;
    int rc = next("127.0.0.9", service, &only, found);
    if (rc == 0 && (rc = next("127.0.0.1", service, &only, &second)) == 0)
        (*found)->ai_next = second;
    return rc;
}
"""


THREADS = r"""
#include <errno.h>
#include <pthread.h>

/* A limit on processes that is reached. */
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *with)
{
    return EAGAIN;
}
"""
ALONE = {
    "fabric check torus:4x4x4": 0,
    "oracle query --fabric torus:8x8x8 --all": 0,
    "map stencil:4x4:5 --fabric torus:4x4 --nodes all --trials 100": 0,
    "model run scenarios/examples/halo.toml": 0,
    "model reproduce D1": 0,
    "predict data/trace-ring --fabric torus:4x4 --nodes all --ranks-per-node 1": 0,
    "verify --run data/run-ring --trace data/trace-ring --fabric torus:4x4": 0,
    "sweep scenarios/examples/xt4/ping-pong.toml": 0,
    "links data/links.jsonl --fabric torus:4x4": 0,
    "view data/links.jsonl --fabric torus:4x4 --out page.html": 0,
    "map stencil:4x4:5 --fabric torus:4x4 --nodes all --threads 2": 2,
    "map stencil:4x4:5 --fabric torus:4x4 --nodes all --oracle http://localhost:9": 3,
    "view data/links.jsonl --fabric torus:4x4 --serve=0": 3,
    "oracle serve data/links.jsonl --fabric torus:4x4 --listen 127.0.0.1:0": 3,
    "collect --listen 127.0.0.1:0 --store store --ticks 1": 0,
    "collect --listen 127.0.0.1:0 --store store --ticks 1 --jobs data/squeue.json": 3,
    "collect --listen 127.0.0.1:0 --ticks 1 --metrics 127.0.0.1:0": 3,
    "collect --listen 127.0.0.1:0 --ticks 1 --listen-lines 127.0.0.1:0": 3,
    "collect --listen 127.0.0.1:0 --ticks 1 --lines http://127.0.0.1:9/write": 3,
}


def test_without_a_thread_commands_do_the_work_alone_or_say_so(site: Site) -> None:
    """Under a limit on processes that allows none: no command ends with an internal error."""
    (site.folder / "threads.c").write_text(THREADS)
    build = [require("gcc", "gcc"), "-shared", "-fPIC", "-o", "threads.so", "threads.c"]
    subprocess.run(build, cwd=site.folder, check=True)
    for name in ("data", "scenarios"):
        (site.folder / name).symlink_to(ROOT / name)
    alone = dict(os.environ, LD_PRELOAD=str(site.folder / "threads.so"))
    for words, code in ALONE.items():
        command = [str(site.hopbyte), *words.split()]
        done = subprocess.run(command, cwd=site.folder, env=alone, capture_output=True, text=True, timeout=120)
        assert done.returncode == code and "panicked" not in done.stderr, f"{words}: {done.returncode}\n{done.stderr}"
        assert code != 3 or "starting a thread" in done.stderr, f"{words}\n{done.stderr}"


@pytest.mark.parametrize("way", ["tcp", "udp"])
def test_a_slow_name_server_and_a_dead_address_cost_no_reading(site: Site, way: str) -> None:
    """The agent reads while it waits for the collector's address, and tries the other one after the dead one."""
    (site.folder / "names.c").write_text(NAMES)
    build = [require("gcc", "gcc"), "-shared", "-fPIC", "-o", "names.so", "names.c", "-ldl"]
    subprocess.run(build, cwd=site.folder, check=True)
    site.collect("--udp", f"127.0.0.1:{site.collector}", "--period", "0.5", "--store", "store")
    to = ("udp://" if way == "udp" else "") + f"collector.test:{site.collector}"
    words = [site.hopbyte, "--json", "agent", "--name", "n1", "--interface", "lo", "--to", to, "--period", "0.5"]
    site.start("env", f"LD_PRELOAD={site.folder / 'names.so'}", *words, out="n1")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    last = site.last("n1")
    # Two lookups of four seconds; on a busy machine a tick may be missed for another reason.
    assert last["sequence"] >= 14 and last["missed_ticks"] <= 1, last
    done = subprocess.run(
        [site.hopbyte, "--json", "replay", "store"], cwd=site.folder, capture_output=True, text=True, check=True
    )
    # All of them arrived.
    assert done.stdout.count('{"node":"n1"') + done.stdout.count('"reported":1') >= last["sequence"] - 2


def test_connections_without_a_hello_leave_descriptors_to_agents_and_store(site: Site) -> None:
    """With 256 descriptors, and as many idle connections to both ports as fit: nodes report, logs begin and end."""
    listen = ["--listen", f"127.0.0.1:{site.collector}", "--metrics", f"127.0.0.1:{site.metrics}"]
    command = [site.hopbyte, "--json", "collect", *listen, "--store", "store", "--segment", "0"]
    site.start(require("prlimit", "util-linux"), "--nofile=256:256", *command, out="ticks")
    site.agent("n1")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    idle: list[socket.socket] = []
    began = site.last_tick()["tick"]
    until = time.monotonic() + 8
    while time.monotonic() < until:
        # Those that were closed are replaced.
        for port in (site.collector, site.metrics):
            for _ in range(60):
                idle.append(socket.socket())
                idle[-1].setblocking(False)
                idle[-1].connect_ex(("127.0.0.1", port))
        time.sleep(0.3)
        while len(idle) > 700:
            idle.pop(0).close()
    site.agent("n2")
    wait("a second node", lambda: site.last_tick()["reported"] == 2)
    assert "hopbyte_store_failing 0\n" in site.text()
    assert "hopbyte_store_unkept_ticks_total 0\n" in site.text()
    assert site.last_tick()["tick"] > began + 5
    for one in idle:
        one.close()


def test_a_store_whose_folder_is_removed_is_said_to_fail(site: Site) -> None:
    """Ticks in a deleted file are not acknowledged; when the folder is back they are stored again."""
    site.collect("--store", "store", "--period", "0.5", "--metrics", f"127.0.0.1:{site.metrics}")
    site.agent("n1", "--period", "0.5")
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > 0)
    told = site.last("n1")["sequence"]
    shutil.rmtree(site.folder / "store")
    wait("the metric", lambda: "hopbyte_store_failing 1\n" in site.text())
    at = site.last("n1")["acknowledged"]
    time.sleep(6)
    assert site.last("n1")["acknowledged"] == at, "reports are acknowledged that are nowhere"
    wait("a warning", lambda: "is not stored" in (site.folder / "log").read_text())
    (site.folder / "store").mkdir()
    wait("the store", lambda: "hopbyte_store_failing 0\n" in site.text())
    wait("acknowledgements again", lambda: site.last("n1")["acknowledged"] > at + 4)
    sequence = site.last("n1")["acknowledged"]
    site.stack.close()
    command = [site.hopbyte, "replay", "store", "--seal"]
    subprocess.run(command, cwd=site.folder, capture_output=True, check=True)
    pandas = pytest.importorskip("pandas")
    tables = [pandas.read_parquet(file) for file in (site.folder / "store").glob("*.reports.parquet")]
    kept = set().union(*(set(table["sequence"]) for table in tables))
    # Nothing that was read after the folder went is missing.
    assert set(range(told + 2, sequence + 1)) <= kept, (told, sequence, sorted(kept))


def test_a_store_that_cannot_be_written_is_read(site: Site) -> None:
    """Replay, export and queries of a store on a file system that is mounted read-only."""
    if os.geteuid():
        pytest.skip("needs root")
    site.gather()
    wait("ticks", lambda: site.last("n1")["acknowledged"] > 2)
    site.stack.close()
    (site.folder / "ro").mkdir()
    mount = "mount --bind -o ro store ro 2>/dev/null || { mount --bind store ro && mount -o remount,bind,ro ro; }"

    def there(*words: object) -> subprocess.CompletedProcess[str]:
        line = " ".join(str(word) for word in words)
        command = ["unshare", "-m", "sh", "-c", f"{mount} || exit 77; exec {line}"]
        return subprocess.run(command, cwd=site.folder, capture_output=True, text=True)

    shown = there(site.hopbyte, "--json", "replay", "ro")
    if shown.returncode == 77:
        pytest.skip("no mounts can be made here")
    assert shown.returncode == 0 and shown.stdout.count('"reported":1') >= 2, shown
    lines = there(site.hopbyte, "replay", "ro", "--lines")
    assert lines.returncode == 0 and "net_bytes_in_bw,cluster=cluster,hostname=n1" in lines.stdout, lines
    sealed = there(site.hopbyte, "replay", "ro", "--seal")
    assert sealed.returncode in (2, 3) and "Read-only file system" in sealed.stderr, sealed
    again = there(site.hopbyte, "collect", "--store", "ro", "--listen", "127.0.0.1:0", "--ticks", "1")
    assert again.returncode in (2, 3) and "Read-only file system" in again.stderr, again


def test_births_of_interfaces_leave_memory_and_names_alone(site: Site) -> None:
    """Virtual cables that come and go under a running agent; a hundred thousand with HOPBYTE_FULL=1."""
    ip = shutil.which("ip")
    if not ip or os.geteuid():
        pytest.skip("needs root and ip")
    space, births = f"hb-births-{os.getpid()}", 100_000 if os.environ.get("HOPBYTE_FULL") else 1_000
    if subprocess.run([ip, "netns", "add", space], capture_output=True).returncode:
        pytest.skip("no network namespaces can be made here")
    site.stack.callback(subprocess.run, [ip, "netns", "del", space], check=False, capture_output=True)
    inside = [ip, "netns", "exec", space]
    subprocess.run([ip, "-n", space, "link", "set", "lo", "up"], check=True)
    listen = ["--listen", f"127.0.0.1:{site.collector}", "--period", "0.1", "--deadline", "50"]
    collector = site.start(*inside, site.hopbyte, "--json", "collect", *listen, "--print", "changes", out="ticks")
    words = [site.hopbyte, "--json", "agent", "--name", "n1", "--to", f"127.0.0.1:{site.collector}", "--period", "0.1"]
    # Without a choice of interfaces all cables are read.
    subprocess.run([ip, "-n", space, "link", "add", "stays", "type", "veth", "peer", "name", "stays1"], check=True)
    agent = site.start(*inside, *words, out="n1")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    sizes = []
    for begin in range(0, births, 50):
        alive = [f"b{n:06x}" for n in range(begin, begin + 50, 2)]
        born = "".join(f"link add {name} type veth peer name c{name[1:]}\n" for name in alive)
        gone = "".join(f"link del {name}\n" for name in alive)
        for batch in (born, gone):
            subprocess.run([ip, "-n", space, "-batch", "-"], input=batch, text=True, check=True)
            time.sleep(0.1)
        if begin % (births // 10) == 0:
            sizes.append((resident(agent), resident(collector)))
    at = site.last("n1")["acknowledged"]
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > at + 20)
    said = (site.folder / "log").read_text()
    assert "refused" not in said, said
    print("resident bytes of agent and collector:", sizes)
    # From the second tenth on; the first ones fill what is kept for reuse.
    grown = [last - first for first, last in zip(sizes[2], sizes[-1], strict=True)]
    assert max(grown) < 6_000_000, sizes
