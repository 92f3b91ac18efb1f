"""Whether results are still what they were made from: the one place that compares provenance with what is there now."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.files import is_plain
from rover_pipeline.format.provenance import PROVENANCE, file_state, fingerprint, is_source, read_provenance

#: Inputs, or files, of a result that are looked at: no step has as many. Schedule.
MAX_LISTED = 1000


def changed_inputs(
    result: Path, provenance: Mapping[str, Any], source: Path | None = None, *, thorough: bool = False
) -> Iterator[str]:
    """References, `sensor/channel`, of the inputs that hold other bytes than a result was made from.

    An input that is not there any more has not changed: raw sensors may be archived after their results are made.

    Args:
        source: directory of the raw sensors, where it is another one than that of the results.
        thorough: read also files that have the size and the time that they had, and not only those with another one.

    Raises:
        FormatError: the provenance is damaged, or a file cannot be read, so that nothing is known.
    """
    time = provenance.get("time")
    states = time.get("inputs") if isinstance(time, dict) else None
    states = states if isinstance(states, dict) else {}
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
