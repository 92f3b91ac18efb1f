"""The frames of a call of a radar step and their spectra, computed once for all steps of a pass that need the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from rover_pipeline.engine.shared import Shared
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.radar.health import Excise, clipped_share, excise, power_of_point
from rover_pipeline.radar.options import RangeDopplerOptions
from rover_pipeline.radar.spectrum import MAIN_LOBE_BINS, Coupling, RangeDoppler, samples_of, tones_of, window_weights
from rover_pipeline.radar.tuning import TUNING

# Coupling of the antennas: what goes from transmitter to receiver without leaving the board.
#
# It is the same in every chirp of a recording, and its beat frequency is near zero: leads, package and radome are
# within 0.15 m. Static objects beyond are not touched, moving rig or parked. What stands still that close is taken for
# coupling. It is described by tones at given beat frequencies, and subtracted from the samples, so that nothing else
# changes: neither what moves at the same range nor the wrapped end of the range axis.


def find_coupling(frames: np.ndarray, order: str, real: bool, bin_m: float | None) -> Coupling | None:
    """The coupling in some frames of a recording; None if it is not seen.

    It is seen where the mean of all chirps has a maximum near zero range that does not change between the frames.

    Args:
        frames: i2, (frame, chirp, tx, rx, word).
        order: of words, "qqii" or "iiqq"; real: whether samples are real.
        bin_m: size of a range bin, m; None if it is not known.
    """
    if not len(frames):
        return None
    # One frame at a time: a frame of floats is eight times as large as its words.
    means = np.stack([samples_of(frame, real, order).mean(axis=0) for frame in frames])
    mean = means.mean(axis=0)
    samples = mean.shape[-1]
    reach = TUNING.coupling_reach_m / bin_m if bin_m else MAIN_LOBE_BINS + 1
    top = int(np.ceil(reach + TUNING.coupling_step))
    if samples < 8 * (top + MAIN_LOBE_BINS + 1):
        return None  # bins are so large that all the range is near zero
    weights = window_weights(samples, "hann")
    profile = (np.abs(np.fft.fft(mean * weights, axis=-1)) ** 2).mean(axis=(0, 1))
    near = profile[: top + MAIN_LOBE_BINS + 1]
    peak = int(near.argmax())
    # The skirt of a target farther away falls towards zero, so its largest value is at the end of what is looked at.
    # Coupling that would be no point harms nothing.
    if peak > top or near[peak] < power_of_point() * np.median(profile[: samples // 2 if real else samples]):
        return None
    bins, fit = _fit(samples, reach, real)
    each = matmul(means * weights, fit.T)
    tones = each.mean(axis=0)
    # What moves by is no coupling: of that, more changes than stays. Means of few frames hold more of it.
    stays, whole = (np.abs(tones) ** 2).sum(), (np.abs(each) ** 2).sum(axis=(1, 2, 3)).mean()
    if stays < whole - stays or (len(frames) > 1 and stays < 2 / len(frames) * whole):
        return None
    return Coupling(bins, tuple(tones.ravel().tolist()), (tones.shape[0], tones.shape[1]), top)


def near_zero(coupling: Coupling, samples: int, real: bool) -> np.ndarray:
    """Range bins in which static cells may hold what is left of the coupling, bool (range,); samples: of a chirp."""
    bins = np.arange(samples // 2 if real else samples)
    mask: np.ndarray = bins <= coupling.reach + MAIN_LOBE_BINS
    # The range axis of complex samples wraps: below zero is its end.
    return mask if real else mask | (bins > samples - (2 * MAIN_LOBE_BINS + 1))


@lru_cache(maxsize=8)
def _fit(samples: int, reach: float, real: bool) -> tuple[tuple[float, ...], np.ndarray]:
    """Beat frequencies of the tones, bins, and the ridge regression from windowed samples, c16 (tone, sample)."""
    # A real signal is tones and their conjugates.
    top = round((reach + TUNING.coupling_step) / TUNING.coupling_step)
    bottom = top if real else round((MAIN_LOBE_BINS + 1) / TUNING.coupling_step)
    bins = tuple(TUNING.coupling_step * float(each) for each in range(-bottom, top + 1))
    waves = tones_of(bins, samples) * window_weights(samples, "hann")[:, None]
    normal = matmul(waves.conj().T, waves)
    ridge = TUNING.coupling_ridge * np.trace(normal).real / len(bins)
    return bins, solve(normal + ridge * np.eye(len(bins)), waves.conj().T)


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
            return self.iq[i]
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
        """The first result of `spectrum_and_power`."""
        return self.spectrum_and_power(i)[0]

    def power(self, i: int) -> np.ndarray:
        """The second result of `spectrum_and_power`."""
        return self.spectrum_and_power(i)[1]

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
    values = vars(options)  # an attribute that is not there takes long to be missed by Pydantic
    return _transform(
        shape,
        options.range_window,
        options.doppler_window,
        real,
        order=options.sample_order,
        bins=(values.get("doppler_bins", 0), values.get("range_bins", 0)),
        remove_static=values.get("remove_static", False),
        coupling=coupling,
    )


_transform = lru_cache(maxsize=8)(RangeDoppler)
