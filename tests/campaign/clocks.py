"""`python -m tests.campaign clocks`: times of hundreds of randomly drawn clocks against their true ones.

A clock may drift, lose samples, be late by milliseconds and now and then by much more, stop and start again with
another phase or rate, with and without a gap, write a sample twice, stamp in whole milliseconds, and be told by a host
that sleeps, is busy for seconds, or whose own clock is set or slewed. The truth is when a sample was taken, by the
host's clock of that moment, after the smallest delay of its segment, which nobody can know. Times are found alone, and
beside those of a steady sensor of 40 Hz on the same host. The latency of some steady clocks grows or steps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.sampling_times import smooth_times

EPOCH = 1_700_000_000.0
RATES = (5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 285.7, 1000.0)
#: A clock has at most this many samples, so that hundreds of them take minutes.
MOST = 40_000
#: What a time that is valid may be off by, seconds.
LIMIT = 0.002


class Drawn(NamedTuple):
    """A clock.

    Attributes:
        ts, true: f8 (N,), arrivals and the instants at which the samples were taken, seconds, after the smallest delay.
        about: what it does.
        steady: whether it neither restarts nor changes its rate, no clock is set, and the host is never busy.
        beside: f8 (M,), arrivals of another sensor at the same host, seconds.
    """

    ts: np.ndarray
    true: np.ndarray
    about: str
    steady: bool
    beside: np.ndarray


def draw(seed: int, steady: bool | None = None, latency: bool = False) -> Drawn:
    """A random clock; `steady` decides on its kind, and `latency` says whether its latency grows or steps."""
    rng = np.random.default_rng([13, seed])
    rate = float(rng.choice(RATES))
    seconds = min(float(np.exp(rng.uniform(np.log(10), np.log(1200)))), MOST / rate)
    steady = bool(rng.random() < 0.3) if steady is None else steady
    true, segment, about = _taken(rng, rate, seconds, steady)
    arrived, more = _arrived(rng, true, rate, steady)
    if latency:
        grown, more = _grown(np.random.default_rng([14, seed]), true - true[0], rate)
        arrived = np.maximum.accumulate(arrived + grown)
        arrived += 2e-5 * (np.arange(len(arrived)) - np.searchsorted(arrived, arrived))
    offset, steps, host = (np.zeros(len(true)), "", np.zeros_like) if steady else _host(rng, arrived, rate)
    beside = np.arange(arrived[0], arrived[-1], 1 / 40)
    beside += np.random.default_rng([15, seed]).exponential(3e-4, len(beside))
    beside = np.maximum.accumulate(EPOCH + beside + host(beside))
    beside += 2e-6 * (np.arange(len(beside)) - np.searchsorted(beside, beside))
    # The host's clock is that of the arrival, and the truth is the instant of the sample by the same clock.
    ts, true = arrived + offset, true + offset
    kept = rng.random(len(true)) >= float(rng.choice([0, 0, 0.005, 0.02]))
    kept[0] = True
    if not steady and rng.random() < 0.2:  # samples that are written twice
        twice = rng.random(len(true)) < 0.002
        order = np.sort(np.concatenate([np.arange(len(true)), np.flatnonzero(twice)]))
        again = np.diff(order, prepend=-1) == 0
        ts, true, segment, kept = ts[order] + 1e-5 * again, true[order], segment[order], kept[order]
        more += ", repeats"
    if not steady and rng.random() < 0.15:  # stamps in milliseconds, which a later part of a microsecond keeps in order
        ts = np.floor(ts * 1e3) / 1e3
        more += ", whole ms"
    ts, true, segment = ts[kept], true[kept], segment[kept]
    ts = ts + 2e-6 * (np.arange(len(ts)) - np.searchsorted(np.maximum.accumulate(ts), ts))
    rising = np.diff(np.maximum.accumulate(ts), prepend=-1.0) > 1e-6
    ts, true, segment = ts[rising], true[rising], segment[rising]
    smallest = np.full(int(segment.max()) + 1, np.inf)
    np.minimum.at(smallest, segment, ts - true)
    about = f"{seed}: {rate:g} Hz, {seconds:.0f} s, {about}, {more}, lost {1 - kept.mean():.3f}{steps}"
    return Drawn(EPOCH + ts, EPOCH + true + smallest[segment], about, steady, beside)


def _taken(rng: np.random.Generator, rate: float, seconds: float, steady: bool) -> tuple[np.ndarray, np.ndarray, str]:
    """When samples are taken, f8 (N,) seconds; between which restarts, i8 (N,); and what the sensor does."""
    restarts = 0 if steady else int(rng.integers(0, 7))
    changed = "no" if steady else str(rng.choice(["no", "no", "no", "slightly", "by per cent", "twice"]))
    nominal = period = (1 + rng.uniform(-1e-4, 1e-4)) / rate
    edges = np.sort(rng.uniform(0, seconds, restarts))
    pieces, start = [], float(rng.uniform(0, nominal))
    for stop in [*edges, seconds]:
        count = max(1, int((stop - start) / period) + 1)
        pieces.append(start + period * np.arange(count))
        kind = rng.choice(["hidden", "short", "seconds", "minute"])
        silent = {"hidden": rng.uniform(0, 1), "short": rng.uniform(0, 6)}.get(str(kind), 0) * period
        silent += {"seconds": rng.uniform(0.5, 20), "minute": rng.uniform(20, 60)}.get(str(kind), 0)
        start = float(pieces[-1][-1]) + max(0.1 * period, period * (kind == "hidden") + silent)
        factors = {"no": 1.0, "slightly": 1 + rng.uniform(-5e-4, 5e-4), "by per cent": 1 + rng.uniform(-0.03, 0.03)}
        period = nominal * (float(rng.choice([0.5, 1, 2])) if changed == "twice" else factors[changed])
    true = np.concatenate(pieces)
    segment = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    amplitude, swing = rng.uniform(0, 20e-6), rng.uniform(200, 1000)
    true = true + amplitude * swing / (2 * np.pi) * np.sin(2 * np.pi * true / swing + rng.uniform(0, 6))
    return true, segment, f"{restarts} restarts, period changed {changed}"


def _arrived(rng: np.random.Generator, true: np.ndarray, rate: float, steady: bool) -> tuple[np.ndarray, str]:
    """When samples reach the host, f8 (N,) seconds, in order, and how late they are."""
    count, jitter = len(true), float(np.exp(rng.uniform(np.log(1e-4), np.log(3e-3))))
    shape = str(rng.choice(["exponential", "uniform", "gamma", "two ways", "lognormal"]))
    late = {
        "exponential": rng.exponential(jitter, count),
        "uniform": rng.uniform(0, 2 * jitter, count),
        "gamma": rng.gamma(2, jitter / 2, count),
        "two ways": rng.exponential(jitter / 4, count) + 3 * jitter * (rng.random(count) < 0.25),
        "lognormal": jitter / 2 * rng.lognormal(0, 1, count),
    }[shape]
    rare = float(rng.choice([0, 0.002, 0.01]))
    late = late + np.where(rng.random(count) < rare, rng.uniform(0.005, 0.06, count), 0)
    about = f"{shape} {jitter * 1e3:.2f} ms, rare {rare:g}"
    if not steady and rng.random() < 0.3:  # the host is busy for seconds: all latencies are larger
        for _ in range(int(rng.integers(1, 4))):
            begin = rng.uniform(true[0], true[-1])
            late[(true > begin) & (true < begin + rng.uniform(0.5, 10))] *= rng.uniform(2, 8)
        about += ", busy"
    arrived = true + late
    if not steady and rng.random() < 0.3:  # the host sleeps, and all that came meanwhile is there when it wakes
        for _ in range(int(rng.integers(1, 6))):
            begin = rng.uniform(true[0], true[-1])
            wakes = begin + rng.uniform(0.05, 1.5)
            arrived = np.where((arrived > begin) & (arrived < wakes), wakes, arrived)
        about += ", sleeps"
    arrived = np.maximum.accumulate(arrived)
    # Samples that wait for the host come one after another.
    return arrived + 2e-5 * (np.arange(count) - np.searchsorted(arrived, arrived)), about


def _grown(rng: np.random.Generator, since: np.ndarray, rate: float) -> tuple[np.ndarray, str]:
    """Latency that comes and stays, f8 (N,) seconds, and what it does: it grows 30 ms in a minute, or steps."""
    begin = rng.uniform(0.2, 0.7) * since[-1]
    if rng.random() < 0.5:
        return 0.0005 * np.clip(since - begin, 0, rng.uniform(10, 60)), "latency grows"
    size = rng.uniform(0.3, 0.7) * min(0.04, 1 / rate)
    return size * (since > begin), f"latency steps by {size * 1e3:.1f} ms"


def _host(
    rng: np.random.Generator, arrived: np.ndarray, rate: float
) -> tuple[np.ndarray, str, Callable[[np.ndarray], np.ndarray]]:
    """What the host's clock is ahead by at each arrival, f8 (N,) seconds; how it is set; the same at any instant."""
    sets, slews, about = [], [], ""
    if rng.random() < 0.3:
        for _ in range(int(rng.integers(1, 3))):
            size = float(np.exp(rng.uniform(np.log(0.0005), np.log(5.0))))
            if rng.random() < 0.5:
                size = -min(size, 0.8 / rate)
            sets.append((rng.uniform(arrived[0], arrived[-1]), size))
            about += f", set by {size * 1e3:.1f} ms"
    if rng.random() < 0.15:  # NTP slews by 500 millionths
        begin, size = rng.uniform(arrived[0], arrived[-1]), rng.uniform(-0.03, 0.03)
        slews.append((begin, size))
        about += f", slewed by {size * 1e3:.1f} ms"

    def ahead(at: np.ndarray) -> np.ndarray:
        offset = np.zeros(len(at))
        for begin, size in sets:
            offset += np.where(at >= begin, size, 0)
        for begin, size in slews:
            offset += np.clip((at - begin) * 500e-6, 0, abs(size)) * np.sign(size)
        return offset

    return ahead(arrived), about, ahead


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign clocks", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    figures: dict[str, list[tuple[float, ...]]] = {}
    wrong = 0
    for seed in range(options.first, options.first + options.count):
        for latency, others in ((False, False), (False, True), (True, False), (True, True)):
            clock = draw(seed, steady=latency or None, latency=latency)
            found = smooth_times(clock.ts, others=(clock.beside,) if others else ())
            error = np.abs(found.smooth - clock.true)
            known, raw = error[found.valid], np.abs(clock.ts - clock.true)[found.valid]
            squares = (float(np.sqrt((each**2).mean())) if len(each) else np.nan for each in (known, raw))
            kind = "latency" if latency else "steady" if clock.steady else "others"
            row = (found.valid.mean(), known.max(initial=0), *squares)
            figures.setdefault(kind + " beside another" * others, []).append(row)
            # Of a latency that grows by 500 millionths, 100 can be the sensor's own clock.
            limit = LIMIT + 0.2 * known.max(initial=0) * ("latency grows" in clock.about)
            if known.max(initial=0) > limit:
                wrong += 1
                off = f"{known.max() * 1e3:.2f} ms, {int((known > limit).sum())} of {len(error)}"
                print(f"WRONG by {off}{', beside another' * others}: {clock.about}")
    for kind, rows in sorted(figures.items()):
        share, most, rms, raw = np.array(rows).T
        print(
            f"{kind}: {len(rows)} clocks; valid: {share.mean():.4f} of the samples (median "
            f"{np.median(share):.4f}); largest error {most.max() * 1e3:.3f} ms; median RMS error of valid times "
            f"{np.nanmedian(rms) * 1e3:.3f} ms, of their recorded ones {np.nanmedian(raw) * 1e3:.3f} ms; worse than "
            f"the recorded ones: {int((rms > raw).sum())}"
        )
    print(f"wrong: {wrong}")
    sys.exit(1 if wrong else 0)
