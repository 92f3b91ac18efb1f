"""Which files of a result are asked for, and what the logs of a run say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rover_pipeline.errors import ERROR_MARK

STAMP = ".options-"
#: The stamp of a virtual sensor in the output patterns of a rule: `/_name/` or, with a wildcard, `/_{product,name}/`.
_MADE = re.compile(r"/_(?:\{product,)?([^/}]+)\}?/" + re.escape(STAMP))
_WILDCARD = re.compile(r"\{product,([^}]+)\}")


def made_by(rule: Any) -> list[str]:
    """Names of the virtual sensors that a rule makes, without their underscore."""
    return [match[1] for match in filter(None, (_MADE.search(str(pattern)) for pattern in rule.output))]


def failures(rules: Iterable[Any], traces: Iterable[Path], started: float) -> list[str]:
    """The errors that logs of a run's jobs end with, wherever the jobs ran, each of them once.

    Args:
        traces: directories of results.
        started: when the run began, seconds since the epoch.
    """
    lines: list[str] = []
    for rule in rules:
        product = next(iter(made_by(rule)), "")
        for pattern in map(str, rule.log):
            for results in traces:
                log = Path(pattern.replace("{trace}", str(results).lstrip("/")).replace("{product}", product))
                if log.exists() and log.stat().st_mtime >= started:
                    last = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
                    lines += [last.removeprefix(ERROR_MARK)] if last.startswith(ERROR_MARK) else []
    return list(dict.fromkeys(lines))


def requested(patterns: Iterable[str], trace: str) -> list[str]:
    """Of the files of a virtual sensor, those to ask Snakemake for.

    The file that names the options stands for all, which come and go together: every further one costs a thousand
    traces' dry run a second. Only where somebody removed a file from a finished sensor is that one asked for too.

    Args:
        patterns: of the outputs of the rule.
        trace: what the wildcard `trace` stands for.
    """
    outputs = [_WILDCARD.sub(r"\1", pattern).replace("{trace}", trace) for pattern in patterns]
    stamp = next(path for path in outputs if f"/{STAMP}" in path)
    return [stamp, *(path for path in outputs if os.path.exists(stamp) and not os.path.exists(path))]


def writable(folder: Path) -> bool:
    """Whether a folder can be written to, or made."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)
