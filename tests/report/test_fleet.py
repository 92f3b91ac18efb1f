"""The page of many recordings: worst first, with links to the page of each, and it can be sorted and searched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.errors import ConfigError, InTheWayError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.report.fleet import Row, make_report, write_fleet
from rover_pipeline.report.moved import compare_mounts
from rover_pipeline.report.summary import MountSummary, Summary
from rover_pipeline.report.templating import PAGE, REPORT, SUMMARY
from tests.browser import Tab
from tests.kit import small_trace, times

SENSORS = ("imu", "lidar")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Recordings in folders of days: a good one, one with a gap, one without a sidecar, one with a name to escape."""
    fleet = tmp_path / "fleet"
    for name in ("mon/good", "mon/gap", "tue/broken", "tue/#1 50% <b>"):
        small_trace(fleet / name, 12, sensors=SENSORS, invalid={})
    (times(13)[[*range(5), *range(6, 13)]]).tofile(fleet / "mon" / "gap" / "imu" / "ts")
    (fleet / "tue" / "broken" / "lidar" / "lidar.json").unlink()
    return fleet


def test_the_worst_recording_comes_first_and_is_linked_to_its_page(folder: Path, tab: Tab) -> None:
    page, rows = write_fleet([str(folder)])
    assert page == folder / REPORT / PAGE
    names = ["tue/broken", "mon/gap", "mon/good", "tue/#1 50% <b>"]
    assert [row.name for row in rows] == names
    assert [row.verdict for row in rows] == ["bad", "fair", "good", "good"]
    tab.open(page, width=1280)
    assert tab.complaints == [] and tab.requests == []
    assert tab.run("[...document.querySelectorAll('tbody th a')].map(e => e.innerText)") == names
    links = tab.run("[...document.querySelectorAll('tbody th a')].map(e => e.getAttribute('href'))")
    for row, link in zip(rows, links, strict=True):
        assert (page.parent / unquote(link)).resolve() == (row.path / REPORT / PAGE).resolve()
        assert (page.parent / unquote(link)).exists()
    text = tab.run("document.body.innerText")
    assert "4 recordings" in text and "lidar.json is missing" in text and "lost 1 sample" in text
    entries = json.loads((folder / REPORT / "fleet.json").read_text())
    assert [entry["verdict"] for entry in entries] == ["bad", "fair", "good", "good"]


def test_recordings_can_be_sorted_and_searched_on_a_desktop_and_a_phone(folder: Path, tab: Tab) -> None:
    page, _ = write_fleet([str(folder)])
    rows = "[...document.querySelectorAll('tbody tr')].filter(e => e.checkVisibility())"
    shown = f"{rows}.map(e => e.querySelector('a').innerText)"
    for width in (1280, 390):
        tab.open(page, width=width)
        assert tab.run("document.documentElement.scrollWidth") <= width
        tab.run("document.querySelectorAll('thead button')[1].click()")  # by name
        assert tab.run(shown) == ["mon/gap", "mon/good", "tue/#1 50% <b>", "tue/broken"]
        assert tab.run("document.querySelectorAll('thead th')[1].ariaSort") == "ascending"
        tab.run("document.querySelectorAll('thead button')[1].click()")
        assert tab.run(shown) == ["tue/broken", "tue/#1 50% <b>", "mon/good", "mon/gap"]
        tab.run("[...document.querySelectorAll('thead button')].find(e => e.innerText == 'Lost').click()")
        assert tab.run(shown)[0] == "mon/gap"
        search = "(text) => { const e = document.querySelector('input[type=search]'); e.value = text;"
        search += " e.dispatchEvent(new Event('input', {bubbles: true})); }"
        tab.run(f"({search})('SIDECAR')")
        assert tab.run(shown) == []
        tab.run(f"({search})('lidar.json')")
        assert tab.run(shown) == ["tue/broken"]
        tab.run(f"({search})('')")
        tab.run("document.querySelector('input[value=good]').click()")
        assert sorted(tab.run(shown)) == ["mon/gap", "tue/broken"]
        assert tab.run("document.querySelector('output').innerText") == "2 of 4 shown"
        assert tab.complaints == []


def test_pages_are_written_when_they_are_missing_or_older_than_the_trace(folder: Path) -> None:
    trace = folder / "mon" / "good"
    page = make_report(trace)
    before = page.stat().st_mtime_ns
    assert make_report(trace) == page and page.stat().st_mtime_ns == before
    (times(12) + 0.5).tofile(trace / "imu" / "ts")
    make_report(trace)
    assert page.stat().st_mtime_ns > before
    before = page.stat().st_mtime_ns
    (trace / "config.yaml").write_text("imu: {args: {fps: 20}}")
    make_report(trace)
    assert page.stat().st_mtime_ns > before
    assert '"start_s":1700000000.0' in (trace / REPORT / SUMMARY).read_text().replace(" ", "")


def test_a_recording_whose_page_cannot_be_written_is_listed_and_sets_the_exit_status(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mon" / "good" / REPORT).mkdir()
    (folder / "mon" / "good" / REPORT / "notes.txt").write_text("mine")
    assert main(["report", str(folder)]) == 1
    output = capsys.readouterr()
    assert "was not made by rover_pipeline" in output.err and output.out.strip() == str(folder / REPORT / PAGE)
    assert "without a report" in (folder / REPORT / PAGE).read_text()
    assert (folder / "mon" / "good" / REPORT / "notes.txt").read_text() == "mine"


def test_the_command_writes_the_page_of_one_recording_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = folder / "mon" / "good"
    assert main(["report", str(trace)]) == 0
    assert capsys.readouterr().out.strip() == str(trace / REPORT / PAGE)
    out = folder.parent / "page"
    assert main(["report", str(trace), str(folder / "tue"), "-o", str(out)]) == 0
    provenance = read_provenance(out)
    assert provenance is not None and len(provenance["inputs"]) == 3


def test_files_of_someone_else_are_not_overwritten(folder: Path) -> None:
    make_report(folder / "mon" / "good")
    for directory, problem in (
        (folder / "mon" / "good" / REPORT, "of one recording"),
        (folder / "mon", "was not made by"),
    ):
        with pytest.raises(InTheWayError, match=problem):
            write_fleet([str(folder)], directory)
    with pytest.raises(ConfigError, match="-o DIR"):
        write_fleet([str(folder / "mon" / "good"), str(folder / "mon" / "gap")])


def test_a_summary_of_a_later_version_is_read_and_a_damaged_one_is_reported(folder: Path) -> None:
    write_fleet([str(folder)])
    summary = folder / "mon" / "good" / REPORT / SUMMARY
    content = json.loads(summary.read_text())
    summary.write_text(json.dumps({**content, "invented": 1}))
    shutil.copy(summary, folder / "mon" / "gap" / REPORT / SUMMARY)
    (folder / "tue" / "broken" / REPORT / SUMMARY).write_text('{"trace": 3}')
    _, rows = write_fleet([str(folder)])
    by_name = {row.name: row for row in rows}
    assert by_name["mon/good"].verdict == by_name["mon/gap"].verdict == "good"
    assert by_name["tue/broken"].verdict == "none" and "cannot be read" in by_name["tue/broken"].problem


def test_a_recording_whose_name_is_no_text_has_its_page_and_is_linked(folder: Path, tmp_path: Path) -> None:
    named = Path(os.fsdecode(os.fsencode(folder) + b"/mon/caf\xe9"))
    (folder / "mon" / "good").rename(named)
    page, rows = write_fleet([str(folder)])
    row = next(row for row in rows if row.path == named)
    assert row.summary is not None and row.link.endswith("mon/caf%E9/_report/index.html")
    assert (folder / REPORT / row.link.replace("%E9", "\udce9")).exists()
    listed = json.loads((folder / REPORT / "fleet.json").read_text())
    assert f"{folder}/mon/caf\\udce9" in [each["trace"] for each in listed]
    assert "caf\\udce9" in page.read_text() and "caf\\udce9" in (named / REPORT / PAGE).read_text()
    assert write_fleet([str(folder)])[1] == rows, "what was written can be read again"


def row_with_mount(number: int, error: np.ndarray, sigma: np.ndarray, shared: np.ndarray) -> Row:
    """A good recording that shows a radar with errors of its mount, f8 (7,)."""
    mount = MountSummary(
        sensor="radar",
        translation=tuple((np.array([0.1, 0.2, 0.3]) + error[3:6]).tolist()),
        rotation=exp(error[None, :3])[0].tolist(),
        time_offset=float(error[6]),
        covariance=(np.diag(sigma**2) + shared).tolist(),
        shared=shared.tolist(),
    )
    name = f"{number:02d}"
    summary = Summary(trace=name, verdict="good", headline="Good.", start_s=float(number), mounts=(mount,))
    return Row(name, Path(name), "", summary)


def test_a_sensor_that_was_moved_between_two_recordings_is_a_finding_of_the_later_one() -> None:
    rng = np.random.default_rng(1)
    sigma = np.array([np.radians(0.1)] * 3 + [0.01] * 3 + [0.001])
    common = np.array([np.radians(0.5)] * 3 + [0.03] * 3 + [0.0])  # of all: the array of the radar, for example
    shared, offset = np.diag(common**2), common * rng.normal(size=7)
    rows = [row_with_mount(i, offset + sigma * rng.normal(size=7), sigma, shared) for i in range(40)]
    same = compare_mounts(rows[::-1])
    assert [row.verdict for row in same] == ["good"] * 40
    turned = [np.r_[0, 0, np.radians(1.5), np.zeros(4)] * (i >= 25) for i in range(40)]
    rows = [
        row_with_mount(i, offset + more + sigma * rng.normal(size=7), sigma, shared) for i, more in enumerate(turned)
    ]
    found = [row for row in compare_mounts(rows[::-1]) if row.verdict != "good"]
    assert [row.name for row in found] == ["25"] and found[0].summary is not None
    (finding,) = found[0].summary.findings
    assert finding.place == "radar" and "has another mount than in 24: yaw +1." in finding.text
    assert "another mount" in found[0].summary.headline
