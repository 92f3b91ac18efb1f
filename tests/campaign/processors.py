"""`python -m tests.campaign processors [NAME ...]`: the same bytes on every processor and with any number of workers.

Each variant simulates the recording `tiny` and makes every virtual sensor of it in a process of its own. Environment
variables make the libraries take what they would take on another processor: OpenBLAS its kernels, NumPy and OpenCV
theirs for AVX-512, Intel's IPP in OpenCV those of a generation, Numba the instructions that it compiles for. Without
names, all variants are made but that of Numba, which compiles all kernels once more: `python -m tests.campaign
processors all`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE, find_step
from tests.kit import declared

#: Those of NumPy 2.4, whose X86_V4 is AVX-512 as in a Skylake server.
_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR", "OPENCV_CPU_DISABLE": "AVX512-SKX"}


class Variant(NamedTuple):
    """Environment variables of a processor, and the number of workers."""

    env: dict[str, str]
    workers: int


VARIANTS = {
    "SkylakeX": Variant({"OPENBLAS_CORETYPE": "SkylakeX"}, 1),
    "Haswell": Variant({"OPENBLAS_CORETYPE": "Haswell", "OPENCV_IPP": "avx2"} | _AVX512, 2),
    "Zen": Variant({"OPENBLAS_CORETYPE": "Zen", "OPENCV_IPP": "disabled"} | _AVX512, 3),
    "Sandybridge": Variant({"OPENBLAS_CORETYPE": "Sandybridge", "OPENCV_IPP": "sse42"}, 2),
    "Numba for Haswell": Variant({"OPENBLAS_CORETYPE": "Haswell", "NUMBA_CPU_NAME": "haswell"} | _AVX512, 2),
}


def make(folder: Path, workers: int) -> dict[str, str]:
    """Simulate a recording and make all its virtual sensors; digests of all files but those that tell times."""
    trace = folder / "tiny"
    simulate(trace, preset=PRESETS["tiny"])
    wanted = {
        name: step for name, step in TABLE.items() if step.shown.needs_option is None and not step.run.waits_for_all
    }
    while wanted:
        for name in list(wanted):
            sensors = {each.partition("/")[0] for each in declared(name, {}).references()}
            if not sensors & set(wanted):
                run_step(find_step(name), trace, name, Request(), threads=workers)
                del wanted[name]
    files = (path for path in sorted(trace.rglob("*")) if path.is_file() and path.name != PROVENANCE)
    return {str(path.relative_to(trace)): hashlib.blake2b(path.read_bytes()).hexdigest() for path in files}


def _made(name: str) -> dict[str, str]:
    env, workers = VARIANTS[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.campaign", "processors", "--make", folder, str(workers)]
        done = subprocess.run(command, env=os.environ | env, stdout=subprocess.PIPE, text=True, check=True)
    digests: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return digests


def main(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] == "--make":
        print(json.dumps(make(Path(arguments[1]), int(arguments[2]))))
        return
    names = [*(arguments or [name for name in VARIANTS if "NUMBA_CPU_NAME" not in VARIANTS[name].env])]
    names = list(VARIANTS) if names == ["all"] else names
    if "avx512f" not in Path("/proc/cpuinfo").read_text():
        names = [name for name in names if name != "SkylakeX"]  # its kernels are illegal instructions here
    # The first one compiles the kernels that are not compiled yet.
    first = _made(names[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        others = dict(zip(names[1:], pool.map(_made, names[1:]), strict=True))
    different = 0
    for name, digests in others.items():
        files = sorted(path for path in first.keys() | digests.keys() if first.get(path) != digests.get(path))
        print(f"{name}: {len(files)} of {len(first)} files differ from those of {names[0]}", *files, sep="\n  ")
        different += len(files)
    sys.exit(different > 0)
