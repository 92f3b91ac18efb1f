"""Wrong commands are told in one line before any work begins, and commands end well whatever their streams are."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.lookup import LateCalls, LateModule
from tests.kit import environment, small_trace

#: Command line, and what its one line says. TRACE is a recording with a lidar, RADAR one with a radar.
WRONG: list[tuple[str, str]] = [
    *((command, "no such ") for command in (
        "run /nope", "info /nope", "check /nope", "report /nope", "export tum /nope -o OUT", "export mp4 /nope -o OUT",
        "export roverp /nope -o OUT", "picture /nope odom -o OUT.png", "calibrate radar /nope -o OUT",
        "import ouster /nope.pcap -o OUT", "import ros /nope.bag -o OUT", "import velodyne /nope.pcap -o OUT",
        "import kitti /nope -o OUT", "import clouds /nope -o OUT", "import pictures /nope -o OUT",
        "import dca1000 /nope.bin --config /nope.json -o OUT", "profile nope",
    )),
    ("mda list /nope", "No such file"),
    *((f"{command} --bogus", "unrecognized arguments: --bogus") for command in (
        "run TRACE", "info TRACE", "check TRACE", "report TRACE", "export tum TRACE -o OUT", "simulate OUT",
        "picture TRACE lidar -o OUT.png", "import ros RADAR -o OUT", "calibrate radar RADAR -o OUT", "profile local",
    )),
    ("run", "the following arguments are required: PATH"),
    ("runn TRACE", "invalid choice: 'runn'"),
    ("import rso TRACE", "invalid choice: 'rso'"),
    ("run TRACE --outputs lidar_imag", "did you mean 'lidar_image'?"),
    ("run TRACE --outputs radar_points", "has no sensor 'radar', which the output 'radar_points' needs"),
    ("run TRACE --outputs camera_frames", "has no meta.json of the sensor 'camera', which the output"),
    ("run TRACE --config odometry.wurld=gravity", "did you mean 'world'?"),
    ("run TRACE --config exports=rovrp", "did you mean 'roverp'?"),
    ("run TRACE --config extra_rules=nope.smk", "nope.smk: no such file; name a .smk file of your rules"),
    ("run TRACE --profile clustr", "did you mean 'cluster'?"),
    ("run TRACE --cores none", "must be a number of processors"),
    ("run TRACE/config.yaml", "is no recording, and no capture that can be imported"),
    ("run TRACE --config rig=nope.yaml", "config: rig: "),
    ("info TRACE/config.yaml", "/config.yaml: is a file and no recording"),
    ("export tmu TRACE -o OUT", "did you mean 'tum'?"),
    ("export nope TRACE -o OUT", "unknown format 'nope'; known: calibration, edgefirst, kitti"),
    ("export tum TRACE --sensor nope -o OUT", "no such sensor"),
    ("export tum TRACE --sensor _odm -o OUT", "did you mean '_odom'?"),
    ("export tum TRACE --sensor _odom -o OUT", "make it: rover-pipeline run"),
    ("export rrd TRACE --sensor nope -o OUT", "shows all sensors"),
    ("picture TRACE nope -o OUT.png", "has no such sensor"),
    ("picture TRACE report -o OUT.png", "/_report: has no channels that a picture could be of"),
    ("picture TRACE lidar -o OUT.bmp", "must end with .png"),
    ("simulate OUT --preset indor", "did you mean 'indoor'?"),
    ("simulate OUT --fault gyro-bais", "did you mean 'gyro-bias'?"),
    ("simulate OUT --lens fishey", "did you mean 'fisheye'?"),
    ("calibrate radar TRACE -o OUT", "needs radar/iq"),
    ("check TRACE --against /nope", "/nope: no such file or folder"),
]  # fmt: skip


_HEAVY = {"matplotlib", "numba", "scipy", "snakemake", "dask"}
_STATUS_OF = """
import json, sys
from rover_pipeline.cli import main
def status_of(arguments):
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Gives the words of a command line with the paths of real recordings."""
    folder = tmp_path_factory.mktemp("commands")
    trace = small_trace(folder / "lidar", sensors=("lidar",))
    radar = small_trace(folder / "radar", sensors=("radar",))
    (trace / "_report").mkdir()
    (trace / "camera").mkdir()  # what a copy without meta.json leaves
    paths = {"TRACE": str(trace), "RADAR": str(radar), "OUT": str(folder / "out")}

    def filled(line: str) -> list[str]:
        for name, path in paths.items():
            line = line.replace(name, path)
        return line.split()

    return filled


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as error:
        return int(error.code or 0)


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_a_wrong_path_option_format_or_sensor_is_one_line_and_starts_no_process(
    line: str,
    said: str,
    words: Callable[[str], list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    assert status_of(words(line)) != 0
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("rover-pipeline") and err.count("\n") == 1, err
    assert said in err


def test_what_is_wrong_is_told_without_loading_the_libraries_that_the_work_would_need(
    words: Callable[[str], list[str]],
) -> None:
    # A sensor that does not exist is found by the module that would show it.
    late = (" nope -o", ".bmp", "radar TRACE", "--sensor _od", "picture TRACE report")
    lines = [words(line) for line, _ in WRONG if not any(each in line for each in late)]
    code = f"{_STATUS_OF}\nassert all(map(status_of, json.loads(sys.argv[1])))\nprint({_HEAVY} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, json.dumps(lines)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_a_profile_whose_executor_is_not_installed_names_the_extra(
    words: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if "slurm" in name else find(name, *more))
    assert main(words("run TRACE --profile cluster")) == 1
    assert "pip install 'rover-pipeline[slurm]'" in capsys.readouterr().err


def test_a_picture_without_a_home_is_made_without_a_word(words: Callable[[str], list[str]], tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MPL"))}
    command = [sys.executable, "-m", "rover_pipeline", *words("picture TRACE lidar -o"), str(tmp_path / "lidar.png")]
    done = subprocess.run(
        command, env={**environment, "HOME": "/dev/null", "TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "") and [path.name for path in tmp_path.iterdir()] == ["lidar.png"]


def test_an_older_python_is_told_which_one_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer; this is 3\.10$"):
        runpy.run_module("rover_pipeline", run_name="__main__")


def test_control_characters_of_names_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "red\x1b[31m", sensors=("lidar",))
    for command in (
        ["info", str(trace)],
        ["check", str(trace)],
        ["info", f"{trace}x"],
        ["mda", "list", f"{trace}.mda"],
    ):
        status_of(command)
        out, err = capsys.readouterr()
        assert ("\x1b" not in out + err and "red\\x1b[31m" in out + err) or command[0] == "check"


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "0<&-", "| head -c 1"])
def test_closed_streams_and_readers_that_leave_cause_no_traceback(closed: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one", sensors=("lidar",))
    for command in (f"info {trace}", "info /nope", "--help"):
        line = f"{{ {sys.executable} -m rover_pipeline {command} {closed}; }} 2>{tmp_path}/err"
        subprocess.run(["bash", "-c", line], stdout=subprocess.DEVNULL, check=False, cwd=Path(__file__).parents[1])
        told = (tmp_path / "err").read_text()
        assert "Traceback" not in told and "Exception ignored" not in told and told.count("\n") <= 1, told


def test_the_limit_of_open_files_bounds_the_channels_that_stay_mapped(tmp_path: Path) -> None:
    for number in range(20):
        small_trace(tmp_path / f"{number:02}", sensors=("lidar", "radar"))
    code = (
        "import sys, rover_pipeline as rp\nfor trace in rp.open_many(sys.argv[1]):\n"
        "    for name in trace:\n        for channel in trace[name].channels: trace[name][channel][:1]\n"
    )
    line = f"ulimit -n 40; exec {sys.executable} -c '{code}' {tmp_path}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run(["bash", "-c", line], check=True, env=environment)


def test_a_run_is_planned_without_libraries_that_it_only_names(tiny: Path, tmp_path: Path) -> None:
    named = "snakemake_executor_plugin_slurm.efficiency_report"
    pytest.importorskip(named)
    run = [sys.executable, "-P", "-m", "rover_pipeline", "run", "-n", str(tiny)]
    command = [*run, "--config", f"output_root={tmp_path}"]
    shown = environment() | {"PYTHONPROFILEIMPORTTIME": "1"}
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, env=shown).stderr
    assert re.search(rf"\| +{named}$", loaded, re.MULTILINE)
    assert not re.search(r"\| +(numpy|pandas|requests)(\.|$)", loaded, re.MULTILINE)


def test_a_late_module_is_imported_when_something_of_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    late = LateModule("colorsys")
    assert sys.modules["colorsys"] is late and "rgb_to_hsv" not in vars(late)
    assert late.rgb_to_hsv(1, 0, 0) == (0, 1, 1)
    assert sys.modules["colorsys"] is not late and late.hsv_to_rgb(0, 1, 1) == (1, 0, 0)
    LateModule("no_such_module")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")


def test_functions_are_taken_of_a_module_that_is_imported_when_one_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    late = LateCalls("colorsys")
    from colorsys import hsv_to_rgb, rgb_to_hsv

    assert sys.modules["colorsys"] is late
    assert rgb_to_hsv(1, 0, 0) == (0, 1, 1) and hsv_to_rgb(0, 1, 1) == (1, 0, 0)
    assert sys.modules["colorsys"] is not late and LateCalls("colorsys") is not sys.modules["colorsys"]


def test_the_readers_of_bags_of_the_makers_library_are_imported_late(tmp_path: Path) -> None:
    (bag := tmp_path / "x.bag").write_bytes(b"#ROSBAG V2.0\n")
    code = "import sys, rover_pipeline.lidar.geometry; print('rosbags' in sys.modules); import ouster.sdk as sdk; "
    code += "print([*sdk.open_source(sys.argv[1], meta=[])])"
    command = [sys.executable, "-c", code, str(bag)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.stdout == "False\n" and "rosbags" in done.stderr
