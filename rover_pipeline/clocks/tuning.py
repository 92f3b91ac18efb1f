"""Numbers of the clocks that neither a standard nor a model of noise gives, each with what it guards against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The tuned numbers, by what they serve.

    All were set by hand, and tested together on randomly drawn clocks whose true times are known: `python -m
    tests.campaign clocks`.
    """

    # --- The rate (`phase_posterior`) ---
    #: Samples of a window in which a rate is estimated, against rates that follow the jitter.
    rate_window: int = 64
    #: Minimum change of a rate, as a fraction of it. Less is a drift, or an error of the estimate of a window.
    min_rate_change: float = 0.002

    # --- The phase (`phase_posterior`) ---
    #: Probability that the phase is not within the bounds that are given for it, against wrong times.
    outside: float = 1e-5
    #: Minimum and maximum number of bins of a period: a distribution that is not smooth, and sensors slower than a
    #: second, whose phases would take too long.
    bins: tuple[int, int] = (16, 4096)
    #: Probability of a restart between two samples, and of one where a sample is missing between them, against phases
    #: that follow single late arrivals, or no restart.
    restart: float = 1e-6
    restart_in_gap: float = 0.01
    #: Share of arrivals whose latency can be any, against single arrivals that exclude a phase. Where more are not near
    #: to a model, its blocks are made shorter.
    uniform: float = 0.01

    # --- Segments and the numbers of their samples (`segments`) ---
    #: Fraction of the maximum error by which a phase may be uncertain, against wrong times.
    certain_phase: float = 0.75
    #: Time for which a busy host may delay all samples, s: a longer one would join two restarts.
    busy_s: float = 30.0
    #: An arrival within this fraction of a period of its expected time identifies its number. None arrives earlier.
    near: float = 0.25
    #: Minimum number of arrivals that show anything together, of a segment and on either side of a contradiction of
    #: numbers, against a few that fit a clock at random.
    min_arrivals: int = 8

    # --- The model of a clock and its errors (`clock_model`, `segments`, `sampling_times`) ---
    #: Fraction of the maximum error by which a phase changes at a restart. By less, a clock follows it.
    step: float = 0.5
    #: Share of arrivals that are off by a quarter of a period above which arrivals do not show a phase.
    blurred: float = 0.1
    #: Minimum silence of a sensor that starts anew, s, beside its period, against restarts that are none. Gyroscopes
    #: start fastest: about so, by their data sheets.
    silent_s: float = 0.1


TUNING = Tuning()
