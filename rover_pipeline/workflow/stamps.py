"""Stamps, by which Snakemake knows results.

The stamp `_name/.options-DIGEST`, an empty file, is the only output of a rule: Snakemake removes the outputs of a job
before it starts the job, and the older result stays until a new one is whole. A stamp vouches for the options and for
what `provenance.json` says: the step, its version, the inputs and the files. One that is no longer true is removed when
a run begins, whatever the times of the files are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from rover_pipeline.engine.step import Step
from rover_pipeline.errors import FormatError, RoverError, naming
from rover_pipeline.format.files import STAMP
from rover_pipeline.format.provenance import PROVENANCE, files_of, read_provenance
from rover_pipeline.format.stale import changed_inputs, recorded_inputs

#: The stamp of a virtual sensor in the output patterns of a rule: `/_name/` or, with a wildcard, `/_{product,name}/`.
_MADE = re.compile(r"/_(?:\{product,)?([^/}]+)\}?/" + re.escape(STAMP))


def made_by(rule: Any) -> list[str]:
    """Names of the virtual sensors that a rule makes, without their underscore. The first one is that of its step."""
    matches = filter(None, (_MADE.search(str(pattern)) for pattern in rule.output))
    return [name.replace("\\", "") for match in matches for name in match[1].split("|")]


def untrue(stamp: Path, step: Step, source: Path) -> str:
    """Why the result of a stamp has to be made again; empty where the stamp is absent or still true.

    Args:
        step: that makes the result now.
        source: directory of the raw sensors.

    Raises:
        FormatError: a file cannot be read, so that nobody knows.
    """
    if not os.path.lexists(stamp):
        return ""
    provenance = read_provenance(stamp.parent) or {}
    try:
        name, version = provenance["step"], provenance["version"]
        known = recorded_inputs(stamp.parent, provenance).keys() & provenance["time"]["inputs"].keys()
        if len(known) < len(provenance["inputs"]):
            raise KeyError
    except (KeyError, TypeError, AttributeError, FormatError):
        return f"its {PROVENANCE} does not say what it was made from"
    lacking = sorted(name for name in files_of(provenance) if not os.path.lexists(stamp.parent / name))
    if lacking or stamp.is_symlink():
        return f"{lacking[0] if lacking else stamp.name} is missing"
    if (name, version) != (step.name, step.version):
        return f"it was made by version {version} of {name}"
    made_with, code = provenance.get("source"), step.identity.get("source")
    if made_with and code and made_with != code:
        return f"the code of {step.name} has changed"
    changed = next(changed_inputs(stamp.parent, provenance, source), "")
    return f"{changed} has changed" if changed else ""


def withdraw(stamp: Path) -> None:
    """Remove a stamp, so that its result is made again. The result itself stays until then.

    Raises:
        RoverError: it cannot be removed.
    """
    with naming(f"{stamp.parent}: has to be made again but cannot be written", OSError, made=RoverError):
        stamp.unlink(missing_ok=True)
