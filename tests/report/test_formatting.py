"""Figures are written as people read them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rover_pipeline.report import words

_MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (words.duration, 0.25, "0.25 s"),
        (words.duration, 29.96, "30.0 s"),
        (words.duration, 604, "10 min 4 s"),
        (words.duration, 600, "10 min"),
        (words.duration, 3719.6, "1 h 2 min"),
        (words.percent, 0.0, "0.00 %"),
        (words.percent, 0.00001, "<0.01 %"),
        (words.percent, 0.0012, "0.12 %"),
        (words.percent, 0.031, "3.1 %"),
        (words.percent, 0.25, "25 %"),
        (words.milliseconds, -4.5, f"{_MINUS}4.5 ms"),
        (words.milliseconds, 1200.0, "1,200 ms"),
        (words.ppm, -2.2, f"{_MINUS}2 ppm"),
        (words.ppm, -0.2, "0 ppm"),
        (words.ppm, 14_000.0, "+1.40 %"),
        (words.offset, -0.0331, f"{_MINUS}33 ms"),
        (words.figure, 13_468_301.2, "13.5 M"),
        (words.figure, 1230.0, "1,230"),
        (words.figure, -0.0123, f"{_MINUS}0.0123"),
        (words.figure, 4.2e-5, "4.2e-05"),
        (words.figure, 0.0, "0"),
        (words.metres, 0.00029, "0.29 mm"),
        (words.metres, 0.042, "42 mm"),
        (words.metres, 3.549, "3.55 m"),
        (words.instant, 1_700_000_000.0, "2023-11-14 22:13:20 UTC"),
        (words.instant, 1e18, "1000000000000000000.000 s"),
    ],
)
def test_figures(write: Callable[[float], str], value: float, text: str) -> None:
    assert write(value) == text


def test_clocks_are_as_long_as_the_recording_needs() -> None:
    assert [words.clock(65.4, longest) for longest in (50, 600, 4000)] == ["65.4 s", "1:05", "0:01:05"]


def test_lists_name_each_once_and_not_too_many() -> None:
    assert words.join(["a"]) == "a"
    assert words.join(["a", "b", "a"]) == "a and b"
    assert words.join(["a", "b", "c", "d"]) == "a, b and 2 more"
    assert words.count(1, "gap") == "1 gap" and words.count(2000, "gap") == "2,000 gaps"
