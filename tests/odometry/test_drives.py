"""The odometry of real drives is no worse than what `benchmarks/results.json` says, nor wrong and sure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.drives import DRIVES, LARGER_IS_BETTER, NEITHER_IS_BETTER, Poses, Truth, figures, load, ours, truth_of

#: A figure of ours may be worse by a tenth, and by what rounding to three digits takes.
TENTH = 1.1


def worse(found: dict[str, float], stored: dict[str, float]) -> list[str]:
    """The figures that are worse than the stored ones by more than a tenth."""
    said = []
    for name in stored.keys() - set(NEITHER_IS_BETTER):
        new, old = found[name], stored[name]
        if name.startswith("NEES"):
            # One is right; a smaller figure is not better, and a larger one is not right.
            new, old = max(new, 1.0), max(old, 1.0)
        off = old / new if name in LARGER_IS_BETTER and new else new / old if old else np.inf if new else 0.0
        if off > TENTH + 0.005:
            said.append(f"{name}: {new:.3g}, stored {old:.3g}")
    if {"length", "length of INS"} <= stored.keys():
        new, old = (abs(each["length"] / each["length of INS"] - 1) for each in (found, stored))
        # An INS that is good to 0.05 m/s knows lengths to about 0.3 %.
        if new > TENTH * max(old, 0.003):
            said.append(f"length: off by {new:.2%}, stored {old:.2%}")
    return said


@pytest.mark.system
@pytest.mark.parametrize("name", DRIVES)
def test_no_figure_of_a_real_drive_is_a_tenth_worse_than_the_stored_one(
    name: str, captures: Path, tmp_path: Path
) -> None:
    key = f"drives/{name}, ours/"
    stored = {each.removeprefix(key): float(row.value) for each, row in load().items() if each.startswith(key)}
    assert len(stored) > 8, "measure with `python -m benchmarks.drives`"
    assert worse(ours(captures, name, "ours", tmp_path), stored) == []


def straight_drive() -> Truth:
    ts = np.arange(40) / 10
    pos = np.stack([8 * ts, np.zeros(40), np.zeros(40)], 1)
    return Truth(ts, pos, np.tile(np.eye(3), (40, 1, 1)), np.full(40, 8.0), 0.1, 0.05)


def test_sweeps_without_times_are_dated_by_the_records_of_the_ins_and_not_by_its_drift(tmp_path: Path) -> None:
    # A turn takes 103.33 ms, and the INS writes each 10 ms; its positions drift by 6 cm/s ahead of its speed of 8 m/s.
    records = np.round(np.arange(22) * 0.10333 / 0.01)
    poses = np.tile(np.eye(3, 4), (22, 1, 1))
    poses[:, 0, 3] = (8.0 + 0.06) * 0.01 * records
    oxts = np.zeros((22, 25))
    oxts[:, 6] = 8.0
    np.savetxt(tmp_path / "truth_poses.txt", poses.reshape(22, 12))
    np.savetxt(tmp_path / "truth_oxts_25col.txt", oxts)
    assert np.diff(truth_of(tmp_path).ts).mean() == pytest.approx(0.01 * records[-1] / 21, abs=1e-6)


def test_poses_that_are_the_truth_have_no_error_and_a_tenth_more_is_found() -> None:
    truth = straight_drive()
    cov, valid = np.tile(1e-4 * np.eye(6), (40, 1, 1)), np.ones(40, bool)
    right = figures(Poses(truth.pos, truth.rot, cov, valid), truth)
    assert right["ATE"] < 1e-9 and right["NEES"] < 1e-9 and right["speed"] < 1e-9 and right["wrong and sure"] == 0
    assert right["length"] == pytest.approx(right["length of INS"]) == pytest.approx(31.2)

    short = figures(Poses(0.95 * truth.pos, truth.rot, cov, valid), truth)
    assert short["per 10 m"] == pytest.approx(5) and short["speed"] == pytest.approx(40)
    assert short["wrong and sure"] == 100
    assert worse(short, short) == []
    longer = figures(Poses(0.94 * truth.pos, truth.rot, cov, valid), truth)
    assert {each.partition(":")[0] for each in worse(longer, short)} >= {"ATE", "per 10 m", "length", "NEES"}
    fewer = short | {"valid": 85.0}
    assert worse(fewer, short) == ["valid: 85, stored 100"]


def test_the_normalised_error_of_one_second_is_one_where_both_covariances_are_right() -> None:
    truth = straight_drive()
    turned = Rotation.from_euler("ZYX", np.stack([0.3 * truth.ts, 0.1 + 0 * truth.ts, -0.2 * truth.ts], 1))
    truth = truth._replace(rot=turned.as_matrix())
    rng, sigma, angle, nees = np.random.default_rng(0), 0.02, 0.002, []
    cov = np.tile(np.diag([sigma**2] * 3 + [angle**2] * 3), (40, 1, 1))
    for _ in range(30):
        pos = truth.pos + rng.normal(0, sigma, truth.pos.shape)
        rot = (turned * Rotation.from_rotvec(rng.normal(0, angle, (40, 3)))).as_matrix()
        nees.append(figures(Poses(pos, rot, cov, np.ones(40, bool)), truth)["NEES 1 s"])
    assert np.mean(nees) == pytest.approx(1, rel=0.05)
