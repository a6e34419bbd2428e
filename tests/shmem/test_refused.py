"""Wrong calls and settings: each gives its message, and the job ends or goes on as documented."""

from __future__ import annotations

import pytest

from harness import FULL, OMPI, OMPI_OPTIONS, Shmem, run_command

CALLS = {
    "freed": "this team was destroyed",
    "freed_reused": "this team was destroyed",
    "freed_twice": "this team was destroyed",
    "destroy_world": "a predefined team cannot be destroyed",
    "invalid": "SHMEM_TEAM_INVALID instead of a team",
    "rubbish": "is not a team",
    "ragged3d": "a grid of 8 cells does not fit the parent of 3 PEs",
    "ragged2d": "a grid of 6 cells does not fit the parent of 3 PEs",
    "zero3d": "yaxis_range 0: expected 1 or more",
    "huge3d": "does not fit the parent of 3 PEs",
    "color": "color -7: expected 0 or more, or SHMEM_COLOR_UNDEFINED",
    "strided_outside": "reach from member 0 to 4 of a parent of 3",
    "unequal_split": "size must be equal at all members: ",
    "unequal_3d": "zaxis_range must be equal at all members: ",
    "root": "PE_root 3: expected 0 to 2",
    "negative_count": "nreduce -1",
    "active_outside": "PE_start 0, logPE_stride 1, PE_size 3 is not an active set of 3 PEs",
    "active_other": "this PE is not in the active set",
    "before": "called before shmem_init",
}
CHECKED = {
    "unequal_count": "nreduce must be equal at all members: ",
    "unequal_operation": "the operation must be equal at all members: ",
    "unequal_root": "PE_root must be equal at all members: ",
}
SOFT = ["size", "stride", "negative", "start", "overflow", "contexts", "2d"]
SAMPLE = {"freed_reused", "ragged3d", "unequal_split", "active_other"}


def refused(one: Shmem, name: str, message: str, **environment: str) -> None:
    result = one.run(3, one.build("refused.c"), name, environment=environment)
    assert result.code not in (0, None), result
    assert f"{message}" in result.err, result.err
    assert "hopbyte shmem: " in result.err
    assert "reached" not in result.out


@pytest.mark.parametrize("name", [name for name in CALLS if FULL or name in SAMPLE])
def test_call(shmem: Shmem, name: str) -> None:
    refused(shmem, name, CALLS[name])


@pytest.mark.parametrize("name", CHECKED if FULL else ["unequal_count"])
def test_checked_arguments(shmem: Shmem, name: str) -> None:
    refused(shmem, name, CHECKED[name], HOPBYTE_SHMEM_CHECK="1")


def test_missing_member(shmem: Shmem) -> None:
    refused(shmem, "one_missing", "no message from PE", HOPBYTE_SHMEM_TIMEOUT="1")


def test_too_long_for_alltoallv(shmem: Shmem) -> None:
    refused(shmem, "too_long", "16 bytes for PE", SHMEM_ALLTOALLV_TSIZE_CHK="abort")


def test_two_threads() -> None:
    refused(OMPI, "two_threads", "two threads of a PE are in collective calls at once")


@pytest.mark.parametrize("name", SOFT if FULL else SOFT[:2])
def test_split_by_the_standard_names(shmem: Shmem, name: str) -> None:
    """Status -1 and an invalid team at every PE; the job goes on."""
    result = shmem.run(3, shmem.build("refused.c"), f"soft_{name}").ok()
    assert result.out.count("refused softly") == 3
    assert result.out.count("reached") == 3
    assert result.err.count("hopbyte shmem: shmem_team_split") == 1


SETTINGS = {
    "SHMEM_USE_LARGE_OPT_REDUCE": ("2", "expected 0 or 1"),
    "SHMEM_TEAM_SMP_REDUCE": ("yes", "expected 0 or 1"),
    "SHMEM_REDUCE_CUTOFF_SIZE": ("16KB", "expected bytes, with K, M or G"),
    "HOPBYTE_SHMEM_REDUCE": ("tree", "expected auto, doubling, halving, ring"),
    "HOPBYTE_SHMEM_STAGE": ("100", "expected bytes from 4K up"),
    "HOPBYTE_SHMEM_ACTIVE_SETS": ("cray", "expected hopbyte or library"),
    "HOPBYTE_SHMEM_TIMEOUT": ("soon", "expected a number above 0"),
    "HOPBYTE_SHMEM_NETWORK_BANDWIDTH": ("0", "expected a number above 0"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_setting(name: str) -> None:
    """Refused before the library starts: by one process, without a launcher."""
    value, message = SETTINGS[name]
    program = OMPI.build("refused.c")
    result = run_command([str(program), "none"], {name: value}, 30)
    assert result.code == 2, result
    assert f'hopbyte shmem: {name}="{value}": {message}' in result.err


def test_puts_that_wait_for_arrival_are_not_delivered() -> None:
    """Cray's variable for the semantics before MPT 7.4: said once, and the job goes on."""
    program = OMPI.build("refused.c")
    result = OMPI.run(2, program, "none", environment={"SHMEM_DMAPP_PUT_NBI": "0"}).ok()
    assert result.err.count("SHMEM_DMAPP_PUT_NBI=0 is not delivered") == 1 and result.out.count("reached") == 2
    assert "DMAPP" not in OMPI.run(2, program, "none", environment={"SHMEM_DMAPP_PUT_NBI": "1"}).ok().err


def test_settings_must_be_equal() -> None:
    """A variable that only one PE has."""
    program = OMPI.build("refused.c")
    command = [OMPI.launcher, *OMPI_OPTIONS, "-np", "1", str(program), "none", ":"]
    command += ["-np", "1", "-x", "SHMEM_REDUCE_CUTOFF_SIZE=5", str(program), "none"]
    result = run_command(command, {})
    assert result.code not in (0, None)
    assert "PE 1 has other SHMEM_ or HOPBYTE_SHMEM_ variables in its environment than PE 0" in result.err
