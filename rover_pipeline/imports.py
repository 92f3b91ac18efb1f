"""Faster starts: packages that import, by the way, large others that a step has no use for.

A step is a process of its own, and what these cost is a third of its start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Modules, named in full, that cannot be imported inside, as if they were not installed; loaded ones stay."""
    with _instead(dict.fromkeys(names)):
        yield


@contextmanager
def empty(*names: str) -> Iterator[None]:
    """Modules, named in full, whose import inside gives an empty one, to find out that they exist; loaded ones stay."""
    with _instead({name: ModuleType(name) for name in names}):
        yield


@contextmanager
def _instead(modules: dict[str, ModuleType | None]) -> Iterator[None]:
    hidden = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None halts an import: documented, but unknown to typeshed
    try:
        yield
    finally:
        for name, module in hidden.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
