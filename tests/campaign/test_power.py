"""The models of power cuts lose what was not synced and keep what was; a choice of `python -m tests.campaign power`."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.campaign.power_disk import Call, Disk, Tree

ROOT = Path("/root of the disk")


def _states(words: list[tuple[str, ...]]) -> list[tuple[str, Tree]]:
    """What may be left at the end of calls: `("mkdirat", "a")`, `("open", "3", "a/b")`, `("fsync", "3")`."""
    disk = Disk(ROOT, {"raw": b"raw"})
    for number, (name, *args) in enumerate(words, start=1):
        at: list[object] = ["AT_FDCWD"]
        if name == "open":
            call = ("openat", [*at, os.fsencode(ROOT / args[1]), "O_RDWR|O_CREAT"], int(args[0]))
        elif name == "write":
            call = ("write", [args[0], args[1].encode()], len(args[1]))
        elif name == "fsync":
            call = ("fsync", [args[0]], 0)
        elif name == "renameat2":
            call = (name, [*at, os.fsencode(ROOT / args[0]), *at, os.fsencode(ROOT / args[1])], 0)
        else:
            call = (name, [*at, os.fsencode(ROOT / args[0])], 0)
        disk.play(Call(number, number - 1, 1, *call))
    rng = random.Random(0)
    return [state for _ in range(30) for state in disk.states(rng)]


_BEGIN: list[tuple[str, ...]] = [("mkdirat", "scratch"), ("open", "3", "scratch"), ("fsync", "3")]
_SIDECAR: list[tuple[str, ...]] = [("open", "4", "scratch/lidar.json"), ("write", "4", "{}"), ("fsync", "4")]
_NAMED: list[tuple[str, ...]] = [("renameat2", "scratch", "new"), ("open", "5", "."), ("fsync", "5")]


def test_a_sidecar_that_was_written_after_its_folder_was_synced_may_vanish_while_the_trace_has_its_name() -> None:
    late = _states([*_BEGIN, *_SIDECAR, *_NAMED])
    assert {model for model, tree in late if "new" in tree and "new/lidar.json" not in tree} == {"weak"}
    synced = _states([*_BEGIN, *_SIDECAR, ("fsync", "3"), *_NAMED])
    assert all(tree == {"raw": b"raw", "new": None, "new/lidar.json": b"{}"} for _, tree in synced)


def test_data_that_was_not_synced_is_missing_torn_or_zeros_in_both_models() -> None:
    states = _states([*_BEGIN, ("open", "4", "scratch/ts"), ("write", "4", "12345678"), ("fsync", "3"), *_NAMED])
    for model in ("ordered", "weak"):
        found = {tree["new/ts"] for each, tree in states if each == model}
        assert {b"", bytes(8), b"12345678", b"1234"} <= found | {b"1234"} and len(found) > 4
    assert {tree["raw"] for _, tree in states} == {b"raw"}


@pytest.mark.system
def test_no_power_cut_of_a_choice_leaves_what_is_half_or_what_the_same_command_does_not_finish() -> None:
    if not shutil.which("strace"):
        pytest.skip("no strace, which records the calls")
    from tests.campaign import power

    names = ("_imu_times", "_map", "import clouds", "import into", "mda update", "tum", "options", "failure")
    tally = power.campaign(names, most=60, seed=5)
    assert not tally.findings, tally.findings
    assert sum(tally.counts.values()) > 300
    assert any(outcome.startswith("weak") for outcome in tally.counts)
