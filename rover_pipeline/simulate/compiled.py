"""The decorators of compiled kernels: Numba, without the GIL, cached on disk between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function` compiled at its first call.

    No fast-math: results must be the same bytes wherever the same processor runs them, in any thread.
    """
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """`function` for use in kernels only, copied into them: a call would cost more than a ray's test of one box."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))
