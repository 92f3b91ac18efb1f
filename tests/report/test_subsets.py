"""Whatever sensors a recording has, default outputs give it a page that is true, and each command on it works."""

from __future__ import annotations

import html
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.format.meta import read_meta
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.summary import Summary
from rover_pipeline.simulate.record import simulate
from tests.importers.test_check import CAPTURES, typed
from tests.kit import environment

pytestmark = pytest.mark.system

SENSORS = ("lidar", "radar", "camera", "imu")
SUBSETS = [subset for size in range(1, 5) for subset in itertools.combinations(SENSORS, size)]
#: Words that call a recording damaged, which none of these is.
BROKEN = re.compile(r"broken|damaged|cannot be read|was not made|Traceback|nan\b|inf\b|None\b(?! near)|±0\.0 m/s")
#: A command on the page or in `summary.json`.
COMMAND = re.compile(r"rover-pipeline \w[^`\n]*")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("whole") / "whole"
    simulate(trace, preset="tiny", duration=2.5, seed=4, threads=1)
    return trace


def part_of(whole: Path, trace: Path, sensors: tuple[str, ...]) -> Path:
    """The recording with some of its sensors."""
    trace.mkdir()
    shutil.copy(whole / "config.yaml", trace)
    for name in sensors:
        shutil.copytree(whole / name, trace / name)
    return trace


def emptied(sensor: Path) -> None:
    """A sensor that was there and recorded nothing."""
    for name in read_meta(sensor):
        for path in (sensor / name, sensor / f"{name}_i"):
            if path.is_file():
                path.write_bytes(b"")


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rover_pipeline", "run", str(folder), "--cores", "2", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900, check=False)


def summary_of(trace: Path) -> Summary:
    return Summary.model_validate_json((trace / "_report" / "summary.json").read_text())


def commands_of(trace: Path) -> Iterator[str]:
    """Every command that the page and `summary.json` give."""
    for finding in summary_of(trace).findings:
        for text in (finding.text, finding.advice):
            yield from (each.strip() for each in COMMAND.findall(text))
    page = (trace / "_report" / "index.html").read_text()
    for text in re.findall(r"<code>(.*?)</code>", page, re.DOTALL):
        yield from (each.strip() for each in COMMAND.findall(html.unescape(text)))


def follow(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paste every command, in the folder that holds the recording."""
    monkeypatch.chdir(trace.parent)
    for command in dict.fromkeys(commands_of(trace)):
        words = shlex.split(command)[1:]
        if words[0] == "run":
            done = subprocess.run(
                [sys.executable, "-m", "rover_pipeline", *words],
                env=environment(), capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stderr[-2000:])
        else:
            assert main(words) == 0, command
            for made in trace.parent.glob(f"{trace.name}.*"):
                made.unlink()


def visible_text(page: str) -> str:
    """What a reader sees of a page."""
    without = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", without))


@pytest.fixture(scope="module")
def subsets(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All subsets of the sensors, and all sensors with one or all of them empty, processed by one command."""
    folder = tmp_path_factory.mktemp("subsets")
    for subset in SUBSETS:
        part_of(whole, folder / "-".join(subset), subset)
    for empty in SENSORS:
        emptied(part_of(whole, folder / f"empty-{empty}", SENSORS) / empty)
    for name in SENSORS:
        emptied(part_of(whole, folder / f"only-empty-{name}", (name,)) / name)
    path = part_of(whole, folder / "reference", ())
    shutil.copytree(whole / "_truth", path / "_reference")
    path = part_of(whole, folder / "imu-reference", ("imu",))
    shutil.copytree(whole / "_truth", path / "_reference")
    done = process(folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.mark.parametrize("subset", SUBSETS, ids="-".join)
def test_every_subset_of_sensors_has_a_page_that_calls_nothing_broken(
    subsets: Path, subset: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = subsets / "-".join(subset)
    summary = summary_of(trace)
    assert summary.verdict != "bad", summary.findings
    assert not BROKEN.search(visible_text((trace / "_report" / "index.html").read_text()))
    provenance = read_provenance(trace / "_sync")
    assert provenance and provenance["measured"]["reference"] == subset[0]
    assert len(Sensor(trace / "_sync").recorded_times()) == len(Sensor(trace / subset[0]).recorded_times())
    follow(trace, monkeypatch)


@pytest.mark.parametrize("empty", SENSORS)
@pytest.mark.parametrize("kind", ["empty", "only-empty"])
def test_a_sensor_without_samples_is_told_once_and_all_others_are_used(
    subsets: Path, kind: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = subsets / f"{kind}-{empty}"
    found = [(each.severity, each.place, each.text) for each in summary_of(trace).findings]
    assert [each for each in found if each[0] == "error"] == [("error", empty, "holds no samples")]
    if kind == "empty":
        assert sum(each[1].partition("/")[0] == empty for each in found) == 1, found
        made = {path.name for path in trace.glob("_*")}
        assert made >= {path.name for path in (subsets / "-".join(s for s in SENSORS if s != empty)).glob("_*")}
    else:
        assert len(found) == 1, found
    follow(trace, monkeypatch)


@pytest.mark.parametrize("name", ["reference", "imu-reference"])
def test_a_path_that_came_with_the_recording_is_shown(
    subsets: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = subsets / name
    summary = summary_of(trace)
    assert summary.verdict == "good" and summary.motion and summary.motion.source == "_reference"
    assert summary.motion.distance_m > 0.5 and summary.duration_s > 2
    assert "reference path" in visible_text((trace / "_report" / "index.html").read_text())
    follow(trace, monkeypatch)


def test_without_a_rig_the_run_the_results_and_the_page_say_so(whole: Path, tmp_path: Path) -> None:
    trace = part_of(whole, tmp_path / "trace", SENSORS)
    (trace / "config.yaml").write_text(re.sub(r"(?ms)^rig:.*?(?=^\S|\Z)", "", (trace / "config.yaml").read_text()))
    done = process(trace)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stderr.splitlines() if "on the rig" in line]
    assert said == [
        f"rover-pipeline: {trace}: nothing says where camera, imu, radar are on the rig: taken to be where the lidar "
        "is; set `rig`"
    ]
    for name, sensor in (("_radar_pose", "radar"), ("_camera_pose", "camera"), ("_imu_pose", "imu"), ("_bev", "radar")):
        notes = json.loads((trace / name / "provenance.json").read_text())["notes"]
        assert any(note.startswith(f"rig: nothing says where the {sensor} is") for note in notes), name
    warned = [each for each in summary_of(trace).findings if each.place == "rig"]
    assert len(warned) == 3 and {each.severity for each in warned} == {"warning"}


@pytest.mark.parametrize("subset", [("lidar",), ("camera", "imu"), ("radar",)], ids="-".join)
def test_without_sensors_that_need_it_nothing_is_said_of_a_rig(
    whole: Path, tmp_path: Path, subset: tuple[str, ...]
) -> None:
    trace = part_of(whole, tmp_path / "trace", subset)
    (trace / "config.yaml").write_text(re.sub(r"(?ms)^rig:.*?(?=^\S|\Z)", "", (trace / "config.yaml").read_text()))
    done = process(trace)
    assert done.returncode == 0 and "on the rig" not in done.stderr, done.stderr[-3000:]
    assert not any(each.place == "rig" for each in summary_of(trace).findings)


#: Results that these captures cannot give, which the page says as errors: too few sweeps, an IMU that stood still, two
#: lidars of which one ends seconds before the other begins, or a radar with no pose that is valid.
HARD = {
    "bags/vlp16", "bags/sample_velodyne_vlp16_gps.pcap", "bags/pj_rosbag2_test_0.db3", "bags/embag.bag",
    "bags/ti_mmwave_radar_imu.bag",
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURES)
def test_every_capture_has_a_page_by_default_and_each_command_on_it_works(
    captures: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, _, _ = CAPTURES[name]
    assert main(typed(arguments, captures, tmp_path)) == 0
    trace = tmp_path / "trace"
    done = process(trace)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = summary_of(trace)
    assert (summary.verdict == "bad") == (name in HARD), summary.findings
    assert not BROKEN.search(visible_text((trace / "_report" / "index.html").read_text()))
    follow(trace, monkeypatch)
