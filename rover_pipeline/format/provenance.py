"""`provenance.json`: the inputs, options and versions that made a virtual sensor. It marks the sensor as our result.

This is the one place that compares it with what is there now: whether results are still what they were made from.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from rover_pipeline import __version__
from rover_pipeline.errors import FormatError, one_line, short
from rover_pipeline.format.files import is_plain, opened_regular, plain_names, read_exactly
from rover_pipeline.format.texts import read_json, section
from rover_pipeline.lookup import load

PROVENANCE = "provenance.json"
MADE_BY = "rover_pipeline"
#: Key of the reason why a result has no files: the recording cannot give them.
OMITTED = "left_out"

#: Blocks of a file that its digest covers, and bytes of each. Layout.
_PARTS = 16
_PART_BYTES = 1 << 16
#: Distributions whose version can change the bytes of a result.
_PACKAGES = (
    "dask", "imagecodecs", "matplotlib", "numba", "numpy", "onnxruntime", "opencv-python-headless", "ouster-sdk",
    "plyfile", "scipy", "simplejpeg", "small-gicp", "vqf",
)  # fmt: skip


def read_provenance(sensor: Path) -> dict[str, Any] | None:
    """The provenance of the sensor in directory `sensor`; None when this program did not make it: it does not exist, or
    holds something else. Raises FormatError where there is one that cannot be read."""
    try:
        content = read_json(sensor / PROVENANCE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return content if isinstance(content, dict) and content.get("made_by") == MADE_BY else None


def is_source(provenance: dict[str, Any] | None) -> bool:
    """Whether a virtual sensor came with the recording, as a truth or a reference does, and is no result of a step."""
    step = str((provenance or {}).get("step", ""))
    return step == "simulate" or step.startswith("import ")


def of_source(
    sensor: str, step: str, options: Mapping[str, Any], files: Iterable[str], inputs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The provenance of such a sensor. `step`: `simulate`, or the import; `inputs`: fingerprints by name."""
    made = {"made_by": MADE_BY, "sensor": sensor, "step": step, "version": __version__, "options": dict(options)}
    return {**made, "inputs": dict(inputs or {}), "packages": versions(), "files": [*files]}


def omission(provenance: Mapping[str, Any] | None) -> str:
    """Why a result of ours has no files, one line; "" = it has them."""
    reason = (provenance or {}).get(OMITTED)
    return one_line(reason) if isinstance(reason, str) else ""


def files_of(provenance: dict[str, Any] | None) -> set[str]:
    """Names of the files that a provenance lists. Whatever is no plain name of a file is omitted."""
    return {*plain_names((provenance or {}).get("files"))}


def file_state(path: Path) -> list[int]:
    """Size and time of the last change, ns, of a file or folder: equal ones mean that it was not written to."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and a digest of a channel's file, or of the names and sizes in its folder.

    A recording can have hundreds of gigabytes, so the digest covers only the size and 16 evenly spaced blocks of
    64 KiB, the first and the last included.
    """
    digest = hashlib.blake2b(digest_size=16)
    if path.is_dir():
        entries = sorted((entry.name, entry.stat().st_size) for entry in os.scandir(path))
        digest.update(json.dumps(entries).encode())
        return {"bytes": sum(size for _, size in entries), "files": len(entries), "blake2b": digest.hexdigest()}
    with opened_regular(path) as descriptor:
        size = os.fstat(descriptor).st_size
        digest.update(str(size).encode())
        last = max(0, size - _PART_BYTES)
        for part in range(_PARTS):
            digest.update(read_exactly(descriptor, _PART_BYTES, last * part // (_PARTS - 1)))
    return {"bytes": size, "blake2b": digest.hexdigest()}


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of those that can change a result."""
    installed = {name: version for name in _PACKAGES if (version := _version(name))}
    return {"python": platform.python_version(), "rover-pipeline": __version__, **installed}


@functools.cache
def _version(name: str) -> str:
    """Version of an installed distribution; "" where it is not installed."""
    # Who only reads provenance need not wait for this library.
    find = load("importlib.metadata:distribution")
    try:
        found = find(name)
    except ModuleNotFoundError:
        return ""
    # `found.version` parses the whole text as a message, which takes longer than many a step.
    line = re.search(r"^Version: *(.+)$", found.read_text("METADATA") or "", re.MULTILINE)
    return line[1].strip() if line else str(found.version)


#: Inputs, or files, of a result that are looked at: no step has as many. Schedule.
MAX_LISTED = 1000


def changed_inputs(
    result: Path, provenance: Mapping[str, Any], source: Path | None = None, *, thorough: bool = False
) -> Iterator[str]:
    """References, `sensor/channel`, of the inputs that hold other bytes than a result was made from.

    An input that is not there any more has not changed: raw sensors may be archived after their results are made.
    Raises FormatError where the provenance is damaged, or a file cannot be read, so that nothing is known. `source`:
    directory of the raw sensors, where it is another one than that of the results; `thorough`: read also files that
    have the size and the time that they had, and not only those with another one.
    """
    states = section(provenance, "time", "inputs")
    for reference, recorded in recorded_inputs(result, provenance).items():
        for path in _places(result.parent, reference, source or result.parent):
            try:
                if file_state(path) == states.get(reference) and not thorough:
                    break
                is_other = not (path.is_file() or path.is_dir()) or not fingerprint(path).items() <= recorded.items()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise FormatError(f"{path}: cannot be read: {error.strerror}; try again when it can") from error
            if is_other:
                yield reference
            break


def recorded_inputs(result: Path, provenance: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """References of the inputs of a result -> their fingerprints. Raises FormatError when that part is damaged."""
    inputs = provenance.get("inputs", {})
    if not isinstance(inputs, dict) or not all(isinstance(recorded, dict) for recorded in inputs.values()):
        raise FormatError(f"{result / PROVENANCE}: is damaged; run the workflow again")
    inputs = dict(list(inputs.items())[:MAX_LISTED])
    for reference in inputs:
        if not all(map(is_plain, reference.split("/", 1))):
            problem = f"{short(reference)} is no input; run the workflow again"
            raise FormatError(f"{result / PROVENANCE}: is damaged: {problem}")
    return inputs


def _places(trace: Path, reference: str, source: Path) -> Iterator[Path]:
    """Where an input may be. Published traces keep a channel of some raw sensors in a copy: see `Trace.source`."""
    yield trace / reference
    copied = (f"_{reference}",) if "/" in reference else ()
    yield from (folder / name for folder, name in product((trace, source), (*copied, reference)))


def stale_results(trace: Path, names: Iterable[str]) -> dict[str, str]:
    """Results, and those that they were made from, that are not what would be made of the recording now -> why.

    Names of raw sensors, and of what this program did not make, are passed over. Raises as `changed_inputs` does.
    """
    reasons: dict[str, str] = {}
    made_from: dict[str, tuple[str, dict[str, Any]]] = {}
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop(0)
        if name in seen or not name.startswith("_") or not is_plain(name):
            continue
        seen.add(name)
        provenance = read_provenance(trace / name)
        if provenance is None or is_source(provenance):
            continue
        if changed := next(changed_inputs(trace / name, provenance), ""):
            reasons[name] = f"was made from other bytes of {changed}"
        for reference, recorded in recorded_inputs(trace / name, provenance).items():
            other, before = made_from.setdefault(reference, (name, recorded))
            if any(recorded.get(key) != before.get(key) for key in ("bytes", "blake2b")) and other not in reasons:
                reasons.setdefault(name, f"was made from other bytes of {reference} than {other}")
            todo.append(reference.partition("/")[0])
    return reasons


def require_fresh(trace: Path, names: Iterable[str], what: str) -> None:
    """Raise FormatError, with the command that mends it, when results that `what` needs are stale."""
    wanted = list(dict.fromkeys(names))
    stale = stale_results(trace, wanted)
    if stale:
        reasons = "; ".join(f"{name} {reason}" for name, reason in stale.items())
        made = [name for name in wanted if name not in stale and stale_results(trace, [name])]
        mend = f"make them again: {run_command(trace, [*stale, *made])}"
        raise FormatError(f"{trace}: {what} needs results of one world, but {reasons}; {mend}")


def run_command(trace: Path, names: Iterable[str]) -> str:
    """What to type so that results are made, with the options that the recording remembers."""
    outputs = ",".join(name.removeprefix("_") for name in names)
    return f"rover-pipeline run {shlex.quote(str(trace))} --outputs {outputs}"
