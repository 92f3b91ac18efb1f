"""Of every damage that the simulator and the tests of bad input know, the page names the sensor and the kind.

And no recording is called usable that lacks an output it should have.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from rover_pipeline.engine.command import StepCommand, run_command
from rover_pipeline.format.sensor import TS, TS_SPEC, SensorWriter
from rover_pipeline.format.trace import Trace
from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import summarise
from rover_pipeline.report.read.contents import look_into
from rover_pipeline.report.summary import Summary
from rover_pipeline.report.templating import REPORT, SUMMARY
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.table import find_step
from tests.kit import STAMP, WHOLE, environment, pictures, small_trace, spec_of, times
from tests.test_bad_input import CASES, cut, each, meta

FRAMES = 6
#: Outputs that take milliseconds, of three of the sensors. They stand for the default ones.
OUTPUTS = ("lidar_image", "radar_range_doppler", "sync")


class Damage(NamedTuple):
    """What is done to a recording, and what its page must say: a pattern of `place: text` of one finding."""

    do: Callable[[Path], object]
    named: str


def rewritten(channel: str, type: str, change: Callable[[np.ndarray], object]) -> Callable[[Path], None]:
    """Change the values of a raw channel."""

    def damage(trace: Path) -> None:
        values = np.fromfile(trace / channel, type)
        changed = change(values)
        np.asarray(values if changed is None else changed, type).tofile(trace / channel)

    return damage


def without_light(trace: Path) -> None:
    """Every picture is black, as under a lens cap."""
    video(trace, 0 * pictures(FRAMES, 16, 24))


def hung_camera(trace: Path) -> None:
    video(trace, np.repeat(pictures(1, 16, 24), FRAMES, axis=0))


def video(trace: Path, frames: np.ndarray) -> None:
    lens = (trace / "camera" / "camera.json").read_bytes()
    shutil.rmtree(trace / "camera")
    with SensorWriter(trace / "camera", {TS: TS_SPEC, "video.avi": spec_of(frames, "mjpg")}) as writer:
        writer.append(**{TS: times(len(frames)), "video.avi": frames})
    (trace / "camera" / "camera.json").write_bytes(lens)


def blind_lidar(trace: Path) -> None:
    """The lidar ran under its cover."""
    sidecar = (trace / "lidar" / "lidar.json").read_bytes()
    shutil.rmtree(trace / "lidar")
    arrays = {name: np.zeros((FRAMES, 8, 32), kind) for name, kind in (("rng", "u2"), ("rfl", "u1"), ("nir", "u2"))}
    specs = {TS: TS_SPEC, **{name: spec_of(values, "lzmaf") for name, values in arrays.items()}}
    with SensorWriter(trace / "lidar", specs) as writer:
        writer.append(**{TS: times(FRAMES), **arrays})
    (trace / "lidar" / "lidar.json").write_bytes(sidecar)


def saturated(iq: np.ndarray) -> np.ndarray:
    return np.clip(iq.astype("i4") * 40, -32768, 32767)


def exchanged(ts: np.ndarray) -> None:
    ts[[2, 3]] = ts[[3, 2]]


def moved(ts: np.ndarray, seconds: float) -> None:
    ts[FRAMES // 2 :] += seconds


#: Simulated damage; each is what the function of that name does to a recording.
SIMULATED = {
    "power-cut": r"lidar: was cut off",
    "corrupt-lidar": r"lidar/rng: sample 3 at byte \d+: is corrupt",
    "corrupt-video": r"camera/video.avi: sample 3 at byte \d+: does not begin like a JPEG",
    "missing-sidecars": r"lidar/lidar.json: is missing",
    "missing-index": r"lidar/rng_i: is missing or empty; indexed 6 samples",
    "missing-channel": r"radar/valid: .*is missing",
    "wrong-shape": r"lidar/lidar.json: describes samples of \[8, 32\], rng holds \[8, 16\]",
    "times-out-of-order": r"radar/ts: sample \d at byte \d+: .* does not come after",
}
#: What the page says in words of its own, where `check` and steps use others.
_OWN_WORDS = {
    "empty file": r"radar: was cut off: iq has 0 of 6 samples",
    "partial last sample": r"radar: was cut off: iq has 5 of 6 samples",
    "wrong type for the file size": r"radar: was cut off: iq has 3 of 6 samples",
    "truncated lzmaf": r"lidar: was cut off: rng has 5 of 6 samples",
}
DAMAGES: dict[str, Damage] = {
    **{f"simulated {name}": Damage(FAULTS[name], text) for name, text in SIMULATED.items()},
    **{
        name: Damage(case.damage, _OWN_WORDS.get(name, re.escape((case.check or case.message).split("{")[0])))
        for name, case in CASES.items()
        if case.check is not None
    },
    "equal times": Damage(
        rewritten("radar/ts", "f8", lambda ts: ts.__setitem__(3, ts[2])), r"radar/ts: sample 3 .* does not come after"
    ),
    "times of a camera that were exchanged": Damage(
        rewritten("camera/ts", "f8", exchanged), r"camera/ts: sample 3 .* does not come after"
    ),
    "a sensor that was started again, with its clock at the begin": Damage(
        rewritten("imu/ts", "f8", lambda ts: np.append(ts[:3], ts[:3])), r"imu/ts: sample 3 .* does not come after"
    ),
    "a clock that was set by ten days": Damage(
        rewritten("lidar/ts", "f8", partial(moved, seconds=864_000.0)), r"lidar/ts: sample 3 .*the clock was set"
    ),
    "a clock that was set by half a minute": Damage(
        rewritten("radar/ts", "f8", partial(moved, seconds=30.0)), r"radar: is silent for 30.1 s; lost 300 samples"
    ),
    "a clock of 1970": Damage(
        rewritten("lidar/ts", "f8", lambda ts: ts - ts[0]), r"lidar/ts: .* not seconds since 1970"
    ),
    "times in milliseconds": Damage(
        rewritten("camera/ts", "f8", lambda ts: 1e3 * ts), r"camera/ts: .* not seconds since 1970"
    ),
    "a radar that started late": Damage(
        rewritten("radar/ts", "f8", lambda ts: ts + 5), r"radar: starts 5.0 s after the first sensor"
    ),
    "a radar that ended early": Damage(
        lambda t: [rewritten(f"{name}/ts", "f8", lambda ts: ts[0] + 8 * (ts - ts[0]))(t) for name in ("lidar", "imu")],
        r"radar: ends 3.5 s before the recording does",
    ),
    "a saturated radar": Damage(rewritten("radar/iq", "i2", saturated), r"radar/iq: is clipped in 6 of 6 frames"),
    "a radar without a signal": Damage(
        rewritten("radar/iq", "i2", lambda iq: 0 * iq), r"radar/iq: holds nothing but 0 in 6 frames"
    ),
    "radar frames with lost packets": Damage(
        rewritten("radar/valid", "u1", lambda valid: valid * [1, 0, 0, 1, 1, 1]), r"radar: has 2 of 6 samples not valid"
    ),
    "a radar all of whose frames are incomplete": Damage(
        rewritten("radar/valid", "u1", lambda valid: 0 * valid), r"radar: has 6 of 6 samples not valid"
    ),
    "a lidar under its cover": Damage(blind_lidar, r"lidar/rng: has no return in any of 6 sweeps"),
    "a lens cap": Damage(without_light, r"camera/video.avi: shows one colour in 6 pictures"),
    "a camera that hung": Damage(hung_camera, r"camera/video.avi: shows the same in 6 pictures"),
    "an IMU that hung": Damage(
        rewritten("imu/acc", "f4", lambda acc: np.tile(acc[:3], FRAMES)), r"imu/acc: is the same in all 6 samples"
    ),
    "an IMU that sends NaN": Damage(
        rewritten("imu/avel", "f4", lambda avel: avel.__setitem__(slice(3, 9), np.nan)), r"imu/avel: has 2 samples"
    ),
    "a video without its end": Damage(
        lambda t: cut(t / "camera/video.avi", -200), r"camera: was cut off: video.avi has 5 of 6 samples"
    ),
    "an empty video": Damage(lambda t: cut(t / "camera/video.avi", 0), r"camera/video.avi: byte 0: is not an AVI file"),
    "an IMU with four axes": Damage(
        lambda t: meta(t / "imu", lambda m: m["acc"].update(shape=[4])),
        r"imu/acc: has samples of \[4\], must be of \[3\]",
    ),
    "an IMU that was cut off": Damage(lambda t: cut(t / "imu/avel", -13), r"imu: was cut off: avel has 4 of 6 samples"),
    "no config.yaml": Damage(lambda t: (t / "config.yaml").unlink(), r"has no config.yaml"),
    "a config.yaml that is no YAML": Damage(
        lambda t: (t / "config.yaml").write_text("lidar: [1\n"), r"config.yaml: .*YAML"
    ),
    "two sensors at once": Damage(
        each(FAULTS["corrupt-lidar"], lambda t: cut(t / "radar/iq", -100)),
        r"lidar/rng: sample 3 [^\n]*\n(.*\n)*radar: was cut off|radar: was cut off[^\n]*\n(.*\n)*lidar/rng: sample 3",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = small_trace(
        tmp_path_factory.mktemp("whole") / "rec", FRAMES, sensors=("lidar", "radar", "camera", "imu"), invalid={}
    )
    (trace / "camera" / "camera.json").write_text(json.dumps({"fx": 20.0, "fy": 20.0, "cx": 11.5, "cy": 7.5}))
    return trace


def processed(trace: Path) -> Summary:
    """The verdict on a recording after its outputs were made, as far as they can be, and reasons kept."""
    for name in OUTPUTS:
        with contextlib.suppress(Exception):
            command = StepCommand(find_step(f"_{name}"), (trace / f"_{name}" / STAMP,), "{}", None)
            run_command(command, trace, find=find_step, threads=1, log=None)
    return summarise(trace, PageOptions(outputs=(*OUTPUTS, "report"), instants=0))


def listed(summary: Summary) -> str:
    return "\n".join(f"{each.place}: {each.text}" for each in summary.findings if each.severity != "note")


def test_the_undamaged_recording_is_good(whole: Path, tmp_path: Path) -> None:
    summary = processed(Path(shutil.copytree(whole, tmp_path / "rec")))
    assert (summary.verdict, listed(summary)) == ("good", "")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_page_names_the_damage_and_calls_nothing_usable_that_lacks_an_output(
    damage: Damage, whole: Path, tmp_path: Path
) -> None:
    trace = Path(shutil.copytree(whole, tmp_path / "rec"))
    damage.do(trace)
    summary = processed(trace)
    assert re.search(damage.named, listed(summary)), listed(summary)
    assert summary.verdict != "good"
    if not all((trace / f"_{name}" / "meta.json").exists() for name in OUTPUTS):
        assert summary.verdict == "bad" and "sable" not in summary.headline, summary.headline
    assert str(tmp_path) not in summary.model_dump_json(), "the page does not tell where the recording lies"


@pytest.mark.parametrize("moves", [True, False])
def test_pictures_that_a_camera_repeats_are_named_if_it_moves(moves: bool, tmp_path: Path) -> None:
    frames = pictures(FRAMES, 16, 24)[[0, 1, 1, 1, 4, 5]]
    with SensorWriter(tmp_path / "camera", {TS: TS_SPEC, "video.avi": spec_of(frames, "mjpg")}) as writer:
        writer.append(**{TS: times(FRAMES), "video.avi": frames})
    pos, rot = np.zeros((FRAMES, 3)), np.tile(np.eye(3), (FRAMES, 1, 1))
    pos[:, 0] = 0.05 * np.arange(FRAMES) * moves
    states = {"pos": pos, "rot": rot, "cov": np.tile(1e-5 * np.eye(6), (FRAMES, 1, 1))}
    with SensorWriter(tmp_path / "_camera_pose", {TS: TS_SPEC, **{k: spec_of(v) for k, v in states.items()}}) as writer:
        writer.append(**{TS: times(FRAMES)}, **states)
    remarks = look_into(Trace(tmp_path), {}, ["_camera_pose"])
    assert [each.place for each in remarks] == ["camera/video.avi"] * moves
    assert not moves or "in 2 pictures, sample 2 first" in remarks[0].text


def test_there_are_forty_damages_and_more() -> None:
    assert len(DAMAGES) >= 40 and set(SIMULATED) == set(FAULTS)


#: Damages that one real run is tried on; all of them with ROVER_PIPELINE_WHOLE=1.
_CHOSEN = ("simulated corrupt-lidar", "simulated corrupt-video", "simulated power-cut", "a saturated radar")


@pytest.mark.system
def test_a_real_run_on_damaged_recordings_names_each_damage(whole: Path, tmp_path: Path) -> None:
    chosen = list(DAMAGES) if WHOLE else list(_CHOSEN)
    for number, name in enumerate(chosen):
        DAMAGES[name].do(Path(shutil.copytree(whole, tmp_path / "all" / str(number))))
    command = [sys.executable, "-m", "rover_pipeline", "run", str(tmp_path / "all"), "--outputs"]
    done = subprocess.run(
        [*command, ",".join((*OUTPUTS, "report"))], cwd=tmp_path, env=environment(), capture_output=True, text=True,
        timeout=3600, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    for number, name in enumerate(chosen):
        trace = tmp_path / "all" / str(number)
        page = trace / REPORT / SUMMARY
        if not page.exists():  # nothing can be made of it, which the run itself tells
            assert str(trace) in done.stderr, name
            continue
        summary = Summary.model_validate_json(page.read_text())
        assert re.search(DAMAGES[name].named, listed(summary)), (name, listed(summary))
        lacks = [output for output in OUTPUTS if not os.path.exists(trace / f"_{output}" / "meta.json")]
        assert summary.verdict == "bad" if lacks else summary.verdict != "good", (name, lacks)
