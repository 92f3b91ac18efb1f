"""Errors of a real spinning lidar that its data sheet and its returns show: noise, bias, mixed pixels, weak returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Reflectivity at which the range has no bias, and the reflectivities between which the bias changes. Layout.
_UNBIASED, _DARKEST, _BRIGHTEST = 0.3, 0.01, 3.0
#: Metres within which close surfaces add to the bias. Layout.
_CLOSE = 2.0
#: Above this reflectivity times cosine, a surface is as easy to detect as on the data sheet. Layout.
_STRONG = 0.5
#: Sides of an edge that differ by less than a pulse is long give one return between them; metres. Layout.
_PULSE_M = 1.5


class LidarErrors(NamedTuple):
    """Errors of one lidar.

    Attributes:
        rough: whether weak returns are noisier than strong ones.
        noise, growth: standard deviation of the range at no distance, m, and what a metre adds to it.
        bias: metres, as in `range_bias`.
        beam_bias: f4 (beam, 1), constant range errors of the beams, m.
        mixed: share of the returns at edges that lie between both sides.
        weak: exponent by which weak returns are harder to detect.
    """

    rough: bool = False
    noise: float = 0.003
    growth: float = 0.00012
    bias: float = 0.0
    beam_bias: np.ndarray | float = 0.0
    mixed: float = 0.0
    weak: float = 0.0


def range_bias(distance: np.ndarray, reflectivity: np.ndarray, errors: LidarErrors) -> np.ndarray:
    """What is added to ranges, f4 metres.

    A receiver that triggers on the flank of a pulse triggers late on a weak one ("range walk", as in Boehler, Bordas
    Vicent and Marbs, Investigating laser scanner accuracy, CIPA 2003).
    """
    walk = -np.log10(np.clip(reflectivity, _DARKEST, _BRIGHTEST) / _UNBIASED)
    return (errors.bias * (walk + np.exp(-distance / _CLOSE)) + errors.beam_bias).astype("f4")


def weakness(reflectivity: np.ndarray, errors: LidarErrors) -> np.ndarray:
    """What is taken from the logarithm of the received power, at least 0, by reflectivity times cosine of incidence."""
    return -errors.weak * np.log(np.clip(reflectivity, 1e-4, _STRONG) / _STRONG)


def weak_return_noise(margin: np.ndarray) -> np.ndarray:
    """Factor on the noise of the range by the logarithm of received over detectable power: 2 at the limit."""
    return 1 + np.exp(-np.clip(margin, -1.0, 20.0))


def mixed(distance: np.ndarray, hit: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Distances with those at edges pulled towards their neighbours, as a beam that is wider than a column sees them.

    Args:
        distance: f4 (beam, column), metres.
        hit: bool, which of them are there.
        share: of the returns beside an edge that become mixed.
    """
    result = distance.copy()
    for shift in (1, -1):
        beside = np.roll(distance, shift, axis=1)
        step = beside - distance
        edge = hit & np.roll(hit, shift, axis=1) & (np.abs(step) < _PULSE_M)
        # The beam's footprint lies on both sides by any share; that of its own middle is the larger one.
        weight = rng.uniform(0.0, 0.5, distance.shape).astype("f4")
        chosen = edge & (rng.random(distance.shape, "f4") < share)
        result += np.where(chosen, weight * np.where(chosen, step, 0.0), 0.0).astype("f4")
    return result
