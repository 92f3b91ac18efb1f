"""Formats and imports of installed packages: the examples of the manual, and packages that are broken."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.config import Config
from rover_pipeline.datasets.table import DATASETS, ExportSection
from rover_pipeline.errors import ConfigError
from rover_pipeline.export.look import recognise
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.table import _MODELS, IMPORTS
from rover_pipeline.importers.velodyne_packets import NAMES
from rover_pipeline.validation.check import problems
from tests.conftest import CHECKOUT
from tests.kit import small_trace, write_odometry
from tests.manual.blocks import blocks

EXPORTS, IMPORTERS = "rover_pipeline.exports", "rover_pipeline.imports"
PAGE = CHECKOUT / "docs" / "how-to" / "own-format.md"


def install(site: Path, name: str, group: str, value: str, modules: dict[str, str]) -> None:
    """What an installer leaves in a folder of packages."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages: the two examples of the page."""
    marked = {each.mark.removeprefix("save "): each.code for each in blocks(PAGE) if each.mark.startswith("save ")}
    (project,) = (tomllib.loads(each.code)["project"] for each in blocks(PAGE) if each.language == "toml")
    value = project["entry-points"][EXPORTS]["sweepset"]
    folder = tmp_path / "site"
    install(folder, "sweepset", EXPORTS, value, {"sweepset": marked["sweepset.py"]})
    install(folder, "imutable", IMPORTERS, "imutable:IMPORT", {"imutable": marked["imutable.py"]})
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{CHECKOUT}")
    for module in ("sweepset", "imutable"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return folder


def command(*words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "rover_pipeline", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_format_of_the_manual_is_exported_checked_and_described(site: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_odometry(small_trace(tmp_path / "in" / name, 6, sensors=("lidar",), invalid={"lidar": (1,)}))
    out = tmp_path / "out"
    settings = ("--config", "splits={by: recording}", "every=1", "--threads", 1)
    done = command("export", "sweepset", tmp_path / "in", "-o", out, *settings)
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr
    assert sorted(path.name for path in (out / "a" / "sweeps").iterdir()) == [f"{at:06d}.bin" for at in (0, 2, 3, 4, 5)]
    assert (out / "a" / "poses.csv").read_text().splitlines()[0] == "number,split,t,x,y,z"
    checked = command("check", out)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    info = json.loads(command("info", out, "--json").stdout)[0]
    assert info["format"] == "sweepset" and info["files"] == {"sweeps": 10, "poses": 2}
    assert info["recordings"] == ["a", "b"]

    scan = out / "a" / "sweeps" / "000002.bin"
    whole = scan.read_bytes()
    for damage, problem in (
        (whole[:-1], f"{scan}: has {len(whole) - 1} bytes, which is no multiple of the 12 of a row; export it again"),
        (np.frombuffer(whole, "<f4").astype(">f4").tobytes(), "is the byte order right?"),
    ):
        scan.write_bytes(damage)
        checked = command("check", out)
        assert checked.returncode == 1 and problem in checked.stdout
    scan.unlink()
    poses = out / "b" / "poses.csv"
    poses.write_text(poses.read_text().replace("number,", "sample,"))
    found = command("check", out).stdout
    assert f"{out / 'a' / 'poses.csv'}: sweep 2 has a row or a file, and not both; export it again" in found
    assert f"{poses}: has no column number; export it again" in found


def test_options_of_a_package_have_a_section_and_misspelled_ones_are_named(site: Path) -> None:
    given = Config.parse({"exports": "sweepset", "export": {"sweepset": {"every": 3}, "kitti": {"every": 2}}})
    assert given.export.of("sweepset").model_dump() == {"every": 3}
    assert Config.model_validate(given.model_dump()).export.of("sweepset").model_dump() == {"every": 3}
    assert Config().export.of("sweepset").model_dump() == {"every": 1}
    for export, message in (
        ({"sweepset": {"evry": 3}}, "config: export.sweepset.evry: unknown key"),
        ({"sweepset": {"every": 0}}, "config: export.sweepset.every: Input should be greater"),
        ({"sweepste": {}}, "config: export.sweepste: unknown key"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            Config.parse({"export": export})


def test_the_import_of_the_manual_makes_a_trace_that_check_accepts(site: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "table.csv", tmp_path / "trace"
    rows = np.column_stack([1.7e9 + np.arange(50) / 100, np.tile([0, 0, 9.81, 0.1, 0, 0], (50, 1))])
    np.savetxt(table, rows, delimiter=",", fmt="%.6f")
    done = command("import", "imutable", table, "-o", out, "--scale", 2)
    assert (done.returncode, done.stdout) == (0, f"{out}: 50 of imu\n"), done.stderr
    assert np.allclose(Sensor(out / "imu").channel("acc").read()[:, 2], 19.62)
    assert list(problems(out)) == []
    assert "imutable" in command("import", "--help").stdout + command("import", "nosuch").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nosuch", "cannot be loaded: ModuleNotFoundError No module named 'nosuch'"),
        ("ITEM = 'text'", "is a str and no {kind}"),
        ("", "cannot be loaded: AttributeError"),
        ("from rover_pipeline.{table} import {own}\nITEM = {own}['kitti']", "is called 'kitti'"),
    ],
)
@pytest.mark.parametrize(
    ("verb", "table", "own", "kind"),
    [("export", "datasets.table", "DATASETS", "DatasetFormat"), ("import", "importers.table", "IMPORTS", "Importer")],
)
def test_a_broken_package_is_one_line_that_names_it_and_disturbs_nothing_else(
    text: str,
    message: str,
    verb: str,
    table: str,
    own: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = text.format(table=table, own=own)
    install(tmp_path / "site", "broken", f"rover_pipeline.{verb}s", "broken:ITEM", {"broken": code})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    assert main([verb, "broken", str(tmp_path), "-o", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "broken: the package broken 1.0 adds it by broken:ITEM, which" in line
    assert message.format(kind=kind) in line and "or uninstall it" in line
    assert recognise(tmp_path) is None and DATASETS["kitti"].name == IMPORTS["kitti"].name == "kitti"
    with pytest.raises(SystemExit):
        main(["import", "ouster", "--help"])


def test_a_package_cannot_replace_a_format_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", "kitti", EXPORTS, "other:FORMAT", {"other": "import nosuch"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert DATASETS["kitti"].module == "rover_pipeline.export.kitti" and list(DATASETS).count("kitti") == 1


def test_a_package_that_lies_in_the_folder_of_the_command_is_not_found(tmp_path: Path) -> None:
    code = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
    install(tmp_path, "planted", EXPORTS, "planted:FORMAT", {"planted": code})
    (tmp_path / "set").mkdir()
    for words in (["check", "set"], ["info", "set"], ["export", "planted", "set", "-o", "out"], ["import", "planted"]):
        line = [sys.executable, "-P", "-m", "rover_pipeline", *words]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode and not (tmp_path / "ran").exists(), words


def test_two_packages_that_add_one_name_are_an_error_that_names_both(site: Path, tmp_path: Path) -> None:
    install(site, "sweepset2", EXPORTS, "sweepset:FORMAT", {})
    (site / "sweepset2-1.0.dist-info" / "entry_points.txt").write_text(f"[{EXPORTS}]\nsweepset = sweepset:FORMAT\n")
    done = command("export", "sweepset", tmp_path, "-o", tmp_path / "out")
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1
    assert "several installed packages add it: sweepset 1.0, sweepset2 1.0; uninstall all but one" in done.stderr


def test_a_misspelled_format_is_named_also_where_a_package_is_broken(site: Path, tmp_path: Path) -> None:
    install(site, "broken", EXPORTS, "broken:FORMAT", {"broken": "raise RuntimeError('no')"})
    done = command("export", "kiti", tmp_path, "-o", tmp_path / "out")
    assert "unknown format 'kiti'" in done.stderr and "RuntimeError" not in done.stderr


def test_each_of_our_formats_has_one_model_of_options_and_velodynes_one_list_of_models() -> None:
    for name, each in DATASETS.own.items():
        assert ExportSection.model_fields[name].annotation is each.options
    assert set(_MODELS) == set(NAMES)
