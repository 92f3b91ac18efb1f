"""The frequency that phases of a recording refer to."""

from __future__ import annotations

from typing import Any

from rover_pipeline.format.collection import parse_collection


def centre_frequency(config: str | None, samples: int | None = None) -> float | None:
    """Frequency in the middle of the sampled part of a chirp, Hz; None if `config.yaml` does not tell.

    The chirp starts at `frequency`, and the ADC samples its part from `adc_start_time` on. That middle can be 3 % above
    the start, and so are phases, velocities and the distance of the antennas in wavelengths.

    Args:
        config: text of `config.yaml`.
        samples: of a chirp; None = as `config.yaml` says.
    """
    try:
        chirp: Any = parse_collection(config)["radar"]["args"]["radar"]
        count = samples or float(chirp["adc_samples"])
        microseconds = float(chirp.get("adc_start_time") or 0) + count / float(chirp["sample_rate"]) * 1e3 / 2
        hertz = float(chirp["frequency"]) * 1e9 + float(chirp["freq_slope"]) * 1e6 * microseconds
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    return hertz if 1e9 < hertz < 1e12 else None
