"""Noise is delivered as asked, seen by a program that looks at the clock; what cannot be delivered is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch import BUILD

PROGRAM = BUILD / "hopbyte-disturb"

# Gaps of about a millisecond in a loop that looks at the clock. Other work of its processor makes longer ones.
LOOP = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.nice(-20)
end = (last := time.monotonic()) + 3
gaps = []
while (now := time.monotonic()) < end:
    if 9e-4 < now - last < 1.6e-3:
        gaps.append(now)
    last = now
print(*gaps)
"""


def disturb(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "found no command"),
        (["--"], "found no command"),
        (["--", "true"], "found nothing to do"),
        (["--noise"], "--noise: found no value"),
        (["--noise", "--", "true"], "--noise: found no value"),
        (["--noise", "10ms", "--", "true"], "found '10ms', expected PERIOD:DURATION"),
        (["--noise", "10:1", "--", "true"], "found '10:1', expected PERIOD:DURATION"),
        (["--noise", "-1ms:1us", "--", "true"], "expected PERIOD:DURATION"),
        (["--noise", "1ms:2ms", "--", "true"], "found 0.002 s of every 0.001 s, expected at most 0.9"),
        (["--noise", "1ms:1us", "--", "true"], "found a duration of 1e-06 s, expected at least"),
        (["--noise", "61s:1s", "--", "true"], "expected at most 60 s"),
        (["--memory", "half", "--", "true"], "--memory: found 'half', expected a share above 0 and below 1"),
        (["--memory", "0", "--", "true"], "--memory: found '0', expected a share above 0 and below 1"),
        (["--memory", "1", "--", "true"], "--memory: found '1', expected a share above 0 and below 1"),
        (["--color", "1", "--", "true"], "found '--color', expected --noise"),
    ],
)
def test_bad_words_are_refused(words: list[str], said: str) -> None:
    result = disturb(*words)
    assert (result.returncode, said in result.stderr) == (2, True), result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="real-time threads: need root")
def test_a_program_sees_the_noise_that_is_reported(tmp_path: Path) -> None:
    """Gaps begin at one place of the period, which is no multiple of the scheduler's tick; where other work has the
    processor, some of them are not seen."""
    file = tmp_path / "n.json"
    result = disturb("--noise", "21ms:1ms", "--json", str(file), "--", sys.executable, "-c", LOOP)
    noise = json.loads(file.read_text())["noise"]
    assert noise["as_asked"] == (result.returncode == 0), result.stderr
    assert noise["share"] == pytest.approx(1 / 21, rel=0.1) and noise["period_s"] == pytest.approx(0.021, rel=0.1)
    gaps = [float(gap) for gap in result.stdout.split()]
    places = sorted(gap % 0.021 for gap in gaps)
    near = max(sum(1 for other in places if abs(other - place) < 1e-3) for place in places)
    assert near >= 0.3 * 3 / 0.021, (near, len(gaps))


def test_a_command_keeps_its_status() -> None:
    expected = 7 if os.geteuid() == 0 else 3
    assert disturb("--noise", "20ms:1ms", "--", "sh", "-c", "exit 7").returncode == expected


def test_noise_needs_the_right_to_real_time_threads() -> None:
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
        if subprocess.run([*words, "test", "-x", str(PROGRAM)], check=False).returncode != 0:
            pytest.skip("the build is not readable for others than root")
    else:
        words = []
    words += [str(PROGRAM), "--noise", "20ms:1ms", "--", "echo", "ran"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 3 and not result.stdout, result.stderr
    assert "takes root or CAP_SYS_NICE" in result.stderr


def test_a_share_of_memory_is_delivered_or_refused(tmp_path: Path) -> None:
    """One percent is beyond every machine; 90 % depends on it."""
    refused = disturb("--memory", "0.01", "--", "echo", "ran")
    assert refused.returncode == 3 and not refused.stdout, refused.stderr
    assert "the command was not started" in refused.stderr
    file = tmp_path / "m.json"
    result = disturb("--memory", "0.9", "--json", str(file), "--", "echo", "ran")
    if result.returncode == 3 and not file.exists():
        assert "expected 0.90 within 0.05" in result.stderr and not result.stdout
        return
    memory = json.loads(file.read_text())["memory"]
    assert result.stdout == "ran\n" and abs(memory["share_before"] - 0.9) <= 0.05
    assert memory["as_asked"] == (result.returncode == 0) == (abs(memory["share_after"] - 0.9) <= 0.1)
