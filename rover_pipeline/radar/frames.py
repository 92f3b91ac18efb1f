"""The frames of a call of a radar step and their spectra, computed once for all steps of a pass that need the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from rover_pipeline.engine.shared import Shared
from rover_pipeline.radar.coupling import Coupling
from rover_pipeline.radar.health import Excise, clipped_share, excise
from rover_pipeline.radar.options import RangeDopplerOptions
from rover_pipeline.radar.spectrum import RangeDoppler, samples_of


class Frames:
    """Frames of one call.

    Args:
        iq: i2, (frame, chirp, tx, rx, word); one frame where `shared` is given.
        options: say how interference is replaced, and what the range-Doppler transform is.
        real: whether samples are real.
        coupling: that is subtracted; None = nothing.
        shared: of the pass; None = the step is made alone.
    """

    def __init__(
        self,
        iq: np.ndarray,
        options: RangeDopplerOptions,
        real: bool,
        coupling: Coupling | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.iq, self.real, self.order = iq, real, options.sample_order
        self._how: Excise = options.interference
        self.transform = make_transform(iq.shape[1:], options, real, coupling)
        self._shared = shared
        if shared is not None and len(iq) != 1:
            raise ValueError(f"{len(iq)} frames where steps share what they compute from one")

    def __len__(self) -> int:
        return len(self.iq)

    def cleaned(self, i: int) -> np.ndarray:
        """A frame, i2 (chirp, tx, rx, word), without interference where that is to be replaced."""
        if self._how == "keep":
            frame: np.ndarray = self.iq[i]
            return frame
        return self._once("cleaned", self._how, make=partial(excise, self.iq[i], self._how, self.real, self.order))

    def excised_share(self, i: int) -> float:
        """Share of the samples of a frame that were replaced."""
        return 0.0 if self._how == "keep" else float(np.mean(self.cleaned(i) != self.iq[i]))

    def samples(self, i: int) -> np.ndarray:
        """Samples of a frame as it was recorded, c8 (chirp, tx, rx, sample), or f4 where they are real."""
        return self._once("samples", make=partial(samples_of, self.iq[i], self.real, self.order))

    def clipped(self) -> np.ndarray:
        """Share of the stored values of each frame that are at the rails, f4 (frame,)."""
        return self._once("clipped", make=partial(clipped_share, self.iq))

    def spectrum(self, i: int) -> np.ndarray:
        """See `RangeDoppler.spectrum`."""
        return self.transform.spectrum(self.cleaned(i)) if self._shared is None else self.spectrum_and_power(i)[0]

    def power(self, i: int) -> np.ndarray:
        """See `RangeDoppler.power`."""
        return self.transform.power(self.cleaned(i)) if self._shared is None else self.spectrum_and_power(i)[1]

    def spectrum_and_power(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """See `RangeDoppler.spectrum_and_power`."""
        # A spectrum lies in a buffer of its transform, so the transform of a frame that was cleaned in another way
        # takes the place of the one before.
        last: dict[Excise, tuple[np.ndarray, np.ndarray]]
        last = {} if self._shared is None else self._shared.once(self.transform, dict)
        if self._how not in last:
            last.clear()
            last[self._how] = self.transform.spectrum_and_power(self.cleaned(i))
        return last[self._how]

    def _once(self, *key: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """What `make` returns for the samples in their order, computed by the first step of the pass that asks."""
        return make() if self._shared is None else self._shared.once((*key, self.real, self.order), make)


def make_transform(
    shape: tuple[int, ...], options: RangeDopplerOptions, real: bool, coupling: Coupling | None = None
) -> RangeDoppler:
    """The range-Doppler transform of a step: the same object for all steps whose transform is the same."""
    return _transform(
        shape,
        (options.range_window, options.doppler_window),
        real,
        options.sample_order,
        (getattr(options, "doppler_bins", 0), getattr(options, "range_bins", 0)),
        getattr(options, "remove_static", False),
        coupling,
    )


@lru_cache(maxsize=8)
def _transform(
    shape: tuple[int, ...],
    windows: tuple[str, str],
    real: bool,
    order: str,
    bins: tuple[int, int],
    remove_static: bool,
    coupling: Coupling | None,
) -> RangeDoppler:
    samples = shape[-1] // (1 if real else 2)
    signal = None if coupling is None else coupling.signal(samples, real)
    return RangeDoppler(shape, *windows, real, order=order, bins=bins, remove_static=remove_static, coupling=signal)
