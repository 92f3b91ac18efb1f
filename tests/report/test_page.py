"""The page in a browser: it shows the whole recording, fetches nothing, and fits the window."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import report_files
from rover_pipeline.report.templating import PAGE
from tests.browser import Tab
from tests.kit import small_trace
from tests.report.scene import walk

SECTIONS = {
    "complete": "Is the recording complete?",
    "wrong": "Is anything wrong?",
    "motion": "Where did it go?",
    "look": "What does it look like?",
    "processing": "How was it processed?",
    "words": "What do the words mean?",
}
#: A desktop, a phone, and the narrowest phone there is.
WIDTHS = (1280, 390, 320)
#: Name and box, in pixels of the page, of every chart and image.
_CHARTS_AND_IMAGES = """
[...document.querySelectorAll('main .chart, main img')].map(e => {
  const box = e.getBoundingClientRect();
  const name = e.tagName == 'IMG' ? 'image' : e.ariaLabel;
  return [name, box.left + scrollX, box.top + scrollY, box.right + scrollX, box.bottom + scrollY];
})
"""
#: CSS variables with the colours of marks and curves in a chart, by the first word of its label.
_COLOURS_OF_CHARTS = {
    "Timeline": ("lidar", "radar", "camera", "imu", "derived", "bad", "fair"),
    "Distance": ("lidar", "radar", "camera", "imu"),
    "Time": ("radar",),
    "The": ("accent", "good", "bad"),
    "Speed": ("lidar", "bad"),
    "Quality": ("lidar",),
}
_HEADINGS = """
Object.fromEntries([...document.querySelectorAll('main > section')].map(e => [e.id, e.querySelector('h2').innerText]))
"""
#: Elements that reach beyond the right edge, except for those inside of a scrollable element.
_TOO_WIDE = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.strip, pre, dialog, .skip, .only-read'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.outerHTML.slice(0, 120))
"""

#: Labels of charts that are not whole, where those of the vertical axes are as long as such labels get.
_CUT_OFF = """
[...document.querySelectorAll('.chart text')].filter(e => {
  if (/^[0-9.]+$/.test(e.textContent)) e.textContent = '2.5e-14';
  const svg = e.closest('svg'), box = e.getBoundingClientRect();
  const room = (getComputedStyle(svg).overflow == 'visible' ? e.closest('section') : svg).getBoundingClientRect();
  return box.width && (box.left < room.left || box.right > room.right);
}).map(e => e.textContent)
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_shows_every_section_and_fetches_nothing(
    tab: Tab, page: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    tab.open(page, width=width, dark=dark)
    assert tab.complaints == [] and tab.requests == []
    assert tab.run(_HEADINGS) == SECTIONS
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(_TOO_WIDE) == []
    shown = ".wide" if width > 640 else ".narrow"
    size = "e.checkVisibility() ? e.innerHTML.length : 0"
    charts = tab.run(f"[...document.querySelectorAll('main .chart {shown} svg')].map(e => {size})")
    assert [size > 1000 for size in charts] == [True, False, False, True, True, True], (
        "timeline, path, speed and quality are visible, jitter and sync only when they are unfolded"
    )
    pictures = tab.run("[...document.querySelectorAll('main img')].map(e => e.complete && e.naturalWidth)")
    assert len(pictures) == 3 * 5 + 1 and all(pictures), "every picture can be decoded"
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 150) == dark
    tab.screenshot(tmp_path / "page.png")
    image = cv2.imread(str(tmp_path / "page.png"))
    assert image is not None and image.shape[1] == width and image.shape[0] > 2000
    assert np.ptp(image[::7, ::7].reshape(-1, 3), axis=0).min() > 100, "the page is not blank"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_charts_are_drawn_in_the_colours_of_the_theme_and_images_are_not_blank(
    tab: Tab, page: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    tab.open(page, width=width, dark=dark)
    tab.run("document.querySelectorAll('details').forEach(e => { e.open = true })")
    boxes = tab.run(_CHARTS_AND_IMAGES)
    tab.screenshot(tmp_path / "page.png")
    screenshot = cv2.imread(str(tmp_path / "page.png"), cv2.IMREAD_COLOR_RGB)
    assert screenshot is not None
    charts = [name for name, *_ in boxes if name != "image"]
    assert [name.split()[0] for name in charts] == ["Timeline", "Distance", "Time", "The", "Speed", "Quality"]
    assert len(boxes) - len(charts) == 3 * 5 + 1
    for name, left, top, right, bottom in boxes:
        crop = screenshot[round(top) : round(bottom), round(left) : min(round(right), width)].astype(int)
        if crop.size == 0:
            continue  # a strip of images continues beyond the window
        if name == "image":
            assert crop.std(axis=(0, 1)).max() > 5, "an image is not blank"
        for colour in _COLOURS_OF_CHARTS.get(name.split()[0], ()):
            value = tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('--{colour}')").strip()
            rgb = np.array([int(value[i : i + 2], 16) for i in (1, 3, 5)])
            assert _similar_pixels(crop, rgb) > 20, f"{name} shows {colour}"


def _similar_pixels(image: np.ndarray, rgb: np.ndarray) -> int:
    """Number of pixels with the hue of a colour. A line may be blended with the background to half its saturation."""
    chroma, wanted = image - image.mean(axis=-1, keepdims=True), rgb - rgb.mean()
    projection = chroma @ wanted
    cosine = projection / np.maximum(np.linalg.norm(chroma, axis=-1) * np.linalg.norm(wanted), 1e-9)
    return int(((projection > 0.4 * wanted @ wanted) & (cosine > 0.95)).sum())


@pytest.mark.parametrize("width", WIDTHS)
def test_labels_of_charts_are_not_cut_off(tab: Tab, page: Path, width: int) -> None:
    tab.open(page, width=width)
    assert tab.run(_CUT_OFF) == []


def test_the_page_tells_the_verdict_and_the_figures(tab: Tab, page: Path) -> None:
    tab.open(page, width=390)
    text = tab.run("document.body.innerText")
    for words in ("Usable, with", "lost 3 samples (7.5 %) in 2 gaps", "maximum Doppler", "5.8 m", "10 Hz", "_odom"):
        assert words in text
    assert "walk" in tab.run("document.title")


def test_an_image_is_enlarged_by_a_tap(tab: Tab, page: Path) -> None:
    tab.open(page, width=1280)
    assert tab.run("document.querySelector('dialog').open") is False
    tab.run("document.querySelector('.frames button').click()")
    assert tab.run("document.querySelector('dialog').open") is True
    assert tab.run("document.querySelector('dialog img').src === document.querySelector('.frames img').src") is True
    assert "camera" in tab.run("document.querySelector('dialog').innerText")
    tab.run("document.querySelector('dialog button').click()")
    assert tab.run("document.querySelector('dialog').open") is False
    assert tab.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_map_can_be_turned_in_three_dimensions_and_is_a_picture_without_scripts(
    tab: Tab, page: Path, width: int
) -> None:
    shown = "(() => { const c = document.querySelector('.view3d canvas'); "
    shown += "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0, sum = 0; "
    shown += (
        "for (let i = 0; i < d.length; i += 4) { if (Math.max(d[i], d[i + 1], d[i + 2]) > 60) { n++; sum += i; } } "
    )
    shown += "return [n, sum, c.clientWidth]; })()"
    tab.open(page, width=width)
    points, first, wide = tab.run(shown)
    assert points > 500 and width / 2 < wide <= width, "the points of the map are drawn, and as wide as the window"
    box = "document.querySelector('.view3d canvas').getBoundingClientRect()"
    left, top = tab.run(f"[{box}.left + window.scrollX + 100, {box}.top + window.scrollY + 100]")
    for kind, right in (("mousePressed", 0), ("mouseMoved", 90), ("mouseReleased", 90)):
        tab.run(f"window.scrollTo({{top: {top - 300}, behavior: 'instant'}})")
        tab.call("Input.dispatchMouseEvent", type=kind, x=left + right, y=300, button="left", clickCount=1)
    turned = tab.run(f"new Promise((done) => requestAnimationFrame(() => setTimeout(() => done({shown}), 50)))")
    assert turned[1] != first, "dragging turns it"
    assert tab.complaints == [] and tab.requests == []
    # Only the script shows the view, and the picture of the map is not in it.
    html = page.read_text()
    view = html[html.index('<figure class="view3d" hidden>') : html.index("</figure>", html.index('class="view3d"'))]
    picture = 'alt="The map of the whole recording from above"'
    assert picture in html and picture not in view and "<img" not in view


def test_videos_and_recordings_beside_the_trace_are_linked(scene: Path, tmp_path: Path) -> None:
    trace = tmp_path / "a walk"
    shutil.copytree(scene, trace)
    options = PageOptions(outputs=("report",), instants=1, picture_width=64)
    assert "export rrd a walk" in report_files(trace, options)[PAGE].decode()
    (tmp_path / "a walk.mp4").write_bytes(bytes(2_000_000))
    (trace / "all.rrd").write_bytes(bytes(10))
    (tmp_path / "other.mp4").touch()
    html = report_files(trace, options)[PAGE].decode()
    assert '<a href="../../a%20walk.mp4">a walk.mp4</a>, a video of 2.0 MB' in html
    assert '<a href="../all.rrd">all.rrd</a>' in html and "other.mp4" not in html


def test_images_have_a_text_and_ids_are_unique(files: dict[str, bytes]) -> None:
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
def test_a_trace_with_one_sensor_has_a_page_too(tab: Tab, tmp_path: Path, sensor: str) -> None:
    trace = small_trace(tmp_path / "alone", 8, sensors=(sensor,), invalid={})
    path = tmp_path / PAGE
    path.write_bytes(report_files(trace, PageOptions(outputs=("report",), instants=2))[PAGE])
    tab.open(path, width=390)
    assert tab.complaints == [] and tab.requests == []
    expected = ["complete", "wrong", *(["look"] if sensor == "camera" else []), "words"]
    assert list(tab.run(_HEADINGS)) == expected
    assert tab.run(_TOO_WIDE) == []


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path, files: dict[str, bytes]) -> None:
    again = walk(tmp_path / "elsewhere" / "walk")
    assert report_files(again, PageOptions(outputs=("report",), instants=3, picture_width=96)) == files


def test_markup_in_a_name_is_shown_as_text(tab: Tab, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "a<script>alert(1)</script>", 8, sensors=("imu",), invalid={})
    path = tmp_path / PAGE
    path.write_bytes(report_files(trace, PageOptions())[PAGE])
    tab.open(path, width=1280)
    assert tab.run("document.querySelector('h1').innerText") == trace.name
    assert tab.run("document.querySelectorAll('h1 script').length") == 0


class _Names(HTMLParser):
    """Ids, references and headings of a page, and whether each element that is opened is closed."""

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
