"""Virtual sensors made from the radar."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import numpy as np

from rover_pipeline.radar.options import RangeDopplerOptions
from rover_pipeline.steps import step

if TYPE_CHECKING:
    from rover_pipeline.radar.spectrum import RangeDoppler


@step(
    inputs={"iq": "radar/iq"},
    files={"sidecar": "radar/radar.json"},
    outputs={
        "power": "Range-Doppler power, mean over virtual antennas, dB re 1 squared ADC count. [doppler, range]; "
        "Doppler bin n/2 is zero velocity, larger recede.",
    },
    version=1,
)
def range_doppler(iq: np.ndarray, *, options: RangeDopplerOptions, sidecar: str | None = None) -> np.ndarray:
    """Range-Doppler power of each frame.

    Args:
        iq: i2, (frame, chirp, tx, rx, word), the words of complex samples as `Q Q I I`.
        sidecar: `radar.json`; its `shape` tells real from complex samples. Complex without it.

    Returns:
        f4, (frame, doppler, range), dB re one squared ADC count.
    """
    from rover_pipeline.radar.spectrum import decibel

    transform = _transform(iq.shape[1:], options, _is_real(iq.shape[-1], sidecar))
    return np.stack([decibel(transform.power(frame)) for frame in iq])


@functools.lru_cache(maxsize=4)
def _transform(shape: tuple[int, ...], options: RangeDopplerOptions, real: bool) -> RangeDoppler:
    from rover_pipeline.radar.spectrum import (
        RangeDoppler,
    )  # pyFFTW takes 0.4 s to import, the Snakefile needs none of it

    return RangeDoppler(shape, options.range_window, options.doppler_window, real)


def _is_real(words: int, sidecar: str | None) -> bool:
    if sidecar is None:
        return False
    try:
        samples = int(json.loads(sidecar)["shape"][-1])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError("radar.json must be an object with a `shape` of [chirps, tx, rx, samples]") from error
    if words not in (samples, 2 * samples):
        raise ValueError(f"radar.json says {samples} samples a chirp, iq holds {words} words; neither real nor complex")
    return words == samples
