"""When samples were taken: by the stamps of message headers, or by the times at which messages were recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.numerics.jumps import is_set, jumps


class Stamps(NamedTuple):
    """Times of the messages of a topic.

    Attributes:
        times: f8 (kept,), s, strictly increasing.
        rank: i8 (message,), the place of each message among those that are kept; -1 = left out, because its time is
            that of another one, or before it by more than `TUNING.max_late` messages.
        source: `header`, `bag`, or `bag+offset`.
        note: what the user should know; empty otherwise.
        ns: i8 (kept,), the times without rounding, ns.
    """

    times: np.ndarray
    rank: np.ndarray
    source: str
    note: str
    ns: np.ndarray


def choose_stamps(
    topics: Mapping[str, tuple[np.ndarray, np.ndarray]],
    wanted: str,
    first: str | None = None,
    packets: Collection[str] = (),
) -> dict[str, Stamps]:
    """The times of topics, all of one clock.

    Header stamps are when a sensor measured, and the recorder's times are when its message arrived, so headers are
    better where they are good: above zero, in order, not repeated, and without a jump that the recorder does not show.
    They must also be of one clock. Topics whose headers keep the same offset from the recorder's time share one. If
    there are several clocks, the trace has the one that was set (1990 to 2100), that most topics have, and that `first`
    has. All other topics have the time of the recorder plus the offset of that clock.

    Args:
        topics: name -> recorded and stamped times, i8 (message,), ns; stamps are zero where there is no header.
        wanted: `auto` as above; `header` = each topic has its own stamps; `bag` = times of the recorder.
        first: the topic that decides between equals.
        packets: topics of parts of samples. All of them are kept in their order, also those that came at one time.
    """

    def ordered(times: np.ndarray, source: str, note: str, name: str) -> Stamps:
        if name not in packets:
            return _in_order(times, source, note)
        running = np.maximum.accumulate(times)
        return Stamps(running / 1e9, np.arange(len(times)), source, note, running)

    if wanted == "bag":
        return {name: ordered(recorded, "bag", "", name) for name, (recorded, _) in topics.items()}
    offsets, problems = {}, {}
    for name, (recorded, stamped) in topics.items():
        problems[name] = _problem(recorded, stamped)
        if not problems[name] or (wanted == "header" and (stamped > 0).any()):
            offsets[name] = int(np.median(stamped - recorded))
    if wanted == "header":
        sources = {name: "header" if name in offsets else "bag" for name in topics}
        return {name: ordered(topics[name][name in offsets], sources[name], problems[name], name) for name in topics}
    clock = _clock(topics, offsets, first)
    result = {}
    for name, (recorded, stamped) in topics.items():
        if name in clock:
            result[name] = ordered(stamped, "header", "", name)
            continue
        note = problems[name] or "its header stamps are of another clock"
        if clock:
            shift = int(np.median([offsets[each] for each in clock]))
            note += f"; it has bag times, moved by {shift / 1e9:+.3f} s to the clock of {sorted(clock)[0]}"
            result[name] = ordered(recorded + shift, "bag+offset", note, name)
        else:
            result[name] = ordered(recorded, "bag", f"{note}; it has bag times", name)
    return result


def _clock(
    topics: Mapping[str, tuple[np.ndarray, np.ndarray]], offsets: Mapping[str, int], first: str | None
) -> set[str]:
    """Names of the topics whose headers are of the clock of the trace."""
    groups: list[list[str]] = []
    for name in sorted(offsets, key=lambda name: offsets[name]):
        if groups and offsets[name] - offsets[groups[-1][-1]] < TUNING.same_clock_ns:
            groups[-1].append(name)
        else:
            groups.append([name])

    def worth(group: list[str]) -> tuple[bool, int, bool, int]:
        stamps = topics[group[0]][1]
        return is_set(np.sort(stamps) / 1e9), len(group), first in group, -abs(offsets[group[0]])

    return set(sorted(groups, key=worth)[-1]) if groups else set()


def _problem(recorded: np.ndarray, stamped: np.ndarray) -> str:
    """Why header stamps are no times of measurement; empty when they are."""
    if not len(stamped) or not (stamped > 0).any():
        return "its messages have no header stamps"
    if (stamped <= 0).any():
        return f"{int((stamped <= 0).sum())} of its {len(stamped)} header stamps are zero"
    odd = int((_kept_ranks(stamped) < 0).sum())
    if odd > TUNING.max_odd * len(stamped):
        return f"{odd} of its {len(stamped)} header stamps repeat or come late"
    if len(jumps(np.sort(stamped) / 1e9)) > len(jumps(np.sort(recorded) / 1e9)):
        return "its header stamps jump where the recorder's times do not"
    return ""


def _in_order(times: np.ndarray, source: str, note: str) -> Stamps:
    rank = _kept_ranks(times)
    if lost := int((rank < 0).sum()):
        note += f"{'; ' if note else ''}{lost} of {len(rank)} messages are left out: their times repeat or come late"
    kept = np.empty(int(rank.max(initial=-1)) + 1, "i8")
    kept[rank[rank >= 0]] = times[rank >= 0]
    return Stamps(kept / 1e9, rank, source, note, kept)


def _kept_ranks(times: np.ndarray) -> np.ndarray:
    """The place of each message in the order of times, i8 (message,); -1 for repeated and very late ones."""
    seconds = times / 1e9
    if (np.diff(seconds) > 0).all():
        return np.arange(len(times))
    # A message is very late when a later one was recorded more than `max_late` messages before it.
    highest = np.maximum.accumulate(times)
    limit = np.concatenate([np.full(min(TUNING.max_late, len(times)), -(1 << 62)), highest[: -TUNING.max_late]])
    kept = np.flatnonzero(times > limit)
    order = kept[np.argsort(times[kept], kind="stable")]
    # Times are stored as seconds in f8, which are equal when they differ by less than 0.2 us.
    new = np.concatenate([[True], np.diff(seconds[order]) > 0]) if len(order) else np.zeros(0, bool)
    rank = np.full(len(times), -1, "i8")
    rank[order[new]] = np.arange(int(new.sum()))
    return rank
