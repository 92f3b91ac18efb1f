"""Linear algebra whose bytes do not depend on the processor: the same as NumPy's but for rounding, and row by row."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
from numpy.linalg import LinAlgError

from rover_pipeline.numerics import linear

SIZES = [1, 2, 3, 6, 15]


def random(seed: int, *shape: int, dtype: str = "f8") -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape)).astype(dtype) if dtype in ("c8", "c16") else values.astype(dtype)


def definite(seed: int, size: int, count: int = 5, dtype: str = "f8") -> np.ndarray:
    a = random(seed, count, size, size, dtype=dtype)
    return a @ np.swapaxes(a, 1, 2).conj() + 0.1 * np.eye(size)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i8"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)),
        ((4, 3), (3,)),
        ((3,), (3, 5)),
        ((4, 3), (3, 2000)),
        ((7, 4, 3), (3, 2)),
        ((4, 3), (7, 3, 2)),
        ((7, 4, 3), (7, 3, 2)),
        ((2, 1, 4, 3), (7, 3, 2)),
        ((7, 4, 3), (3,)),
        ((3,), (7, 3, 2)),
        ((0, 4, 3), (3, 2)),
        ((4, 0), (0, 2)),
    ],
    ids=str,
)
def test_products_are_those_of_the_operator(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> None:
    a, b = (random(seed, *shape, dtype=dtype) for seed, shape in enumerate(shapes))
    found, wanted = linear.matmul(a, b), a @ b
    assert (np.shape(found), found.dtype) == (np.shape(wanted), wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 if dtype in ("f8", "c16") else 1e-5)


def test_products_of_several_go_from_left_to_right_whatever_the_order_in_memory() -> None:
    a, b, c = random(0, 5, 3).T, np.broadcast_to(random(1, 5, 2), (4, 5, 2)), random(2, 2)
    np.testing.assert_array_equal(linear.matmul(a, b, c), linear.matmul(linear.matmul(a, b), c))
    np.testing.assert_allclose(linear.matmul(a, b, c), a @ b @ c, atol=1e-12)
    with pytest.raises(ValueError, match="have no product"):
        linear.matmul(np.ones((2, 3)), np.ones((2, 3)))


def test_a_row_does_not_depend_on_those_that_are_computed_with_it() -> None:
    a, b = random(0, 1001, 7), random(1, 7, 33)
    whole = linear.matmul(a, b)
    for part in (slice(0, 1), slice(3, 500), slice(17, 1001, 7)):
        assert linear.matmul(a[part], b).tobytes() == whole[part].tobytes()
    turns = random(2, 50, 7, 7)
    for function in (linear.inv, linear.cholesky, linear.eigvalsh):
        matrices = linear.matmul(turns, np.swapaxes(turns, 1, 2))
        assert function(matrices[7]).tobytes() == function(matrices)[7].tobytes()


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("size", SIZES)
def test_equations_are_solved_as_by_numpy(size: int, dtype: str) -> None:
    a, b = random(size, 5, size, size, dtype=dtype), random(size + 1, 5, size, 2, dtype=dtype)
    for left, right in [(a, b), (a[0], b[0]), (a[0], b[0, :, 0]), (a[0], b), (a, b[0])]:
        wanted = np.linalg.solve(left, right)
        np.testing.assert_allclose(linear.solve(left, right), wanted, rtol=1e-9, atol=1e-10 * np.abs(wanted).max())
    np.testing.assert_allclose(linear.matmul(linear.inv(a), a), np.broadcast_to(np.eye(size), a.shape), atol=1e-11)
    with pytest.raises(LinAlgError, match="Singular"):
        linear.inv(np.zeros((size, size)))
    assert linear.solve(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([4, 3])).tolist() == [3.0, 2.0]
    assert np.isnan(linear.inv(np.full((size, size), np.nan))).all()


def test_the_order_in_memory_does_not_matter() -> None:
    matrices = np.asfortranarray(definite(0, 4, count=3))
    for function in (linear.inv, linear.cholesky, linear.eigvalsh, lambda each: linear.solve(each, matrices)):
        assert function(matrices).tobytes() == function(np.ascontiguousarray(matrices)).tobytes()


def test_determinants_tell_a_reflection_from_a_rotation() -> None:
    a = random(3, 10, 3, 3)
    np.testing.assert_allclose(linear.det(a), np.linalg.det(a), atol=1e-12)
    assert linear.det(np.diag([1, 1, -1])) == -1


@pytest.mark.parametrize("size", SIZES)
def test_factors_of_definite_matrices_are_those_of_numpy(size: int) -> None:
    a = definite(size, size)
    np.testing.assert_allclose(linear.cholesky(a), np.linalg.cholesky(a), atol=1e-12)
    for bad in (-a, np.full((size, size), np.nan), np.zeros((size, size))):
        with pytest.raises(LinAlgError, match="not positive definite"):
            linear.cholesky(bad)


@pytest.mark.parametrize("width", [1, 2, 4, 24])
def test_banded_equations_are_solved_as_by_scipy(width: int) -> None:
    band = random(width, width, 60)
    band[0] = 2 * width + np.abs(band[0])
    right = random(1, 60, 3)
    np.testing.assert_allclose(
        linear.solveh_banded(band, right), scipy.linalg.solveh_banded(band, right, lower=True), atol=1e-12
    )
    factor, wanted = linear.cholesky_banded(band), scipy.linalg.cholesky_banded(band, lower=True)
    for k in range(width):
        np.testing.assert_allclose(factor[k, : 60 - k], wanted[k, : 60 - k], atol=1e-12)
    np.testing.assert_allclose(
        linear.cho_solve_banded(factor, right[:, 0]), linear.solveh_banded(band, right)[:, 0], atol=1e-12
    )
    own = np.asfortranarray(band)
    replaced = linear.cholesky_banded(own, overwrite=True)
    np.testing.assert_array_equal(replaced, factor)
    assert np.shares_memory(replaced, own)
    band[0, 20] = -1
    with pytest.raises(LinAlgError, match="21-th leading minor not positive definite"):
        linear.solveh_banded(band, right)


def hermitian(kind: str, size: int, dtype: str) -> np.ndarray:
    a = definite(size, size, dtype=dtype)
    basis = np.linalg.eigh(a)[1]
    values = {
        "definite": np.arange(1.0, size + 1),
        "indefinite": np.linspace(-1, 1, size),
        "repeated": np.r_[np.ones(size - size // 2), np.full(size // 2, 3.0)],
        "singular": np.r_[np.zeros(size // 2), np.arange(1.0, size - size // 2 + 1)],
        "zero": np.zeros(size),
        "graded": 10.0 ** np.linspace(-12, 6, size),
    }[kind]
    matrices = (basis * values) @ np.swapaxes(basis, 1, 2).conj()
    return (matrices + np.swapaxes(matrices, 1, 2).conj()) / 2


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["definite", "indefinite", "repeated", "singular", "zero", "graded"])
def test_eigenvectors_are_orthonormal_and_give_the_matrix_again(kind: str, size: int, dtype: str) -> None:
    a = hermitian(kind, size, dtype)
    values, vectors = linear.eigh(a)
    largest = max(1e-300, np.abs(a).max())
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=0, atol=1e-13 * size * largest)
    adjoint = np.swapaxes(vectors, 1, 2).conj()
    np.testing.assert_allclose(adjoint @ vectors, np.broadcast_to(np.eye(size), a.shape), atol=1e-13 * size)
    np.testing.assert_allclose((vectors * values[:, None]) @ adjoint, a, rtol=0, atol=1e-13 * size * largest)
    assert (np.diff(values, axis=1) >= 0).all()


def test_eigenvalues_read_the_lower_triangle_and_refuse_what_is_not_finite() -> None:
    a = definite(0, 4)
    np.testing.assert_array_equal(linear.eigvalsh(a), linear.eigvalsh(np.tril(a) + np.triu(random(1, 5, 4, 4), 1)))
    a[0, 1, 0] = np.nan
    with pytest.raises(LinAlgError):
        linear.eigh(a)


@pytest.mark.parametrize("before", ["", "AVX512_ICL"])
def test_commands_compute_without_numpys_functions_for_avx_512_which_round_differently(before: str) -> None:
    script = (
        "import rover_pipeline; from numpy._core import _multiarray_umath as of\n"
        "enabled = [name for name in of.__cpu_dispatch__ if of.__cpu_features__[name]]\n"
        "print([name for name in enabled if name.startswith(('AVX512', 'X86_V4'))])"
    )
    env = {**os.environ, "NPY_DISABLE_CPU_FEATURES": before}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


def test_few_numbers_give_the_bytes_of_the_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        found: list[np.ndarray] = []
        for size in (1, 2, 3, 4):
            for columns in (1, 3):
                a = rng.normal(size=(2, size, size)) * 10.0 ** rng.integers(-150, 150, (size, 1))
                b = rng.normal(size=(size, columns))
                vectors, zeros = rng.normal(size=(9, size)), -np.zeros((size, 2))
                found += [linear.solve(a, b), *linear.eigh(a[0] / abs(a[0]).max()), linear.matmul(a, b)]
                found += [linear.matmul(vectors, b), linear.matmul(b[:, 0], b), linear.matmul(abs(a), zeros)]
                found += [linear.matmul(rng.normal(size=(300, size)), rng.normal(size=(size, 20)))]
                found += [linear.matmul(vectors.astype("f4"), b.astype("f4"))]
        return found

    for kernel in (linear._multiply, linear._solve, linear._jacobi):
        monkeypatch.delitem(vars(kernel), "compiled", raising=False)  # other tests may have loaded it
    few = results()
    monkeypatch.setattr(linear, "_FEW", -1)
    monkeypatch.setattr(linear, "_SMALL", -1)
    for ours, theirs in zip(few, results(), strict=True):
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def test_a_few_numbers_load_no_compiler() -> None:
    code = (
        "import sys, numpy as np; from rover_pipeline.numerics.linear import eigh, matmul, solve; "
        "a = np.diag([3.0, 2, 1]);"
        "matmul(a, a); solve(a, a); eigh(a); from rover_pipeline.kinematics.rotation import nearest; nearest(a);"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
