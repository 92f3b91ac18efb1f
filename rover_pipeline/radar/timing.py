"""When a frame of the radar was measured: `radar/ts` is the arrival of its first packet, spectra are of its middle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.constants import speed_of_light

from rover_pipeline.radar.axes import chirp_settings, frame_shape, resolutions
from rover_pipeline.radar.boards import AUTOMOTIVE_GHZ, INDUSTRIAL_GHZ
from rover_pipeline.radar.tuning import TUNING

#: Boards whose names hold one of these work at 60 to 64 GHz. All others are taken for automotive radars, 76 to 81 GHz:
#: the middle of the band is wrong by 3 % at most.
_INDUSTRIAL = ("6843", "6844", "6432")


class FrameDuration(NamedTuple):
    """How long the chirps of a frame last."""

    seconds: float  #: from the start of the first chirp to the end of the last one; 0 where it is not known.
    #: what it follows from: the timing of chirps in `config.yaml`, or the Doppler resolution in `radar.json`.
    source: Literal["config.yaml", "radar.json", "unknown"]
    warnings: tuple[str, ...] = ()  #: what the user should know; empty when the duration is known.

    @property
    def middle(self) -> float:
        """Seconds from the arrival of a frame's first packet to the middle of its chirps."""
        return self.seconds / 2

    def describe(self) -> dict[str, Any]:
        """For provenance."""
        return {"radar_instant_after_ts_s": round(self.middle, 6), "radar_frame_duration_from": self.source}


def frame_duration(ts: np.ndarray, config: str | None, sidecar: str | None, meta: str | None) -> FrameDuration:
    """How long the chirps of a frame last.

    `config.yaml` gives the time from chirp to chirp. If it does not, `radar.json` gives the Doppler resolution, which
    is half a wavelength by the duration; the wavelength is that of the board's band. A duration that is longer than the
    time between frames cannot be right and is not used.

    Args:
        ts: f8 (frame,), recorded times of all frames, s.
        config: `config.yaml`; sidecar: `radar.json`; meta: the radar's `meta.json`, for the shape of frames.
    """
    period = float(ts[-1] - ts[0]) / (len(ts) - 1) if len(ts) > 1 else math.inf
    chirps = chirp_settings(config)
    for found in (
        FrameDuration(_of_chirps(chirps, frame_shape(sidecar, meta)) or 0.0, "config.yaml"),
        FrameDuration(_of_doppler(chirps, sidecar) or 0.0, "radar.json"),
    ):
        if 0 < found.seconds <= TUNING.max_duration * period:
            return found
    warning = (
        "neither radar.args.radar of config.yaml (idle_time, ramp_end_time, frame_length) nor radar.json "
        "(doppler_resolution) says how long the chirps of a frame last: taken at ts, when its first packet came, and "
        "not at their middle"
    )
    return FrameDuration(0.0, "unknown", (warning,))


def _of_chirps(chirps: Mapping[str, Any], shape: tuple[int, ...] | None) -> float | None:
    """Seconds of a frame in which every transmitter sends `frame_length` chirps."""
    idle, ramp, count = (_number(chirps.get(key)) for key in ("idle_time", "ramp_end_time", "frame_length"))
    if idle is None or ramp is None or count is None or shape is None:
        return None
    return count * shape[1] * (idle + ramp) * 1e-6


def _of_doppler(chirps: Mapping[str, Any], sidecar: str | None) -> float | None:
    """Seconds in which one wavelength of propagation path more is one Doppler bin."""
    bins, frequency, device = resolutions(sidecar), _number(chirps.get("frequency")), str(chirps.get("device", ""))
    if bins is None:
        return None
    industrial = any(name in device for name in _INDUSTRIAL)
    carrier = frequency or (INDUSTRIAL_GHZ if industrial else AUTOMOTIVE_GHZ)
    return speed_of_light / (carrier * 1e9) / (2 * bins[1])


def _number(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 1e12 else None
