"""Which motion makes the measurements of a body most likely: how wildly it moves, and how well it is seen.

Nobody needs to know beforehand how a body moves. Two models are tried, each with some noises (module `models`). A body
with a flat side, whose heading is measured, drives where it heads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rover_pipeline.objects.measurements import HEADING, POSITION, Measurements, Smoothed
from rover_pipeline.objects.models import Model, Straight, Turning
from rover_pipeline.objects.smoothing import Solution, solve

#: Power spectral densities of the acceleration, m2/s3, and scales of the variance of positions.
_NOISES, _SCALES = (0.05, 0.3, 2.0, 12.0), (0.3, 1.5, 7.5)
#: Power spectral densities of the acceleration along the way, m2/s3, and of the change of the turn rate, rad2/s3.
_AHEAD, _TURNS = (0.1, 1.0, 10.0), (0.01, 0.1, 1.0)
#: Median speed from which a body is taken for one that may drive, m/s.
_DRIVES = 1.0
#: Minimum number of measured headings of a body that drives, and share of its positions.
_LEAST_HEADINGS, _LEAST_SHARE = 4, 0.15


def most_likely(
    measured: Measurements, wanted: np.ndarray, before: Smoothed | None = None, climb: bool = True
) -> Smoothed:
    """The most likely motion through measurements, at the wanted times.

    Args:
        measured: at least one of them a position.
        wanted: f8 (M,), s, ascending.
        before: a motion at these times that is nearly right, if one is known.
        climb: whether other parameters of the model are tried than those of that motion.
    """
    turned, place = measured.kind == HEADING, measured.kind == POSITION
    if before is not None and turned.sum() >= max(_LEAST_HEADINGS, _LEAST_SHARE * place.sum()) and _drives(before):
        start = _start(before, Measurements(*(array[turned] for array in measured)), wanted)
        choices: tuple[tuple[float, ...], ...] = (_SCALES, _AHEAD, _TURNS)

        def model(scale: float, *noises: float) -> Solution:
            return _solved(Turning(*noises), measured, scale, wanted, start)
    else:
        plain = Measurements(*(array[~turned] for array in measured))
        begin = _interpolated(measured, wanted) if before is None else before.state
        choices = (_SCALES, _NOISES)

        def model(scale: float, *noises: float) -> Solution:
            return _solved(Straight(*noises), plain, scale, wanted, begin)

    place_before = () if before is None else before.choice
    choice = place_before if len(place_before) == len(choices) else tuple(len(values) // 2 for values in choices)
    if climb:
        best, choice = _climb(model, choices, choice)
    else:
        best = model(*(values[index] for values, index in zip(choices, choice, strict=True)))
    return best.smoothed()._replace(choice=choice)


def _drives(motion: Smoothed) -> bool:
    return bool(np.median(np.hypot(motion.state[:, 2], motion.state[:, 3])) >= _DRIVES)


def _interpolated(measured: Measurements, wanted: np.ndarray) -> np.ndarray:
    """States between the measured positions, f8 (M, 4), with no velocity."""
    place, result = measured.kind == POSITION, np.zeros((len(wanted), 4))
    for axis in range(2):
        result[:, axis] = np.interp(wanted, measured.time[place], measured.value[place, axis])
    return result


def _solved(model: Model, measured: Measurements, scale: float, wanted: np.ndarray, begin: np.ndarray) -> Solution:
    """The solution with the variances of the positions times a scale."""
    variance = np.where((measured.kind == POSITION)[:, None], scale, 1.0) * measured.variance
    return solve(model, measured._replace(variance=variance), wanted, begin)


def _start(motion: Smoothed, headings: Measurements, wanted: np.ndarray) -> np.ndarray:
    """A first guess for the model of a body that turns, f8 (M, 5): its way, with the headings that were measured."""
    yaw = np.interp(wanted, headings.time, np.unwrap(headings.value[:, 0]))
    speed = np.einsum("ni,ni->n", motion.state[:, 2:], np.column_stack([np.cos(yaw), np.sin(yaw)]))
    return np.column_stack([motion.state[:, :2], yaw, speed, np.zeros(len(yaw))])


def _climb(
    model: Callable[..., Solution], choices: tuple[tuple[float, ...], ...], place: tuple[int, ...]
) -> tuple[Solution, tuple[int, ...]]:
    """The most likely motion of a model, found by climbing from some of the choices of its parameters, and its own."""
    known: dict[tuple[int, ...], Solution] = {}

    def at(place: tuple[int, ...]) -> Solution:
        if place not in known:
            known[place] = model(*(values[index] for values, index in zip(choices, place, strict=True)))
        return known[place]

    while True:
        steps = [
            (*place[:axis], place[axis] + way, *place[axis + 1 :])
            for axis in range(len(choices))
            for way in (-1, 1)
            if 0 <= place[axis] + way < len(choices[axis])
        ]
        best = max(steps, key=lambda each: at(each).likelihood)
        if at(best).likelihood <= at(place).likelihood:
            return at(place), place
        place = best
