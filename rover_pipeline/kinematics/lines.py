"""Lines below the arrivals of a clock: one from restart to restart, and how far from the truth they can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.envelope import envelope
from rover_pipeline.kinematics.numbers import EARLY, Numbers, number_samples
from rover_pipeline.kinematics.options import ClockModel
from rover_pipeline.kinematics.phases import CHANCE, Phases, estimate_phases
from rover_pipeline.kinematics.rates import last_of_bursts, typical_period

#: Bins of a phase in the largest error.
_RESOLUTION = 8
#: Fraction of the largest error by which a phase may be uncertain, and by which it changes at a restart.
_CERTAIN, _STEP = 0.75, 0.5
#: How often phases are estimated, with the period that lines have shown.
_ROUNDS = 2
#: A host that is busy delays all samples for so long at most, seconds.
_BUSY_S = 30.0
#: Periods between arrivals above which a sample is missing.
_GAP = 1.5
#: Where more than this share of the arrivals is off by a quarter of a period, arrivals do not tell a phase.
_BLURRED = 0.1
#: Fewest arrivals of a line.
FEWEST = 8
#: Largest difference of the rates of two clocks, or of one at two times.
_DRIFT = 1e-4
#: Blocks are made this many times shorter, and bends larger, where the line does not follow the arrivals.
_FINER = (1, 2, 4, 8)
#: Share of the arrivals that the line must follow for it not to be made finer.
_GOOD = 0.98
#: Share of the latencies, the largest ones, that tell how seldom still larger ones are, and fewest of them.
_TAIL, _MIN_TAIL = 0.1, 3


class Line(NamedTuple):
    """Samples on one line.

    Attributes:
        number: i8 (n,), the first one 0; smooth: f8 (n,), seconds.
        error: f8 (n,), seconds, by which `smooth` may be off; infinite where that is not known.
        period: mean, seconds; drift_ppm: as in `Times`.
    """

    number: np.ndarray
    smooth: np.ndarray
    error: np.ndarray
    period: float
    drift_ppm: float

    @staticmethod
    def unknown(ts: np.ndarray, period: float) -> Line:
        """A line of which nothing is known."""
        return Line(np.arange(len(ts)), ts.copy(), np.full(len(ts), np.inf), period, 0.0)


class _Candidate(NamedTuple):
    """A line that is not judged yet.

    Attributes:
        line: its errors are infinite.
        last: bool (n,), arrivals that do not wait for the host together with later ones.
        late: f8 (n,), arrivals after the line, seconds.
        numbers: of its samples.
        low, high: f8 (n,), seconds, how far the phase is after the line at least and at most; NaN where the arrival
            does not tell.
    """

    line: Line
    last: np.ndarray
    late: np.ndarray
    numbers: Numbers
    low: np.ndarray
    high: np.ndarray


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
            lines = self._judged(candidates, period)
            better = max(lines, key=lambda line: len(line.number)).period
            if abs(better / period - 1) * since[-1] < _STEP * self.max_error:
                break
            period = better  # the phase stays over long gaps only if the period is right
        return [line._replace(smooth=line.smooth + ts[0]) for line in lines]

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
        limit = _STEP * self.max_error
        changes = _wrapped(np.diff(phases.mode[index] * phases.width), period)
        runs = np.split(index, 1 + np.flatnonzero(np.abs(changes) > limit))
        runs = self._returning(runs, phases, period, arrivals)
        return [run for run in self._not_busy(runs, phases, period, arrivals) if len(run) >= FEWEST]

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
                    if abs(float(_wrapped(change, period))) <= _STEP * self.max_error:
                        break
                    back -= 1
                if back <= i:
                    break
                run, i = np.concatenate([run, runs[back]]), back
            kept.append(run)
            i += 1
        return kept

    def _not_busy(
        self, runs: list[np.ndarray], phases: Phases, period: float, arrivals: np.ndarray
    ) -> list[np.ndarray]:
        """Runs without short ones that are later than the run beside them, with no gap between: either the sensor
        restarted, or its samples were late because the host was busy."""
        busy = np.zeros(len(runs), bool)
        short = np.array([arrivals[run[-1]] - arrivals[run[0]] < _BUSY_S for run in runs], bool)
        for i in range(len(runs) - 1):
            last, first = runs[i][-1], runs[i + 1][0]
            if np.diff(arrivals[last : first + 1]).max() > _GAP * period:
                continue
            later = float(_wrapped((phases.mode[first] - phases.mode[last]) * phases.width, period)) > 0
            busy[i + 1 if later else i] |= short[i + 1 if later else i]
        return [run for run, late in zip(runs, busy, strict=True) if not late]

    def _candidate(
        self, since: np.ndarray, index: np.ndarray, phases: Phases, run: np.ndarray, period: float
    ) -> _Candidate:
        """The line of some arrivals.

        Args:
            since: f8 (n,), seconds.
            index: i8 (m,), those that tell the phase; run: i8 (m,), their places in `phases`.
        """
        phase = np.unwrap(phases.mode[run] * phases.width, period=period)
        expected = np.interp(np.arange(len(since)), index, phase)
        position = (since - expected) / period
        told = np.zeros(len(since), bool)
        told[index] = True
        # The last one of a burst can be late by whole periods too, if the samples after it were lost.
        last = last_of_bursts(since, period)
        alone = told & np.append(True, last[:-1])
        position -= np.floor(position[index[0]] + EARLY)
        numbers = number_samples(position, told, alone)
        # Arrivals before the earliest phase that can be are faults of the host's clock.
        early = np.zeros(len(since), bool)
        early[index] = position[index] - np.floor(position[index] + EARLY) < -(phases.below[run] + 1) / phases.bins
        fitted = np.flatnonzero(numbers.near & numbers.certain & ~early)
        if len(fitted) < FEWEST:
            unknown = np.full(len(since), np.nan)
            return _Candidate(Line.unknown(since, period), last, np.zeros(len(since)), numbers, unknown, unknown)
        number = numbers.number - numbers.number[0]
        ideal = since[fitted[0]] + (number - number[fitted[0]]) * period
        line = self._fitted(
            ideal, since - ideal, number, fitted, expected - expected[fitted[0]], period, len(phases.mode)
        )
        low, high = np.full((2, len(since)), np.nan)
        after = (since + (numbers.number - position) * period - line.smooth)[index]
        low[index] = after - phases.below[run] * phases.width
        high[index] = after + (phases.above[run] + 1) * phases.width
        return _Candidate(line, last, since - line.smooth, numbers, low, high)

    def _fitted(
        self,
        ideal: np.ndarray,
        late: np.ndarray,
        number: np.ndarray,
        fitted: np.ndarray,
        phase: np.ndarray,
        period: float,
        count: int,
    ) -> Line:
        """The line that is the highest below some arrivals.

        Args:
            ideal: f8 (n,), equally spaced times, seconds; late: f8 (n,), arrivals after them; number: i8 (n,).
            fitted: i8 (m,), the arrivals that the line is below; phase: f8 (n,), how the phase changes, seconds.
            count: number of arrivals that have told the period.
        """
        first, last = number[fitted[0]], number[fitted[-1]]
        length, error = float(last - first) * period, np.full(len(number), np.inf)
        best, most = Line(number, ideal + late[fitted].min(), error, period, 0.0), -1.0
        short = len(fitted) < 2 * FEWEST or length * _DRIFT < self.max_error / _RESOLUTION
        if short and len(fitted) < count / 2:
            return best  # it does not tell its rate better than the whole recording does
        for finer in _FINER if self.model == "drifting" else (1,):
            # No more blocks than arrivals, which could not determine them.
            blocks = 1 if self.model == "constant" else min(max(1, round(length / self.block * finer)), len(fitted))
            knots = np.linspace(first, last, blocks + 1)
            values = envelope(number[fitted], late[fitted], knots, self.bend_ppm * 1e-6 * finer**3 * period)
            slopes = np.diff(values) / np.diff(knots)
            line = np.interp(number, knots, values)
            line += np.minimum(number - first, 0) * slopes[0] + np.maximum(number - last, 0) * slopes[-1]
            off = (line - phase)[fitted]
            share = float((np.abs(off - np.median(off)) <= _STEP * self.max_error).mean())
            if share > most:
                mean = period + float(values[-1] - values[0]) / float(last - first)
                drift = float(((period + slopes[-1]) / (period + slopes[0]) - 1) * 1e6)
                best, most = Line(number, ideal + line, error, mean, drift), share
            if share >= _GOOD:
                break
        return best

    def _judged(self, candidates: list[_Candidate], period: float) -> list[Line]:
        """Lines with their errors. The least latency is not known, so a constant difference is no error."""
        middle = np.concatenate([(each.low + each.high) / 2 for each in candidates])
        offset = float(np.nanmedian(middle)) if np.isfinite(middle).any() else 0.0
        certain = np.concatenate([each.late[each.numbers.certain] for each in candidates])
        late_by_a_period = _above(certain, period)
        blurred = not len(certain) or np.mean(np.abs(certain - np.median(certain)) > period / 4) > _BLURRED
        repeated = any(each.numbers.repeated for each in candidates)
        # So many arrivals in a row can be late by a whole period, so that a loss seems to come before them.
        doubtful = int(np.log(CHANCE) / np.log(late_by_a_period)) if late_by_a_period > 0 else 0
        lines = []
        for line, last, late, numbers, low, high in candidates:
            told = np.flatnonzero(last)
            if blurred:
                lines.append(line)
                continue
            # A sample that waited for the host is as certain as the arrivals before and after it.
            errors = np.maximum(np.abs(low[told] - offset), np.abs(high[told] - offset))
            errors[np.isnan(errors)] = np.inf
            index = np.arange(len(low))
            after = np.searchsorted(told, index)
            before = np.searchsorted(told, index, side="right") - 1
            error = np.maximum(errors[np.minimum(after, len(told) - 1)], errors[np.maximum(before, 0)])
            error[(after == len(told)) | (before < 0) | ~numbers.certain] = np.inf
            error[_contradicted(late, self.max_error)] = np.inf
            if repeated:  # two samples that come together can be one that came twice, beside one that was lost
                error[~last] = np.inf
            for each in numbers.after_loss.tolist():
                place = int(np.searchsorted(told, each))
                if doubtful and place < len(told):
                    error[each : told[min(place + doubtful - 1, len(told) - 1)] + 1] = np.inf
            lines.append(line._replace(error=error))
        return lines


def _contradicted(late: np.ndarray, max_error: float) -> np.ndarray:
    """Samples that arrived before they were taken, bool (N,), by latencies, f8 (N,) seconds, and those near several of
    them. A single one is a fault of the host's clock; several mean that the line is wrong."""
    early = late < -_STEP * max_error
    several = np.convolve(early, np.ones(2 * FEWEST + 1), "full")[FEWEST:-FEWEST] > 1
    return np.asarray(early | several)


def _above(late: np.ndarray, limit: float) -> float:
    """Probability that an arrival is later than `limit`, seconds, by latencies, f8 (N,) seconds. The tail beyond the
    largest of them is exponential, with the mean excess of the largest ones."""
    count = len(late)
    if count < 2 * _MIN_TAIL:
        return 0.5
    ordered = np.sort(late)
    later = count - int(np.searchsorted(ordered, limit))
    if later:
        return min((later + 1) / (count + 2), 0.5)
    tail = ordered[-max(_MIN_TAIL, int(_TAIL * count)) :]
    excess = max(float((tail - tail[0]).mean()), 1e-6)
    return float(np.exp((ordered[-1] - limit) / excess)) / (count + 2)


def _wrapped(difference: np.ndarray | float, period: float) -> np.ndarray:
    """Differences of phases, from minus half a period to half a period."""
    return np.asarray(difference - period * np.round(np.asarray(difference) / period))
