"""Steps for the two kinds of radar: one that records samples, and one that sends points with their Doppler velocity.

The declarations are written for samples. Those of recordings with points read the points instead, and say what they
cannot make. Light: the table of steps imports it.
"""

from __future__ import annotations

from dataclasses import replace

from rover_pipeline.engine.step import Has, Output, Step

#: Why a step cannot be made of points.
NO_SAMPLES = "has a radar of points and no samples (radar/iq)"
#: What the import of such a radar writes beside its channels.
POINTS_SIDECAR = "radar/points.json"


def has_points(has: Has) -> bool:
    """Whether a recording's radar is points."""
    return has("radar/xyz") and not has("radar/iq")


def only_of_samples(step: Step, has: Has) -> Step:
    """A step that reads the samples."""
    return replace(step, unfit=NO_SAMPLES) if has_points(has) else step


def from_points(step: Step, has: Has) -> Step:
    """`_radar_points` of a radar that is points: the same ones, strongest first."""
    if not has_points(has):
        return step
    strength = next((each for each in ("snr", "intensity") if has(f"radar/{each}")), None)
    described = "Signal over noise, dB" if strength == "snr" else "Strength in the unit of the radar"
    return replace(
        step,
        function="rover_pipeline.radar.steps:sent_points",
        inputs={
            **{name: f"radar/{name}" for name in ("xyz", "doppler", "count")},
            **({"strength": f"radar/{strength}"} if strength else {}),
            "whole": "radar/valid",
        },
        files={},
        outputs={**step.outputs, "snr": Output(f"{described}. [point], falling.", type="f4", unit="")},
        variant=None,
        prepare=None,
        inspect=None,
        shares="",
    )


def with_points_sidecar(step: Step, has: Has) -> Step:
    """A step that needs to know how large Doppler bins are."""
    return replace(step, files={"sidecar": POINTS_SIDECAR}) if has_points(has) else step
