"""What `radar.json` says of the samples."""

from __future__ import annotations

from rover_pipeline.format.texts import parse_json


def is_real(words: int, sidecar: str | None) -> bool:
    """Whether samples are real instead of complex; complex if there is no sidecar.

    Args:
        words: of a chirp; sidecar: `radar.json`.

    Raises:
        ValueError: it does not say, or something else than the words do.
    """
    if sidecar is None:
        return False
    try:
        samples = int(parse_json(sidecar, "radar.json")["shape"][-1])
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise ValueError("radar.json must be an object with a `shape` of [chirps, tx, rx, samples]") from error
    if words not in (samples, 2 * samples):
        raise ValueError(f"radar.json says {samples} samples a chirp, iq holds {words} words; neither real nor complex")
    return words == samples
