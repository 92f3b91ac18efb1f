"""Lines below the arrivals of a clock: one from restart to restart, and how far from the truth they can be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rover_pipeline.clocks.error_bounds import FEWEST, STEP, Candidate, Line, judged
from rover_pipeline.clocks.lower_envelope import envelope
from rover_pipeline.clocks.options import ClockModel
from rover_pipeline.clocks.phase_posterior import Phases, estimate_phases
from rover_pipeline.clocks.sampling_rate import last_of_bursts, typical_period
from rover_pipeline.clocks.sequence_numbers import EARLY, number_samples
from rover_pipeline.numerics.blocks import blocks

#: Bins of a phase in the largest error.
_RESOLUTION = 8
#: Fraction of the largest error by which a phase may be uncertain.
_CERTAIN = 0.75
#: How often phases are estimated, with the period that lines have shown.
_ROUNDS = 2
#: A host that is busy delays all samples for so long at most, seconds.
_BUSY_S = 30.0
#: Largest difference of the rates of two clocks, or of one at two times.
DRIFT = 1e-4
#: Blocks are made this many times shorter, and bends larger, where the line does not follow the arrivals.
_FINER = (1, 2, 4, 8)
#: Share of the arrivals that the line must follow for it not to be made finer.
_GOOD = 0.98


@dataclass(frozen=True)
class LineFit:
    """Fits lines to arrivals; the arguments are those of `smooth_times`."""

    model: ClockModel
    block: float
    bend_ppm: float
    max_error: float

    def lines(self, ts: np.ndarray) -> list[Line]:
        """The lines below arrivals of one rate, f8 (N,) seconds, one from restart to restart; N > 0."""
        count = len(ts)
        if count < FEWEST:
            return [self._few(ts)]
        period, regular = typical_period(ts)
        if not regular:
            return [Line.unknown(ts, period)]
        told = np.flatnonzero(last_of_bursts(ts, period))
        # Seconds since the first arrival: those since 1970 have too few digits left for a phase.
        since = ts - ts[0]
        for _ in range(_ROUNDS):
            phases = estimate_phases(since[told], period, self.max_error / _RESOLUTION)
            runs = self._runs(phases, period, since[told])
            if not runs:
                return [Line.unknown(ts, period)]
            # What is between two runs goes to the first one. Nothing is known of it.
            starts = [0, *(int(told[run[0] - 1]) + 1 for run in runs[1:])]
            candidates = [
                self._candidate(since[start:stop], told[run] - start, phases, run, period)
                for start, stop, run in zip(starts, [*starts[1:], count], runs, strict=True)
            ]
            lines = judged(candidates, period, self.max_error)
            better = max(lines, key=lambda line: len(line.number)).period
            if abs(better / period - 1) * since[-1] < STEP * self.max_error:
                break
            period = better  # the phase stays over long gaps only if the period is right
        for line in lines:
            np.add(line.smooth, ts[0], out=line.smooth)
        return lines

    def _few(self, ts: np.ndarray) -> Line:
        """The line of a few arrivals, which do not tell a rate. They are on a line of a whole number of samples a
        second, or on none."""
        if len(ts) == 1:
            return Line.unknown(ts, np.nan)
        steps = np.diff(ts)
        period = float(np.quantile(steps, 0.5, method="lower"))
        number = np.concatenate([[0], np.cumsum(np.maximum(np.round(steps / period), 1).astype("i8"))])
        mean = float((ts[-1] - ts[0]) / number[-1])
        late = ts - ts[0] - number / max(round(1 / mean), 1)
        known = len(ts) > 2 and np.ptp(late) <= self.max_error / 2
        smooth = ts - late + late.min() if known else ts.copy()
        return Line(number, smooth, np.full(len(ts), np.ptp(late) if known else np.inf), mean, 0.0)

    def _runs(self, phases: Phases, period: float, arrivals: np.ndarray) -> list[np.ndarray]:
        """Arrivals with a known phase, i8 (m,) each, from restart to restart."""
        known = phases.below + phases.above + 1 <= 2 * _CERTAIN * self.max_error / phases.width
        index = np.flatnonzero(known)
        if not len(index):
            return []
        limit = STEP * self.max_error
        changes = _wrapped(np.diff(phases.mode[index] * phases.width), period)
        runs = np.split(index, 1 + np.flatnonzero(np.abs(changes) > limit))
        return [run for run in self._returning(runs, phases, period, arrivals) if len(run) >= FEWEST]

    def _returning(
        self, runs: list[np.ndarray], phases: Phases, period: float, arrivals: np.ndarray
    ) -> list[np.ndarray]:
        """Runs without those after which the phase comes back to what it was: a host was busy, or a sensor restarted
        twice, nobody knows."""
        kept, i = [], 0
        begins = arrivals[[run[0] for run in runs]]
        while i < len(runs):
            run = runs[i]
            while True:
                last = run[-1]
                back = int(np.searchsorted(begins, arrivals[last] + _BUSY_S, side="right")) - 1
                while back > i:
                    change = (phases.mode[runs[back][0]] - phases.mode[last]) * phases.width
                    if abs(float(_wrapped(change, period))) <= STEP * self.max_error:
                        break
                    back -= 1
                if back <= i:
                    break
                run, i = np.concatenate([run, runs[back]]), back
            kept.append(run)
            i += 1
        return kept

    def _candidate(
        self, since: np.ndarray, index: np.ndarray, phases: Phases, run: np.ndarray, period: float
    ) -> Candidate:
        """The line of some arrivals.

        Args:
            since: f8 (n,), seconds.
            index: i8 (m,), those that tell the phase; run: i8 (m,), their places in `phases`.
        """
        count = len(since)
        last = last_of_bursts(since, period)
        told = np.zeros(count, bool)
        told[index] = True
        # The last one of a burst can be late by whole periods too, if the samples after it were lost.
        alone = told & np.append(True, last[:-1])
        expected = _between(index, np.unwrap(phases.mode[run] * phases.width, period=period), count)
        position = since - expected
        position /= period
        position -= np.floor(position[index[0]] + EARLY)
        numbers = number_samples(position, told, alone)
        good = numbers.near & numbers.certain
        for part in blocks(len(index)):
            # Arrivals before the earliest phase that can be are faults of the host's clock.
            at = position[index[part]]
            good[index[part]] &= ~(at - np.floor(at + EARLY) < -(phases.below[run[part]] + 1) / phases.bins)
        if good.sum() < FEWEST:
            line = Line.unknown(since, period)
            return Candidate(line, last, since, numbers, index[:0], run[:0], phases, position[:0])
        # What is left of the arrivals without what their phases are after the line.
        after = np.subtract(numbers.number, position, out=position)
        after *= period
        after += since
        number = numbers.number
        number -= number[0]
        phase = expected[good]
        phase -= phase[0]
        del expected
        line = self._fitted(since, number, good, phase, period, len(phases.mode))
        after -= line.smooth
        return Candidate(line, last, since, numbers, index, run, phases, after[index])

    def _fitted(
        self, since: np.ndarray, number: np.ndarray, good: np.ndarray, phase: np.ndarray, period: float, count: int
    ) -> Line:
        """The line that is the highest below some arrivals.

        Args:
            since: f8 (n,), arrivals, seconds; number: i8 (n,).
            good: bool (n,), the m arrivals that the line is below; phase: f8 (m,), how their phase changes, seconds.
            count: number of arrivals that have told the period.
        """
        numbers, late = number[good], since[good]
        first, last, begin = numbers[0], numbers[-1], late[0]
        for part in blocks(len(late)):
            late[part] -= begin + (numbers[part] - first) * period  # equally spaced times
        length = float(last - first) * period
        smooth, error = np.empty(len(number)), np.broadcast_to(np.inf, len(number))
        short = len(late) < 2 * FEWEST or length * DRIFT < self.max_error / _RESOLUTION
        if short and len(late) < count / 2:  # it does not tell its rate better than the whole recording does
            for part in blocks(len(number)):
                smooth[part] = begin + (number[part] - first) * period + late.min()
            return Line(number, smooth, error, period, 0.0)
        best, most = (np.zeros(2), np.zeros(2)), -1.0
        for finer in _FINER if self.model == "drifting" else (1,):
            # No more pieces than arrivals, which could not determine them.
            pieces = 1 if self.model == "constant" else min(max(1, round(length / self.block * finer)), len(late))
            knots = np.linspace(first, last, pieces + 1)
            values = envelope(numbers, late, knots, self.bend_ppm * 1e-6 * finer**3 * period)
            off = np.empty(len(late))
            for part in blocks(len(late)):
                off[part] = _piecewise(numbers[part], knots, values) - phase[part]
            off -= np.median(off)
            share = float((np.abs(off, out=off) <= STEP * self.max_error).mean())
            if share > most:
                best, most = (knots, values), share
            if share >= _GOOD:
                break
        knots, values = best
        for part in blocks(len(number)):
            smooth[part] = begin + (number[part] - first) * period + _piecewise(number[part], knots, values)
        slopes = np.diff(values) / np.diff(knots)
        mean = period + float(values[-1] - values[0]) / float(last - first)
        drift = float(((period + slopes[-1]) / (period + slopes[0]) - 1) * 1e6)
        return Line(number, smooth, error, mean, drift)


def _between(index: np.ndarray, phase: np.ndarray, count: int) -> np.ndarray:
    """Phases of all samples, f8 (count,), from those of some, i8 and f8 (m,)."""
    found = np.empty(count)
    for part in blocks(count):
        first, stop = np.searchsorted(index, [part.start, part.stop])
        known = slice(max(first - 1, 0), stop + 1)
        found[part] = np.interp(np.arange(part.start, part.stop), index[known], phase[known])
    return found


def _piecewise(number: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A piecewise linear function, whose first and last piece go on, at some numbers, f8 (N,)."""
    slopes = np.diff(values) / np.diff(knots)
    line = np.interp(number, knots, values)
    line += np.minimum(number - knots[0], 0) * slopes[0] + np.maximum(number - knots[-1], 0) * slopes[-1]
    return line


def _wrapped(difference: np.ndarray | float, period: float) -> np.ndarray:
    """Differences of phases, from minus half a period to half a period."""
    return np.asarray(difference - period * np.round(np.asarray(difference) / period))
