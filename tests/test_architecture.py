"""What CONTRIBUTING claims about the code, checked by reading it. The contracts of imports are in pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import rover_pipeline
from rover_pipeline.table import TABLE
from tests.conftest import CHECKOUT
from tests.kit import small_trace

PACKAGE = CHECKOUT / "rover_pipeline"
SOURCES = sorted(PACKAGE.rglob("*.py"))
#: What belongs together may stand together; more than this nobody reads at one sitting.
MOST_LINES = 500
#: Libraries of optional extras: imported where they are needed, so that the error can name the extra.
EXTRAS = {
    "dask_jobqueue",
    "distributed",
    "gtsam",
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
    "clocks",
    "draw",
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
#: The sources of kernels name their cache, and the list of kernels comes with the package.
READERS = {"numerics/compiled.py", "numerics/prepare.py"}
#: Calls that open what is at a path to read it, or a descriptor that could be of anything.
OPENING = re.compile(
    r"(.*\.)?(open|fdopen|read_text|read_bytes|fromfile|memmap|loadtxt|genfromtxt|imread|imreadmulti|OSFile|memory_map|"
    r"VideoCapture|ZipFile|InferenceSession|connect|open_source|open_packet_source)|np\.load|PlyData\.read|lzma\.open|"
    r"tarfile\.\w+|gzip\.\w+|bz2\.open|Image\.open"
)
#: Functions that do so with what `format/files.py` has opened, or looked at before. Each is told why.
OPENERS = {
    ("format/files.py", "*"): "the one place",
    ("format/attempt.py", "open_regular"): "files of ours, to write",
    ("engine/plan.py", "is_made"): "a folder, and an empty file in it",
    ("format/trace.py", "link_trace"): "an empty file",
    ("format/channels/npz.py", "_decode"): "bytes in memory",
    ("format/provenance.py", "_version"): "a text of an installed distribution",
    ("engine/cage.py", "_restrict"): "a path, for Landlock; nothing is read",
    ("engine/execute.py", "run_step"): "no file: a step that is made",
    ("engine/together.py", "open"): "no file: a step that is made",
    ("export/contents.py", "decode"): "text and bytes in memory",
    ("simulate/faults.py", "*"): "a trace that this process has just made",
    ("engine/identity.py", "*"): "sources of the package and of a user's modules",
    ("export/mp4.py", "_add_stream"): "a codec",
    ("importers/dca1000.py", "import_dca1000"): "what is open already",
    ("importers/clouds.py", "_npz"): "bytes in memory",
    ("importers/ros/database.py", "_messages"): "SQLite opens by a name; the file was looked at by `BagFile`",
    ("lidar/captures.py", "open_capture"): "ouster-sdk opens by a name; looked at before",
    ("lidar/captures.py", "imu_packets"): "ouster-sdk opens by a name; looked at before",
    ("camera/model.py", "__init__"): "onnxruntime opens by a name; its digest was taken before",
    ("export/edgefirst/layout.py", "read"): "pyarrow opens by a name; looked at before. What is open already",
    ("export/rslearn/dataset.py", "read"): "rasterio opens by a name; looked at before",
    ("export/rslearn/windows.py", "geotiff"): "a file in memory",
    ("mapping/ply.py", "read_ply"): "what is open already",
    ("engine/shared.py", "get"): "what is open already",
    ("cli.py", "main"): "the null device",
    ("cli.py", "_prepare_streams"): "the null device, and streams that are open already",
    ("reading/trace.py", "run"): "a file that this process has just made",
    ("report/templating.py", "glossary"): "a document of the package",
    ("workflow/launch.py", "_is_velodyne"): "what is open already",
    ("workflow/interruptible.py", "_has_processes"): "what the system tells of its processes",
}
#: Who may write, besides the format: whatever is no virtual sensor.
WRITERS = {
    "evalio.py": "a recording in a scratch folder; `save` hands poses to evalio",
    "engine/shared.py": "arrays on their way between workers",
    "workflow/launch.py": "a profile",
    "engine/plan.py": "the log of a job, and what a run wants of a recording",
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
#: Where BLAS and LAPACK may be called: nothing that is written follows from it but whether a limit is kept.
WITH_BLAS = {
    "camera/lens.py": "where a lens ends, in digits that do not depend on the processor",
    "validation/against.py": "whether matrices are rotations",
    "validation/contents.py": "whether matrices are rotations and covariances",
}
#: Functions of NumPy that call BLAS or LAPACK, besides those of `np.linalg`.
BLAS = {
    "convolve", "corrcoef", "correlate", "cov", "dot", "inner", "matmul", "matvec", "multivariate_normal", "poly",
    "polyfit", "roots", "tensordot", "vdot", "vecdot", "vecmat",
}  # fmt: skip
#: What SciPy computes without them. Equations of `CubicSpline` are tridiagonal, which LAPACK solves without BLAS.
WITHOUT_BLAS = {
    "scipy": {"fft", "ndimage"},
    "scipy.constants": {"g", "minute", "speed_of_light"},
    "scipy.interpolate": {"BSpline", "CubicHermiteSpline", "CubicSpline"},
    "scipy.ndimage": {"rank_filter"},
    "scipy.optimize": {"linear_sum_assignment", "linprog"},
    "scipy.signal": {"find_peaks"},
    "scipy.sparse": {"csr_array", "vstack"},
    "scipy.spatial": {"cKDTree"},
    "scipy.spatial.distance": {"cdist"},
    "scipy.spatial.transform": {"Rotation", "Slerp"},
    "scipy.special": {"chdtrc", "chdtri", "fdtrc", "gammaincinv", "pdtrc"},
}
#: Methods of SciPy's rotations that call them where a matrix is oblique, and always.
ROTATIONS = {"from_matrix", "mean", "apply", "align_vectors"}


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


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_results_do_not_follow_from_the_blas_of_the_machine(path: Path) -> None:
    """Its sums have another order on each generation of processors: `numerics/linear.py` has what is needed."""
    if relative(path) == "numerics/linear.py" or relative(path) in WITH_BLAS:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not blas_in(node, relative(path)), f"{relative(path)}:{getattr(node, 'lineno', 0)} calls BLAS or LAPACK"


def blas_in(node: ast.AST, path: str) -> bool:
    """Whether a node of the syntax tree calls BLAS or LAPACK by itself."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.MatMult)
    if isinstance(node, ast.ImportFrom):
        module, names = node.module or "", {each.name for each in node.names}
        if module.startswith("numpy"):
            return (bool(names - {"LinAlgError"}) and module.startswith("numpy.linalg")) or bool(names & BLAS)
        return module.partition(".")[0] == "scipy" and not names <= WITHOUT_BLAS.get(module, set())
    if isinstance(node, ast.Import):
        return any(each.name.startswith("scipy") and each.name != "scipy.fft" for each in node.names)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner, name = ast.unparse(node.func.value), node.func.attr
    given = {each.arg for each in node.keywords}
    if owner in ("np.linalg", "numpy.linalg"):
        return name != "norm" or "axis" not in given
    if owner in ("np", "numpy"):
        return name in BLAS or (name == "einsum" and "optimize" in given)
    if owner.startswith("Rotation"):
        return name in ROTATIONS and path != "kinematics/rotation.py"
    return name in ("dot", "multivariate_normal")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a @ b", True),
        ("a @= b", True),
        ("np.dot(a, b)", True),
        ("a.T.dot(b)", True),
        ("np.linalg.inv(a)", True),
        ("np.linalg.norm(a)", True),
        ("np.linalg.norm(a, axis=0)", False),
        ("np.einsum('ij,jk->ik', a, b, optimize=True)", True),
        ("np.einsum('ij,jk->ik', a, b)", False),
        ("from scipy.linalg import solve", True),
        ("from numpy.linalg import LinAlgError", False),
        ("from numpy.linalg import inv", True),
        ("import scipy.linalg", True),
        ("Rotation.from_matrix(a).as_quat()", True),
        ("Rotation.from_quat(a).as_matrix()", False),
        ("matmul(a, b)", False),
    ],
)
def test_calls_of_blas_are_found(text: str, found: bool) -> None:
    assert any(blas_in(node, "") for node in ast.walk(ast.parse(text))) is found


def openings(path: Path) -> Iterator[tuple[set[str], str]]:
    """Calls of a module that open something to read: the functions around each, and what it calls, for messages."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {alias.name for node in imports if (node.module or "").startswith("rover_pipeline") for alias in node.names}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    ours |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if not isinstance(node, ast.Call) or not OPENING.fullmatch(called) or called in ours:
            continue
        modes = {
            each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
        if not {"w", "wb", "xb", "x+b", "r+b", "r+"} & modes:  # who may write is said above
            yield {each.name for each in functions if each.lineno <= node.lineno <= (each.end_lineno or 0)}, called


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_one_module_opens_what_is_read(path: Path) -> None:
    name = relative(path)
    if name not in READERS and (name, "*") not in OPENERS:
        for around, called in openings(path):
            assert any((name, each) in OPENERS for each in around), f"{name}: {around} opens by {called}"


def test_no_exception_for_who_opens_files_is_left_over() -> None:
    found = {(relative(path), each) for path in SOURCES for around, _ in openings(path) for each in (*around, "*")}
    assert set(OPENERS) - found == set()


def test_the_table_the_configuration_the_plan_and_jobs_with_nothing_to_do_import_no_maths() -> None:
    modules = ("table", "config", "kinematics.stated", "engine.plan")
    script = f"import sys, {', '.join(f'rover_pipeline.{each}' for each in modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"numpy", "cv2", "numba", "scipy", "ouster", "matplotlib", "dask"}
    assert not heavy & set(done.stdout.split())


def test_a_job_of_the_radars_points_imports_at_most_55_of_our_modules(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 2, sensors=("radar",))
    command = ["-X", "importtime", "-m", "rover_pipeline", "step", "radar/_radar_points", "--trace", str(trace)]
    command += ["--output", str(trace / "_radar_points" / ".options-0")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    modules = set(re.findall(r"\| +(rover_pipeline[\w.]*)$", done.stderr, re.MULTILINE))
    assert "rover_pipeline.radar.points" in modules
    assert len(modules) <= 55, sorted(modules)


def test_every_step_of_the_table_has_a_rule_of_at_most_five_lines() -> None:
    rules: dict[str, int] = {}
    for path in sorted((CHECKOUT / "rules").glob("*.smk")):
        for text in re.split(r"\n(?=\s*use rule )", path.read_text(encoding="utf-8")):
            if name := re.search(r"use rule derived as (\w+) with:", text):
                lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", "if "))]
                rules[f"_{name[1]}"] = len(lines)
    assert set(rules) == set(TABLE)
    assert max(rules.values()) <= 5


def test_every_output_of_the_table_says_its_type_axes_and_cost() -> None:
    for step in TABLE.values():
        assert step.run.cost, step.sensor
        for name, output in step.outputs.items():
            assert name == "*" or output.type, f"{step.sensor}/{name}"
        assert step.shown.summary and (step.outputs or step.products)


def test_the_citation_names_the_version_of_the_package() -> None:
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text())
    assert citation["version"] == rover_pipeline.__version__
