"""Numbers, times and lists are written as people read them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rover_pipeline.draw import formatting
from rover_pipeline.errors import counted

_MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (formatting.duration, 0.25, "0.25 s"),
        (formatting.duration, 29.96, "30.0 s"),
        (formatting.duration, 604, "10 min 4 s"),
        (formatting.duration, 600, "10 min"),
        (formatting.duration, 3719.6, "1 h 2 min"),
        (formatting.percent, 0.0, "0.00 %"),
        (formatting.percent, 0.00001, "<0.01 %"),
        (formatting.percent, 0.0012, "0.12 %"),
        (formatting.percent, 0.031, "3.1 %"),
        (formatting.percent, 0.25, "25 %"),
        (formatting.milliseconds, -4.5, f"{_MINUS}4.5 ms"),
        (formatting.milliseconds, 1200.0, "1,200 ms"),
        (formatting.ppm, -2.2, f"{_MINUS}2 ppm"),
        (formatting.ppm, -0.2, "0 ppm"),
        (formatting.ppm, 14_000.0, "+1.40 %"),
        (formatting.offset, -0.0331, f"{_MINUS}33 ms"),
        (formatting.significant, 13_468_301.2, "13.5 M"),
        (formatting.significant, 1230.0, "1,230"),
        (formatting.significant, -0.0123, f"{_MINUS}0.0123"),
        (formatting.significant, 4.2e-5, "4.2e-05"),
        (formatting.significant, 0.0, "0"),
        (formatting.metres, 0.00029, "0.29 mm"),
        (formatting.metres, 1.3e-15, "0 mm"),
        (formatting.metres, 0.042, "42 mm"),
        (formatting.metres, 3.549, "3.55 m"),
        (formatting.utc, 1_700_000_000.0, "2023-11-14 22:13:20 UTC"),
        (formatting.utc, 1e18, "1000000000000000000.000 s"),
    ],
)
def test_numbers_are_rounded_and_have_a_unit(write: Callable[[float], str], value: float, text: str) -> None:
    assert write(value) == text


def test_times_since_the_begin_have_the_format_that_the_recording_needs() -> None:
    assert [formatting.elapsed(65.4, longest) for longest in (50, 600, 4000)] == ["65.4 s", "1:05", "0:01:05"]


def test_lists_are_short_and_without_repetitions() -> None:
    assert formatting.join(["a"]) == "a"
    assert formatting.join(["a", "b", "a"]) == "a and b"
    assert formatting.join(["a", "b", "c", "d"]) == "a, b and 2 more"
    assert formatting.count(1, "gap") == "1 gap" and formatting.count(2000, "gap") == "2,000 gaps"
    assert counted(1, "gap") == "1 gap" and counted(2000, "gap") == "2000 gaps"
    assert counted(1, "sweep is", "sweeps are") == "1 sweep is" and counted(0, "entry", "entries") == "0 entries"
