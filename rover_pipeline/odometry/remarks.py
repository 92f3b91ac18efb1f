"""What the user should know about a trajectory: its seams, and where it is not to be trusted and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.errors import counted
from rover_pipeline.odometry.registration.batch import ELEVATION_DEGREES
from rover_pipeline.odometry.segments import Seam

#: What the user reads where a rule refuses poses at some sweeps.
_DOUBTS = {
    "accelerometer": "the accelerometer contradicts the trajectory, at {} in all; the world there leaves a "
    "direction open, or moves along",
    "companions": "floors and walls leave a direction open at {}, and only small bodies show the motion along "
    "it, which may move themselves; declare in `rig.own` what belongs to the rig",
    "random_matches": "{} would fit as well elsewhere, as lost sweeps do, after a fast turn for example",
    "aliased": "{} would agree at another speed, too: what stands along the way is equal and as far apart as the rig "
    "drives in a sweep; a radar would show the speed",
    "two_worlds": "surfaces move against each other at {}, as a deck and the quay that it passes do; the "
    "trajectory may be a mixture of both motions; declare in `rig.own` what belongs to the rig",
    "one_side": "all that shows the motion is on one side of it at {}, which may be a train that passes a rig "
    "that stands; a radar would show it",
    "traffic": "the rig seems to glide without a turn, at {}, which nothing that carries a rig does; what "
    "is around it may have set off instead; a radar would show it",
}
#: What the user reads where `SplineSystem.is_too_deep`.
TOO_DEEP = (
    "surfaces seem to be deeper along the rays than leaves can be: most of what is seen moves, or the trajectory is "
    "lost; no pose is trusted"
)


def jump_warnings(ts: np.ndarray, after: np.ndarray) -> list[str]:
    """A line for each jump of the clock.

    Args:
        ts: f8 (frame,), s; after: i8 (jump,), numbers of the frames before which it jumps.
    """
    return [
        f"frame {frame}: lidar/ts jumps by {ts[frame] - ts[frame - 1]:.0f} s; whether the rig moved meanwhile is not "
        "known, so only the poses of the longest part are trusted; split the recording there to have them all"
        for frame in after
    ]


def doubt_warnings(refused: Mapping[str, np.ndarray]) -> list[str]:
    """A line for each rule of `_DOUBTS` that refuses poses; refused: bool (frame,) by rule."""
    some = {rule: refused[rule] for rule in _DOUBTS if rule in refused and refused[rule].any()}
    texts = {rule: text.format(counted(some[rule].sum(), "sweep")) for rule, text in _DOUBTS.items() if rule in some}
    return [f"frame {np.argmax(some[rule])}: {text}" for rule, text in texts.items()]


def beam_warnings(elevation: float, deviation: float) -> list[str]:
    """A line where beams seem to point elsewhere than data sheets allow, degrees, beyond three deviations."""
    if not abs(elevation) > max(ELEVATION_DEGREES, 3 * deviation):
        return []
    higher = f"{abs(elevation):.2f} +- {deviation:.2f} degrees {'higher' if elevation > 0 else 'lower'}"
    return [f"all beams seem to point {higher} than lidar.json says; the trajectory allows for it, other steps do not"]


def seam_summary(seam: Seam) -> dict[str, Any]:
    """A seam as it is written to the provenance."""
    # A seam at a gap shares no frame.
    values = {name: getattr(seam, name) for name in ("metres", "degrees")}
    return seam._asdict() | {
        name: float(f"{value:.3g}") if np.isfinite(value) else None for name, value in values.items()
    }


def warnings_of(seams: list[Seam], valid: np.ndarray, raw: np.ndarray, refused: dict[str, int]) -> list[str]:
    """What the user is warned of.

    Args:
        valid, raw: bool and u1 (frame,), whether the poses and the raw sweeps are valid.
        refused: number of poses that each rule refuses.
    """
    warnings = [
        f"frame {seam.frame}: the parts that meet here have seen nothing in common that shows how they lie to one "
        "another; only those on one side are trusted"
        for seam in seams
        if not seam.connected
    ]
    if lost := int((~valid & (raw != 0)).sum()):
        rules = ", ".join(f"{rule} {count}" for rule, count in sorted(refused.items(), key=lambda each: -each[1]))
        why = (
            f"refused: {rules}; docs/how-to/odometry.md says what each rule is about"
            if rules
            else "they are not in one world with the others"
        )
        warnings.append(f"{lost} of {counted(len(valid), 'sweep is', 'sweeps are')} not to be trusted ({why})")
    return warnings
