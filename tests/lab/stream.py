"""One TCP stream (`sink` prints bytes and seconds, `send HOST BYTES`), or `frames HOST BYTES COUNT` into a `hole`."""

import socket
import sys
import time

PORT = 5001


def sink() -> None:
    connection, _ = socket.create_server(("0.0.0.0", PORT)).accept()
    total, start = 0, None
    while data := connection.recv(1 << 16):
        start = start or time.monotonic()
        total += len(data)
    print(total, time.monotonic() - (start or 0))


def send(host: str, total: int) -> None:
    for attempt in range(100):
        try:
            connection = socket.create_connection((host, PORT), timeout=60)
            break
        except OSError:
            if attempt == 99:
                raise
            time.sleep(0.1)
    block = b"x" * (1 << 16)
    while total > 0:
        total -= connection.send(block[: min(total, len(block))])
    connection.close()


def frames(host: str, size: int, count: int) -> None:
    """A bound UDP port that is never read: no replies, no errors."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(count):
            s.sendto(b"x" * size, (host, PORT))
            time.sleep(0.002)


def hole() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("0.0.0.0", PORT))
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    {
        "sink": sink,
        "hole": hole,
        "send": lambda: send(sys.argv[2], int(sys.argv[3])),
        "frames": lambda: frames(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])),
    }[sys.argv[1]]()
