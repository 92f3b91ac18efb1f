"""Sensors that were moved between two recordings of a page of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate, moved, prior_covariance
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.report.fleet import Row
from rover_pipeline.report.summary import MountSummary, finding


def compare_mounts(rows: Sequence[Row]) -> list[Row]:
    """The rows, with a finding where a recording shows another mount of a sensor than the one that was made before."""
    before: dict[str, tuple[str, MountEstimate]] = {}
    found, tests = [], sum(len(row.summary.mounts) for row in rows if row.summary)
    for row in sorted(rows, key=lambda row: (row.summary.start_s or 0.0) if row.summary else 0.0):
        summary = row.summary
        for each in summary.mounts if summary else ():
            estimate = _estimate(each)
            name, other = before.get(each.sensor, (row.name, estimate))
            before[each.sensor] = row.name, estimate
            if summary and (off := moved(other, estimate)).probability * tests < FALSE_ALARM:
                text = f"has another mount than in {name}: {off}"
                advice = "It was moved between them, or its options are others: calibrate these recordings apart."
                new = finding("warning", each.sensor, text, advice)
                good = {"verdict": "fair", "headline": f"{each.sensor} {text}."} if summary.verdict == "good" else {}
                summary = summary.model_copy(update={"findings": (*summary.findings, new), **good})
        found.append(replace(row, summary=summary))
    return found


def _estimate(shown: MountSummary) -> MountEstimate:
    covariance, shared = np.array(shown.covariance), np.array(shown.shared)
    mount = Mount(np.array(shown.translation), np.array(shown.rotation), "config", shown.time_offset)
    return MountEstimate(mount, covariance, prior_covariance(mount), shared=shared)
