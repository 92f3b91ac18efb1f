"""The page says what is so: of one chirp a frame, of a path that is nowhere valid, of what follows from others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import VALID
from rover_pipeline.options import PageOptions
from rover_pipeline.report.findings import marks
from rover_pipeline.report.page import PAGE, report_files, summarise
from rover_pipeline.report.summary import Finding, StepSummary
from rover_pipeline.report.templating import GLOSSARY, glossary
from rover_pipeline.table import find_step
from tests.conftest import CHECKOUT
from tests.kit import small_trace
from tests.report.scene import provenance, walk
from tests.report.test_subsets import visible_text


def page_of(trace: Path) -> str:
    return visible_text(report_files(trace, PageOptions(instants=2))[PAGE].decode())


def test_a_radar_of_one_chirp_a_frame_has_no_maximum_doppler_and_no_empty_plot(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "fan", 8, sensors=("radar",), iq_shape=(1, 2, 4, 32), invalid={"radar": ()})
    for name in ("_radar_points", "_radar_velocity"):
        run_step(find_step(name), trace, name, Request())
    summary = summarise(trace, PageOptions(outputs=("report",)))
    assert summary.verdict == "good" and summary.radar_speed is None
    assert [each.text for each in summary.findings if each.place == "radar"] == [
        "sends one chirp a frame, which measures how far targets are and not how fast"
    ]
    text = page_of(trace)
    assert "aximum Doppler 0" not in text and "m/s" not in text.split("What do the words mean?")[0]
    assert "Where did it go?" not in text


def test_where_no_pose_is_valid_the_figures_that_tell_why_are_shown(tmp_path: Path) -> None:
    trace = walk(tmp_path / "walk")
    count = len(np.fromfile(trace / "_odom" / VALID, "u1"))
    np.zeros(count, "u1").tofile(trace / "_odom" / VALID)
    text = page_of(trace)
    assert "How good is the path?" in text and f"{count} of {count} poses are not" in text
    assert "inlier ratio" in text and "Distance" not in text.split("Is the recording complete?")[0]
    findings = [each for each in summarise(trace, PageOptions()).findings if each.place == "_odom"]
    assert findings[0].severity == "error" and "How good is the path?" in findings[0].advice


def test_what_follows_from_invalid_poses_is_said_once(tmp_path: Path) -> None:
    trace = walk(tmp_path / "walk")
    count = len(np.fromfile(trace / "_odom" / VALID, "u1"))
    for name in ("_odom", "_bev"):
        np.zeros(count, "u1").tofile(trace / name / VALID)
    content = json.loads((trace / "_bev" / "provenance.json").read_text())
    found = {each.place for each in summarise(trace, PageOptions()).findings if "not to be trusted" in each.text}
    assert found == {"_odom", "_bev"}
    odom = {"_odom/pos": next(iter(content["inputs"].values()))}
    provenance(trace / "_bev", samples=count, invalid=count, source="lidar", inputs=content["inputs"] | odom)
    found = {each.place for each in summarise(trace, PageOptions()).findings if "not to be trusted" in each.text}
    assert found == {"_odom"}


def test_marks_are_those_of_the_findings_and_a_result_without_a_valid_sample_is_never_good() -> None:
    findings = [
        Finding(severity="error", place="lidar/rng", text="x"),
        Finding(severity="warning", place="_sync/radar", text="x"),
        Finding(severity="note", place="imu", text="x"),
    ]
    steps = [StepSummary(sensor="_bev", step="x", version=1, samples=3, invalid=3)]
    found = marks(findings, steps)
    assert found == {
        "lidar/rng": "bad", "lidar": "bad", "_sync/radar": "fair", "_sync": "fair", "imu": "good", "_bev": "fair",
    }  # fmt: skip


def test_a_mark_is_of_the_figure_that_is_wrong_and_not_of_others_beside_it(tmp_path: Path) -> None:
    trace = walk(tmp_path / "walk")
    sidecar = json.loads((trace / "radar" / "radar.json").read_text())
    (trace / "radar" / "radar.json").write_text(json.dumps({**sidecar, "doppler_resolution": 3.0}))
    options = PageOptions(instants=0, max_invalid_share=0.01)
    page = report_files(trace, options)[PAGE].decode()
    found = {(each.place, each.figure): each.severity for each in summarise(trace, options).findings}
    assert found["lidar", "lost"] == found["radar", "invalid"] == "warning"
    rows = [row for row in page.split("<tr>") if 'data-label="jitter"' in row]
    for name, wrong in (("lidar", "lost"), ("radar", "not valid")):
        row = next(row for row in rows if f"<code>{name}</code>" in row)
        cells = dict(re.findall(r'<td class="[^"]*" data-label="([^"]+)">(.*?)</td>', row, re.DOTALL))
        assert len(cells) > 8 and [label for label, cell in cells.items() if "verdict-mark" in cell] == [wrong]
    mark = re.search(r'title="([^"]+)">(?:(?!title=).)*The radar measures speeds', page, re.DOTALL)
    assert mark and mark[1] == "nothing wrong found", "the lost frames of the radar say nothing of its maximum Doppler"


def test_words_of_the_page_lead_to_the_list_of_the_manual(tmp_path: Path) -> None:
    page = report_files(walk(tmp_path / "walk"), PageOptions(instants=0))[PAGE].decode()
    table = (CHECKOUT / GLOSSARY).read_text().split("\n## ")[1]
    assert len(glossary()) > 20 and all(f"| {names} | {meaning} |" in table for names, meaning in glossary().items())
    links = set(re.findall(r'class="word" href="#([\w-]+)"', page))
    assert {"word-valid", "word-interval", "word-clock", "word-maximum-Doppler", "word-RMS"} <= links
    assert links <= set(re.findall(r'id="([\w-]+)"', page))
    for riddle in ("times real time", "from below", "eigenvalue", "tell apart"):
        assert riddle not in page


@pytest.mark.parametrize("word", ["trace", "sweep", "valid", "rig", "aliased", "information", "residual", "latency"])
def test_the_glossary_has_the_words_that_a_new_user_asks_for(word: str) -> None:
    assert any(word in names.split(", ") for names in glossary())
