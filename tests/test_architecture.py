"""What CONTRIBUTING claims about the code, checked by reading it. The contracts of imports are in pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import rover_pipeline
from rover_pipeline.table import TABLE
from tests.conftest import CHECKOUT

PACKAGE = CHECKOUT / "rover_pipeline"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 350
#: Libraries of optional extras: imported where they are needed, so that the error can name the extra.
EXTRAS = {
    "dask_jobqueue",
    "distributed",
    "gtsam",
    "kiss_icp",
    "onnxruntime",
    "pyarrow",
    "pypcd4",
    "rasterio",
    "rerun",
    "xarray",
}
#: Calls that write to the disk.
WRITING = {"write_bytes", "write_text", "savez", "savez_compressed", "save", "tofile", "imwrite", "replace_file"}
#: Calls that read from the disk.
READING = {"open", "read_text", "read_bytes", "fromfile", "memmap", "imread"}
#: Rooms that take arrays and give arrays.
MATHS = {
    "camera",
    "imu",
    "kinematics",
    "lidar",
    "mapping",
    "numerics",
    "objects",
    "occupancy",
    "odometry",
    "poses",
    "radar",
    "sync",
}
#: The user's ONNX model is no channel: its digest is part of the options. The sources of kernels name their cache, and
#: the list of kernels comes with the package.
READERS = {"camera/options.py", "numerics/compiled.py", "numerics/prepare.py"}
#: Who may write, besides the format: whatever is no virtual sensor.
WRITERS = {
    "engine/command.py": "the log of a job, and how a pass ended",
    "engine/exchange.py": "arrays on their way between workers",
    "table.py": "the table of a document",
    "workflow/launch.py": "a profile",
    "workflow/passes.py": "what the passes of a run are to make",
    "workflow/recording_job.py": "how the job of a recording ended",
    "workflow/recordings.py": "the options of a run, for its jobs",
    "calibrate/": "calibration files that the configuration names",
    "importers/": "raw sensors of new recordings",
    "simulate/": "simulated recordings",
    "export/": "files in other formats",
    "report/": "the page of many recordings",
}


#: Who parses JSON and YAML besides `format/texts.py`, whose bounds files of a trace need.
PARSERS = {
    "engine/command.py": "the request of a job, from the command line",
    "simulate/faults.py": "a trace that this process has just made",
    "numerics/prepare.py": "the list of kernels, which comes with the package",
}


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


MATHS_SOURCES = [path for path in SOURCES if relative(path).split("/")[0] in MATHS and relative(path) not in READERS]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_modules_are_short_and_import_at_the_top(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            late = {module for module in modules if module.split(".")[0] not in EXTRAS}
            assert not late, f"{relative(path)}: {function.name} imports {late}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_the_format_and_named_modules_write_files(path: Path) -> None:
    name = relative(path)
    if name.startswith(("format/", *WRITERS)):
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in WRITING, f"{name}:{node.lineno} writes by {called}"
            modes = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            assert not (called == "open" and {"w", "wb", "a", "x"} & set(modes)), (
                f"{name}:{node.lineno} opens for writing"
            )


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if relative(path).split("/")[0] in MATHS and relative(path) not in READERS],
    ids=relative,
)
def test_maths_modules_open_no_files(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in READING | WRITING, f"{relative(path)}:{node.lineno} calls {called}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_one_module_parses_the_text_files_of_a_trace(path: Path) -> None:
    name = relative(path)
    if name == "format/texts.py" or name in PARSERS:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        parses = re.fullmatch(r"json\.loads?|yaml\.\w*load\w*|\w+\.model_validate_json", called)
        environment = isinstance(node, ast.Call) and "environ" in ast.unparse(node)
        assert not parses or environment, f"{name}:{getattr(node, 'lineno', 0)} calls {called}"


def test_reading_the_table_and_the_configuration_imports_no_maths() -> None:
    script = "import sys, rover_pipeline.table, rover_pipeline.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"numpy", "cv2", "numba", "scipy", "ouster", "matplotlib", "dask"}
    assert not heavy & set(done.stdout.split())


def test_every_step_of_the_table_has_a_rule_of_at_most_eight_lines() -> None:
    rules: dict[str, int] = {}
    for path in sorted((CHECKOUT / "rules").glob("*.smk")):
        for text in re.split(r"\n(?=\s*use rule )", path.read_text(encoding="utf-8")):
            if name := re.search(r"use rule derived as (\w+) with:", text):
                lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
                rules[f"_{name[1]}"] = len(lines)
    assert set(rules) == set(TABLE)
    assert max(rules.values()) <= 8


def test_every_output_of_the_table_says_its_type_and_axes() -> None:
    for step in TABLE.values():
        for name, output in step.outputs.items():
            assert name == "*" or output.type, f"{step.sensor}/{name}"
        assert step.summary and (step.outputs or step.products)


def test_the_citation_names_the_version_of_the_package() -> None:
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text())
    assert citation["version"] == rover_pipeline.__version__
