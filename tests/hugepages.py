"""Huge pages of 2 MB for a test, where the host has them and they can be reserved."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from program import ROOT

NUMBER = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
PLENTY = 200  # MPI libraries take huge pages for themselves where there are any


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """Reserves huge pages of 2 MB; other tests that do so wait."""
    if not os.access(NUMBER, os.W_OK):
        pytest.skip("huge pages can be reserved by root, on hosts that have them of 2 MB")
    with (ROOT / "build/hugepages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Pages still in use when their number was lowered count as surplus, and go by themselves.
        before = int(NUMBER.read_text()) - int(NUMBER.with_name("surplus_hugepages").read_text())
        NUMBER.write_text(str(count))
        try:
            if int(NUMBER.read_text()) < count:
                pytest.skip(f"the host has no {count} huge pages of 2 MB")
            yield
        finally:
            NUMBER.write_text(str(before))
