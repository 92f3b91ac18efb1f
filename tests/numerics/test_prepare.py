"""Kernels that are compiled before they are called: the list of them, their types, and the cache that both use."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, NamedTuple, cast

import numba
import numpy as np
import pytest

from rover_pipeline.numerics import compiled, prepare
from rover_pipeline.numerics.compiled import compile_for, listed

PACKAGE = Path(compiled.__file__).parents[1]


class Pair(NamedTuple):
    """Two arguments of a kernel."""

    first: np.ndarray
    second: int


@compiled.compiled
def _steps(x: float, count: int) -> float:
    return x - count - 1.0


@compiled.compiled
def _counted(x: float) -> int:
    count = 0
    while x > 0:
        x = _steps(x, count)
        count += 1
    return count


@compiled.compiled
def _summed(pair: Pair, scale: tuple[float, int]) -> float:
    return pair.first[0] * scale[0] + pair.second * scale[1]


def test_every_kernel_of_the_list_can_be_compiled_for_its_types() -> None:
    assert prepare.prepare() == []


def test_a_kernel_of_the_list_that_is_not_there_any_more_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels.json").write_text('{"radar": [["radar.spectrum:gone", ["float64"]]]}')
    monkeypatch.setattr(prepare, "_LIST", tmp_path / "kernels.json")
    assert [line.split(":")[1] for line in prepare.prepare(["radar"])] == ["gone"]


def test_what_is_compiled_is_not_loaded_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    monkeypatch.setattr(prepare, "prepare", lambda: times.append(1))
    monkeypatch.setattr(prepare, "cache_folder", lambda source: tmp_path / source.parent.name)
    prepare.main([])  # as where nothing can be written
    for room in prepare.ROOMS:
        (tmp_path / room).mkdir()
    for _ in range(3):
        prepare.main([])
    assert len(times) == 2


@pytest.mark.parametrize(
    "value",
    [
        1,
        True,
        np.float32(1),
        np.zeros((2, 3), "c8"),
        np.zeros((2, 3)).T,
        np.zeros((4, 4))[:, 1:],
        np.broadcast_to(1.0, 3),
    ],
    ids=["int", "bool", "f4", "C", "Fortran", "strided", "read-only"],
)
def test_types_come_back_from_the_list_as_they_were(value: object) -> None:
    for each in (value, (value, 1), Pair(np.zeros(3), 2), (Pair(np.zeros(3, "u2"), 2), value)):
        kind = numba.typeof(each)
        text = json.dumps(compiled._described(kind))
        assert compiled._type(json.loads(text)) == kind


def test_a_kernel_that_was_compiled_ahead_is_called_without_compiling_it() -> None:
    pair, scale = Pair(np.ones(3), 2), (0.5, 3)
    signature = [compiled._described(numba.typeof(each)) for each in (pair, scale)]
    compile_for(_summed, json.loads(json.dumps(signature)))
    assert _summed(pair, scale) == 6.5
    assert len(cast(Any, _summed).signatures) == 1
    (index,) = compiled.cache_folder(Path(__file__)).rglob("test_prepare._summed-*.nbi")
    assert signature in listed(index)


def test_a_kernel_is_not_compiled_for_the_constants_that_a_loop_begins_with() -> None:
    assert _counted(10.0) == 4
    (index,) = compiled.cache_folder(Path(__file__)).rglob("test_prepare._steps-*.nbi")
    assert len(listed(index)) == 1


#: Functions of NumPy that a few lines do as well, and that Numba compiles for seconds.
SLOW = {"argsort", "concatenate", "median", "partition", "sort", "std", "sum", "unique", "var"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_kernels_call_nothing_that_takes_seconds_to_compile(path: Path) -> None:
    for function in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)):
        if {"compiled", "compiled_with_fma", "inlined"} & {ast.unparse(each) for each in function.decorator_list}:
            called = {
                node.func.attr
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            }
            assert not called & SLOW, f"{function.name} calls {called & SLOW}"
