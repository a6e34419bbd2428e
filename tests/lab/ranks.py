"""One rank of a collective over TCP, as a process of its own: `ranks.py COMMON RANK`.

COMMON is a JSON file: `pattern` (`ring`, an all-reduce in 2(n-1) steps, or `all-to-all`), `bytes` (of the vector, or to
each other rank), `addresses` by rank, `folder` for the start signal, which crosses no link. Sockets are bound to the
rank's address, since that chooses the port of its host. Prints the seconds from the common start to its end.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path

PORT = 6000
# Large enough to never stop a sender for lack of a window.
BUFFER = 1 << 20


class Links:
    """Connections to other ranks, opened by the lower rank of each pair."""

    def __init__(self, rank: int, addresses: list[str], others: set[int]) -> None:
        self.of: dict[int, socket.socket] = {}
        server = socket.create_server((addresses[rank], PORT), backlog=len(addresses))
        for other in sorted(o for o in others if o > rank):
            self.of[other] = self.connected(addresses[rank], addresses[other])
            self.of[other].sendall(rank.to_bytes(2, "big"))
        for _ in [o for o in others if o < rank]:
            peer, _ = server.accept()
            self.of[int.from_bytes(exactly(peer, 2), "big")] = peer
        for peer in self.of.values():
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def connected(own: str, other: str) -> socket.socket:
        for _ in range(600):
            try:
                return socket.create_connection((other, PORT), timeout=60, source_address=(own, 0))
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(other)


def exactly(peer: socket.socket, size: int) -> bytes:
    parts = []
    while size and (part := peer.recv(min(size, BUFFER))):
        parts.append(part)
        size -= len(part)
    assert not size, "a connection ended early"
    return b"".join(parts)


def ring(links: Links, rank: int, ranks: int, size: int) -> None:
    """Chunks go round: each step sends what the one before received."""
    following, before = links.of[(rank + 1) % ranks], links.of[(rank - 1) % ranks]
    chunk = bytes(size // ranks)
    for _ in range(2 * (ranks - 1)):
        sender = threading.Thread(target=following.sendall, args=(chunk,))
        sender.start()
        chunk = exactly(before, size // ranks)
        sender.join()


def all_to_all(links: Links, rank: int, ranks: int, size: int) -> None:
    """In rounds: to the rank that is k above, from the one that is k below, before k + 1."""
    block = bytes(size)
    for k in range(1, ranks):
        sender = threading.Thread(target=links.of[(rank + k) % ranks].sendall, args=(block,))
        sender.start()
        exactly(links.of[(rank - k) % ranks], size)
        sender.join()


def main() -> None:
    common, rank = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])
    folder, addresses = Path(common["folder"]), common["addresses"]
    ranks = len(addresses)
    around = {(rank + 1) % ranks, (rank - 1) % ranks}
    others = around if common["pattern"] == "ring" else set(range(ranks)) - {rank}
    links = Links(rank, addresses, others)
    (folder / f"ready{rank}").touch()
    start = folder / "start"
    while not start.exists():
        time.sleep(0.02)
    begin = float(start.read_text())
    time.sleep(max(0.0, begin - time.monotonic()))
    if common["pattern"] == "ring":
        ring(links, rank, ranks, common["bytes"])
    else:
        all_to_all(links, rank, ranks, common["bytes"])
    print(time.monotonic() - begin)


if __name__ == "__main__":
    main()
