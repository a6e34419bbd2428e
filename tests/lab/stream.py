"""One TCP stream: `sink` prints bytes and seconds, `send HOST BYTES` sends them."""

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
            connection = socket.create_connection((host, PORT), timeout=30)
            break
        except OSError:
            if attempt == 99:
                raise
            time.sleep(0.1)
    block = b"x" * (1 << 16)
    while total > 0:
        total -= connection.send(block[: min(total, len(block))])
    connection.close()


sink() if sys.argv[1] == "sink" else send(sys.argv[2], int(sys.argv[3]))
