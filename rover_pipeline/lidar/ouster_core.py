"""ouster-sdk's `core`, without what only its readers of ROS bags need.

`ouster.sdk` imports these readers, and with them all messages of ROS, which takes a third of a second in every process.
Nothing here reads bags with them. So a module that imports them when they are called stands in for them while
`ouster.sdk` is imported. A program that uses both packages notices no difference.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_BAGS = "ouster.sdk.bag"
_READERS = "BagFrameSetSource", "BagPacketSource"


def _on_demand(name: str) -> Callable[..., Any]:
    def reader(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(_BAGS), name)(*args, **kwargs)

    return reader


@contextmanager
def _without_bags() -> Iterator[None]:
    if "ouster.sdk" in sys.modules or _BAGS in sys.modules:
        yield
        return
    stand_in: Any = ModuleType(_BAGS)
    for name in _READERS:
        setattr(stand_in, name, _on_demand(name))
    sys.modules[_BAGS] = stand_in
    try:
        yield
    finally:
        del sys.modules[_BAGS]
        parent = sys.modules.get("ouster.sdk")
        if getattr(parent, "bag", None) is stand_in:
            delattr(parent, "bag")


with _without_bags():
    from ouster.sdk import core

__all__ = ["core"]
