"""How far from the truth the lines below the arrivals of a clock can be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.phase_posterior import CHANCE, Phases
from rover_pipeline.clocks.sequence_numbers import Numbers
from rover_pipeline.numerics.blocks import blocks

#: Fewest arrivals of a line.
FEWEST = 8
#: Fraction of the largest error by which a phase changes at a restart.
STEP = 0.5
#: Where more than this share of the arrivals is off by a quarter of a period, arrivals do not tell a phase.
_BLURRED = 0.1
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


class Candidate(NamedTuple):
    """A line that is not judged yet.

    Attributes:
        line: its errors are infinite.
        last: bool (n,), arrivals that do not wait for the host together with later ones.
        since: f8 (n,), arrivals, seconds.
        numbers: of its samples.
        telling: i8 (m,), the arrivals that tell the phase; run: i8 (m,), their places in `phases`.
        after: f8 (m,), seconds, how far the phase that they tell is after the line.
    """

    line: Line
    last: np.ndarray
    since: np.ndarray
    numbers: Numbers
    telling: np.ndarray
    run: np.ndarray
    phases: Phases
    after: np.ndarray

    def late(self, part: slice) -> np.ndarray:
        """Some arrivals after the line, f8, seconds."""
        return np.asarray(self.since[part] - self.line.smooth[part])

    def limits(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """How far some phases are after the line at least and at most, f8 each, seconds."""
        after, run, width = self.after[part], self.run[part], self.phases.width
        return after - self.phases.below[run] * width, after + (self.phases.above[run] + 1) * width

    def middles(self) -> np.ndarray:
        """The middles of these limits, f8 (m,), seconds."""
        found = np.empty(len(self.after))
        for part in blocks(len(found)):
            low, high = self.limits(part)
            found[part] = (low + high) / 2
        return found

    def errors(self, offset: float, max_error: float) -> np.ndarray:
        """Errors of the samples, f8 (n,) seconds; infinite where they are not known.

        Args:
            offset: seconds, how far phases are after their lines; max_error: as in `smooth_times`.
        """
        count, told = len(self.since), np.flatnonzero(self.last)
        errors, error, early = np.full(count, np.inf), np.empty(count), np.empty(count, bool)
        for part in blocks(len(self.telling)):
            low, high = self.limits(part)
            errors[self.telling[part]] = np.maximum(np.abs(low - offset), np.abs(high - offset))
        for part in blocks(count):
            # A sample that waited for the host is as certain as the arrivals before and after it.
            sample = np.arange(part.start, part.stop)
            after = np.searchsorted(told, sample)
            before = np.searchsorted(told, sample, side="right") - 1
            known = (after < len(told)) & (before >= 0) & self.numbers.certain[part]
            next_, last = told[np.minimum(after, len(told) - 1)], told[np.maximum(before, 0)]
            error[part] = np.where(known, np.maximum(errors[next_], errors[last]), np.inf)
            early[part] = self.late(part) < -STEP * max_error
        error[_contradicted(early)] = np.inf
        return error


def judged(candidates: list[Candidate], period: float, max_error: float) -> list[Line]:
    """Lines with their errors. The least latency is not known, so a constant difference is no error.

    Args:
        period: seconds; max_error: as in `smooth_times`.
    """
    middle = np.concatenate([each.middles() for each in candidates])
    offset = float(np.median(middle, overwrite_input=True)) if len(middle) else 0.0
    del middle
    parts = [(each, part) for each in candidates for part in blocks(len(each.since))]
    certain = np.concatenate([each.late(part)[each.numbers.certain[part]] for each, part in parts])
    certain.sort()
    late_by_a_period = _above(certain, period)
    if len(certain):
        certain -= np.median(certain)
    blurred = not len(certain) or np.mean(np.abs(certain, out=certain) > period / 4) > _BLURRED
    del certain
    repeated = any(each.numbers.repeated for each in candidates)
    # So many arrivals in a row can be late by a whole period, so that a loss seems to come before them.
    doubtful = int(np.log(CHANCE) / np.log(late_by_a_period)) if late_by_a_period > 0 else 0
    lines = []
    for each in candidates:
        if blurred:
            lines.append(each.line)
            continue
        told, error = np.flatnonzero(each.last), each.errors(offset, max_error)
        if repeated:  # two samples that come together can be one that came twice, beside one that was lost
            error[~each.last] = np.inf
        for lost in each.numbers.after_loss.tolist():
            place = int(np.searchsorted(told, lost))
            if doubtful and place < len(told):
                error[lost : told[min(place + doubtful - 1, len(told) - 1)] + 1] = np.inf
        lines.append(each.line._replace(error=error))
    return lines


def _contradicted(early: np.ndarray) -> np.ndarray:
    """Samples that arrived before they were taken, bool (N,), and those near several of them. A single one is a fault
    of the host's clock; several mean that the line is wrong."""
    several = np.convolve(early, np.ones(2 * FEWEST + 1, "i1"), "full")[FEWEST:-FEWEST] > 1
    return np.asarray(early | several)


def _above(ordered: np.ndarray, limit: float) -> float:
    """Probability that an arrival is later than `limit`, seconds, by sorted latencies, f8 (N,) seconds. The tail
    beyond the largest of them is exponential, with the mean excess of the largest ones."""
    count = len(ordered)
    if count < 2 * _MIN_TAIL:
        return 0.5
    later = count - int(np.searchsorted(ordered, limit))
    if later:
        return min((later + 1) / (count + 2), 0.5)
    tail = ordered[-max(_MIN_TAIL, int(_TAIL * count)) :]
    excess = max(float((tail - tail[0]).mean()), 1e-6)
    return float(np.exp((ordered[-1] - limit) / excess)) / (count + 2)
