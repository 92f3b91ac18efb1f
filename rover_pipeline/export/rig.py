"""`rover-pipeline calibrate rig`: the mounts of all sensors of some recordings, as a file for the option `rig`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.special import chdtrc

from rover_pipeline import __version__
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError
from rover_pipeline.export.making import make_needed
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import locate_traces
from rover_pipeline.kinematics import mounts
from rover_pipeline.kinematics.mount import Mount, mount_entry
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.validation.mounts import Shown, shown_beside_imu, shown_mounts

#: Types of the sensors that have a mount, and what is made of each before. Layout.
_NEEDS = {
    "radar": ("_radar_velocity/vel", "_radar_pose/pos"),
    "imu": ("_imu_pose/pos",),
    "camera": ("_camera_pose/pos",),
}
#: How the file begins.
_OURS = "# Read by `rig: "
#: Largest difference of two mounts that were declared alike. Layout.
_ROUNDING = 1e-6


def calibrate_rig(entries: Sequence[str], out: Path, *, cores: int) -> Iterator[str]:
    """Estimate the mounts of the sensors of some recordings of one rig, and write the file `out`. Yields a line for
    each.

    Args:
        entries: traces, directories of traces, or glob patterns.
        cores: for what is missing or stale, which is made first, and for the estimates.

    Raises:
        RoverError: a recording lacks a lidar, and a radar beside an IMU, has another rig than the first one, or shows
            nothing of any sensor.
    """
    _require_place(out)
    traces = list(locate_traces(list(entries), Path.cwd(), None))
    alike: dict[tuple[str, ...], list[str]] = {}
    for trace in traces:
        lidar, types = "lidar" if Rig(trace).of("lidar") else "", [type for type in _NEEDS if Rig(trace).of(type)]
        if not lidar and not {"radar", "imu"} <= {*types}:
            raise FormatError(
                f"{trace}: has no lidar, and no radar beside an IMU: mounts are measured beside the motion of a lidar, "
                "and that of a radar beside an IMU; record them on the rig"
            )
        alike.setdefault((lidar, *(types if lidar else ["radar"])), []).append(str(trace))
    for (lidar, *types), theirs in alike.items():
        beside = ["_odom/pos", *(each for type in types for each in _NEEDS[type])]
        needs = beside if lidar else ["_radar_velocity/vel", "_radar_odom/pos"]
        make_needed(theirs, needs, types, cores=cores, lost="calibrate rig: nothing was calibrated")
    shown: dict[str, list[tuple[Path, Shown]]] = {}
    for trace in traces:
        for each in shown_mounts(trace, cores) if Rig(trace).of("lidar") else shown_beside_imu(trace):
            shown.setdefault(each.sensor, []).append((trace, each))
    if not shown:
        raise FormatError(
            f"{traces[0]}: has no radar, no camera and no IMU beside a lidar, of which a mount could be found"
        )
    adopted: dict[str, Mount] = {}
    sections: dict[str, Any] = {}
    for sensor, found in shown.items():
        declared, estimate = found[0][1].declared, _of_recordings(sensor, found)
        mount, sections[sensor] = _described(declared, estimate)
        if declared.known or estimate.adopted:  # nobody knows where another one is, and the file does not claim it
            adopted[sensor] = mount
        if device := found[0][1].device:
            sections[sensor]["device"] = device
        yield _line(sensor, declared, estimate)
        for text in (*estimate.remarks, *(estimate.proposals() if estimate.adopted else ())):
            print(f"rover-pipeline: {sensor}: {text}", file=sys.stderr)
    content = {
        "rig": {sensor: _as_config(mount) for sensor, mount in adopted.items()},
        "estimates": sections,
        "provenance": {
            "made_by": f"rover_pipeline {__version__}, calibrate rig",
            "recordings": [trace.name for trace in traces],
            "error": "true rotation = exp(r) rotation, true translation = translation + t, true time_offset = "
            "time_offset + s; r and t in the lidar's frame",
        },
    }
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)
    replace_file(out, f"{_OURS}{out.name}` of the configuration of rover_pipeline.\n{text}")


def _require_place(out: Path) -> None:
    """Raise InTheWayError where the file cannot go, before the work: what this command did not write stays."""
    if not out.parent.is_dir():
        raise InTheWayError(f"{out.parent}: no such folder; make it, or name another place by -o")
    if os.path.lexists(out) and (out.is_symlink() or not out.is_file() or not read_text(out).startswith(_OURS)):
        raise InTheWayError(f"{out}: stands there, and this command did not write it; move it away, or name another -o")


def _of_recordings(sensor: str, found: Sequence[tuple[Path, Shown]]) -> mounts.MountEstimate:
    """The estimate of all recordings."""
    (first, start), *others = found
    for trace, other in others:
        if np.abs(mounts.difference(start.declared, other.declared)).max() > _ROUNDING:
            raise ConfigError(f"{trace}: declares another mount of {sensor} than {first}; calibrate it alone")
    for (one, a), (two, b) in combinations(found, 2):
        if chdtrc(len(mounts.COMPONENTS), mounts.agree(a.estimate, b.estimate)) < FALSE_ALARM:
            text = f"{one.name} and {two.name} show different mounts: was it moved between them? Calibrate each alone"
            return mounts.unknown(start.declared, text)
    return mounts.combine(start.declared, [each.estimate for _, each in found])


def _described(declared: Mount, estimate: mounts.MountEstimate) -> tuple[Mount, dict[str, Any]]:
    """The mount for the configuration, and what is known of it.

    A declared mount that recordings do not contradict stays: an estimate differs from a right one by noise alone. The
    covariance is then that of the declared mount, as the recordings show it.
    """
    adopted = estimate.adopted and (not declared.known or mounts.compare(declared, estimate).is_wrong)
    off = mounts.difference(declared, estimate.mount) * (not adopted)
    covariance = estimate.covariance + np.outer(off, off)
    mount = estimate.mount if adopted else declared
    if estimate.observed.any():
        mount = mount._replace(covariance=covariance)
    rotation, translation, (late,) = np.split(np.sqrt(np.diag(covariance)), [3, 6])
    return mount, {
        "adopted": adopted,
        "rotation_sigma_deg": np.degrees(rotation).round(4).tolist(),
        "translation_sigma": translation.round(5).tolist(),
        "time_offset_sigma": round(float(late), 6),
        "observed": [name for name, seen in zip(mounts.COMPONENTS, estimate.observed, strict=True) if seen],
        "declared": _as_config(declared) if declared.known else None,
        "remarks": [*estimate.remarks, *estimate.proposals()],
    }


def _as_config(mount: Mount) -> Mapping[str, Any]:
    digits = {"translation": 5, "rotation": 7, "time_offset": 6}
    entry = {name: np.round(value, digits[name]).tolist() for name, value in mount_entry(mount).items()}
    if mount.covariance is None:
        return entry
    return entry | {"covariance": [[float(f"{value:.4g}") for value in row] for row in mount.covariance]}


def _line(sensor: str, declared: Mount, estimate: mounts.MountEstimate) -> str:
    """What people read: the mount less the declared one, where it is observed."""
    if not estimate.adopted:
        return f"{sensor}: {'stays as declared' if declared.known else 'nobody says where it is, nor is that shown'}"
    error, seen = mounts.difference(declared, estimate.mount), np.flatnonzero(estimate.observed).tolist()
    line = f"{sensor}: {mounts.described(error, estimate.sigma, seen)}"
    if not declared.known:
        return line
    is_wrong = mounts.compare(declared, estimate).is_wrong
    return f"{line}; {'contradicts what was declared' if is_wrong else 'agrees with what was declared, which stays'}"
