"""The page in a browser: everything that was recorded is on it, nothing is fetched, nothing sticks out."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.report.options import ReportOptions
from rover_pipeline.report.page import PAGE, report_files
from tests.browser import Tab
from tests.kit import small_trace
from tests.report.scene import walk

SECTIONS = {
    "complete": "Is the recording complete?",
    "wrong": "Is anything wrong?",
    "motion": "Where did it go?",
    "look": "What does it look like?",
    "processing": "How was it processed?",
}
#: A desk, a phone, and the narrowest phone there is.
WIDTHS = (1280, 390, 320)
_HEADINGS = """
Object.fromEntries([...document.querySelectorAll('main > section')].map(e => [e.id, e.querySelector('h2').innerText]))
"""
#: What reaches beyond the right edge, but for what can be scrolled by itself.
_STICKS_OUT = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.strip, pre, dialog, .skip, .only-read'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_shows_every_section_and_asks_nobody_for_anything(
    tab: Tab, page: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    tab.open(page, width=width, dark=dark)
    assert tab.complaints == [] and tab.requests == []
    assert tab.run(_HEADINGS) == SECTIONS
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(_STICKS_OUT) == []
    shown = ".wide" if width > 640 else ".narrow"
    size = "e.checkVisibility() ? e.innerHTML.length : 0"
    charts = tab.run(f"[...document.querySelectorAll('main .chart {shown} svg')].map(e => {size})")
    assert [size > 1000 for size in charts] == [True, False, False, True, True, True], (
        "timeline, path, speed and quality are seen, jitter and sync when they are unfolded"
    )
    pictures = tab.run("[...document.querySelectorAll('main img')].map(e => e.complete && e.naturalWidth)")
    assert len(pictures) == 3 * 5 + 1 and all(pictures), "every picture can be decoded"
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 150) == dark
    tab.screenshot(tmp_path / "page.png")
    image = cv2.imread(str(tmp_path / "page.png"))
    assert image is not None and image.shape[1] == width and image.shape[0] > 2000
    assert np.ptp(image[::7, ::7].reshape(-1, 3), axis=0).min() > 100, "something is to be seen"


def test_the_verdict_and_the_figures_are_read_out(tab: Tab, page: Path) -> None:
    tab.open(page, width=390)
    text = tab.run("document.body.innerText")
    for words in ("Usable, with", "lost 3 samples (7.5 %) in 2 gaps", "maximum Doppler", "5.8 m", "10 Hz", "_odom"):
        assert words in text
    assert "walk" in tab.run("document.title")


def test_a_picture_that_is_tapped_is_enlarged(tab: Tab, page: Path) -> None:
    tab.open(page, width=1280)
    assert tab.run("document.querySelector('dialog').open") is False
    tab.run("document.querySelector('.frames button').click()")
    assert tab.run("document.querySelector('dialog').open") is True
    assert tab.run("document.querySelector('dialog img').src === document.querySelector('.frames img').src") is True
    assert "camera" in tab.run("document.querySelector('dialog').innerText")
    tab.run("document.querySelector('dialog button').click()")
    assert tab.run("document.querySelector('dialog').open") is False
    assert tab.complaints == []


def test_everything_has_a_name_and_no_id_is_taken_twice(files: dict[str, bytes]) -> None:
    names = _Names()
    names.feed(files[PAGE].decode())
    assert names.open == []
    assert [name for name, count in Counter(names.ids).items() if count > 1] == []
    assert names.targets <= set(names.ids), "references within the page"
    assert names.unnamed == []
    levels = [int(tag[1]) for tag in names.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("sensor", ["lidar", "radar", "camera", "imu"])
def test_a_trace_with_one_sensor_has_a_good_page_too(tab: Tab, tmp_path: Path, sensor: str) -> None:
    trace = small_trace(tmp_path / "alone", 8, sensors=(sensor,), invalid={})
    path = tmp_path / PAGE
    path.write_bytes(report_files(trace, ReportOptions(instants=2))[PAGE])
    tab.open(path, width=390)
    assert tab.complaints == [] and tab.requests == []
    expected = ["complete", "wrong", *(["look"] if sensor == "camera" else [])]
    assert list(tab.run(_HEADINGS)) == expected
    assert tab.run(_STICKS_OUT) == []


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path, files: dict[str, bytes]) -> None:
    again = walk(tmp_path / "elsewhere" / "walk")
    assert report_files(again, ReportOptions(instants=3, picture_width=96)) == files


def test_names_that_are_markup_are_shown_and_not_obeyed(tab: Tab, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "a<script>alert(1)</script>", 8, sensors=("imu",), invalid={})
    path = tmp_path / PAGE
    path.write_bytes(report_files(trace, ReportOptions())[PAGE])
    tab.open(path, width=1280)
    assert tab.run("document.querySelector('h1').innerText") == trace.name
    assert tab.run("document.querySelectorAll('h1 script').length") == 0


class _Names(HTMLParser):
    """What a page's elements are called, and whether each that is opened is closed."""

    _VOID = frozenset({"meta", "link", "img", "input", "br", "path", "use", "circle", "polyline", "image", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: set[str] = set()
        self.headings: list[str] = []
        self.unnamed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in self._VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        references = [given.get("aria-labelledby", ""), given.get("href", "") if "#" in given.get("href", "") else ""]
        references += re.findall(r"url\(#([^)]+)\)", " ".join(given.values()))
        self.targets |= {reference.lstrip("#") for reference in references if reference}
        if (tag == "img" and "alt" not in given) or (given.get("role") == "img" and not given.get("aria-label")):
            self.unnamed.append(self.get_starttag_text() or tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self._VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()
