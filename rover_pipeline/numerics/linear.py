"""Linear algebra that gives the same bytes on every x86-64 processor, for results that are written.

NumPy and SciPy leave it to BLAS and LAPACK, which have other kernels for each generation of processors. Theirs add in
other orders: the last bits differ, also with the number of rows that a product has. Here sums are added in the order of
their index, multiplications are not fused with additions, and no row depends on others. Names, arguments and errors are
those of NumPy and SciPy. Arrays have any number of leading axes. `np.linalg.norm` with an axis calls no BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from rover_pipeline.lookup import load
from rover_pipeline.numerics.blocks import blocks

#: A rotation is not made for what is less than this share of the values that it would mix. Physics: IEEE 754, double.
_EPS = 2.0**-53
#: Columns of the right matrix, and matrices of a stack, that are worked on at once: theirs and the result's stay in
#: the cache, and no copy is as large as the stack. Schedule.
_COLUMNS = 1024
#: Sweeps over all pairs after which the Jacobi methods have not converged. They take six to ten. Schedule.
_SWEEPS = 60
#: Up to so many numbers, and so many times, Python is not slower than loading Numba, half a second. Schedule.
_FEW, _OFTEN = 64, 20_000
#: Up to so many multiplications NumPy is not slower than loading a kernel. Schedule.
_SMALL = 16_384


class _Kernel:
    """A kernel, compiled at its first call, for many jobs have none and need not load Numba.

    One that indexes lists and arrays alike is run by Python on a few real numbers: their bytes are the same.
    """

    def __init__(self, function: Callable[..., Any], lists: bool = False) -> None:
        self.function, self.left = function, _OFTEN if lists else 0

    @cached_property
    def compiled(self) -> Any:
        return load("rover_pipeline.numerics.compiled:compiled")(self.function)

    def __call__(self, *arrays: Any) -> Any:
        few = self.left and sum(each.size for each in arrays) <= _FEW
        if not few or "compiled" in self.__dict__ or not all(each.size and each.dtype == "f8" for each in arrays):
            return self.compiled(*arrays)
        self.left -= 1
        lists = [each.tolist() for each in arrays]
        result = self.function(*lists)
        for array, numbers in zip(arrays, lists, strict=True):
            array[...] = numbers
        return result


def matmul(first: Any, *others: Any) -> Any:
    """The product of matrices or vectors, from left to right, as by the operator `@`."""
    product = np.asarray(first)
    for other in others:
        product = _product(product, np.asarray(other))
    return product


def solve(a: Any, b: Any) -> np.ndarray:
    """x of a x = b, (..., n) or (..., n, m), of matrices (..., n, n) (LU with partial pivoting: Golub & Van Loan, 3.4).

    A `b` with one axis is a vector.

    Raises:
        LinAlgError: a matrix is singular.
    """
    a, b = np.asarray(a), np.asarray(b)
    right = b[:, None] if b.ndim == 1 else b
    batch, kind = _batch(a, right), np.result_type(a, b, "f8")
    matrices, solution = np.empty(batch + a.shape[-2:], kind), np.empty(batch + right.shape[-2:], kind)
    matrices[...], solution[...] = a, right
    if not _solve(_stacked(matrices), _stacked(solution)):
        raise LinAlgError("Singular matrix")
    return solution[..., 0] if b.ndim == 1 else solution


def inv(a: Any) -> np.ndarray:
    """Inverses of matrices (..., n, n). Raises LinAlgError where one is singular."""
    return solve(a, np.eye(np.shape(a)[-1]))


def det(a: Any) -> Any:
    """Determinants of real matrices (..., 3, 3), along the first row."""
    a = np.asarray(a, "f8")
    return (a[..., 0, :] * np.cross(a[..., 1, :], a[..., 2, :])).sum(axis=-1)


def cholesky(a: Any) -> np.ndarray:
    """Lower factors of real matrices (..., n, n). Raises LinAlgError where one is not positive definite."""
    factors = np.array(np.tril(a), "f8", order="C")
    if not _cholesky(_stacked(factors)):
        raise LinAlgError("Matrix is not positive definite")
    return factors


def cholesky_banded(band: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """The lower factor of a positive definite matrix, both f8 (width, n) in SciPy's lower form.

    Args:
        overwrite: the factor may take the place of the matrix. It does where this is in the order of Fortran.

    Raises:
        LinAlgError: the matrix is not positive definite.
    """
    columns = (np.asarray if overwrite else np.array)(band.T, "f8", order="C")
    for part in blocks(len(columns)):
        if minor := _cholesky_banded(columns, part.start, part.stop):
            raise LinAlgError(f"{minor}-th leading minor not positive definite")
    return columns.T


def cho_solve_banded(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """x of a x = right, f8 (n,) or (n, m), by the factor of `cholesky_banded`."""
    solution = np.array(right, "f8", order="C")
    columns, rows = _contiguous(lower.T, "f8"), solution.reshape(len(solution), -1)
    for step in (1, -1):
        for part in blocks(len(columns), step=step):
            _solve_banded(columns, rows, part.start, part.stop, step > 0)
    return solution


def solveh_banded(band: np.ndarray, right: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """x of a x = right, f8 (n,) or (n, m), of a positive definite matrix f8 (width, n) in SciPy's lower form.

    Args:
        overwrite: as of `cholesky_banded`.
    """
    return cho_solve_banded(cholesky_banded(band, overwrite=overwrite), right)


def eigh(a: Any) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending, and eigenvectors in columns, of Hermitian matrices (..., n, n).

    The cyclic Jacobi method (Golub & Van Loan, 8.5; where to stop: Demmel & Veselic, 1992).

    Raises:
        LinAlgError: a matrix has numbers that are not finite.
    """
    a = np.asarray(a)
    a = np.tril(a).astype(np.result_type(a, "f8"), order="C", copy=False)
    a += np.swapaxes(np.tril(a, -1), -1, -2).conj()
    vectors = np.zeros(a.shape, a.dtype)
    if not np.isfinite(a).all() or not _jacobi(_stacked(a), _stacked(vectors)):
        raise LinAlgError("Eigenvalues did not converge")
    return np.diagonal(a, axis1=-2, axis2=-1).real.copy(), vectors


def eigvalsh(a: Any) -> np.ndarray:
    """Eigenvalues, ascending, of Hermitian matrices (..., n, n), as of `eigh`."""
    return eigh(a)[0]


def _product(a: np.ndarray, b: np.ndarray) -> Any:
    kind = np.result_type(a, b)
    if kind.kind not in "fc":
        return np.matmul(a, b)  # Integers: BLAS has none.
    left, right = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"matrices of shapes {a.shape} and {b.shape} have no product")
    few = left.shape[-1] > 0 and max(left.size * right.shape[-1], right.size * left.shape[-2]) <= _SMALL
    by_numpy = few and kind.kind == "f" and "compiled" not in _multiply.__dict__
    product = _by_numpy(left, right) if by_numpy else _by_kernel(left, right, np.result_type(kind, "f8"))
    product = (product[..., 0, :] if a.ndim == 1 else product).astype(kind, copy=False)
    return product[..., 0][()] if b.ndim == 1 else product


def _by_numpy(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product of real matrices by NumPy, in the order of the index."""
    with np.errstate(all="ignore"):
        terms = np.multiply(left[..., None], right[..., None, :, :], dtype="f8")
        return np.add.accumulate(terms, axis=-2)[..., -1, :] + 0.0  # no sum of a kernel is -0


def _by_kernel(left: np.ndarray, right: np.ndarray, wide: np.dtype) -> np.ndarray:
    batch = _batch(left, right)
    product = np.zeros((*batch, left.shape[-2], right.shape[-1]), wide)
    for part in blocks(batch[0], _COLUMNS) if batch else [slice(None)]:
        _multiply(_operand(left, batch, part, wide), _operand(right, batch, part, wide), _stacked(product[part]))
    return product


def _batch(left: np.ndarray, right: np.ndarray) -> tuple[int, ...]:
    """Leading axes of what is made of two stacks of matrices."""
    batch, other = left.shape[:-2] or right.shape[:-2], right.shape[:-2]
    return batch if other in ((), batch) else np.broadcast_shapes(batch, other)


def _operand(matrix: np.ndarray, batch: tuple[int, ...], part: slice, kind: Any) -> np.ndarray:
    """One matrix for all, or one for each of a part of the batch: (1 or N, n, m)."""
    if matrix.ndim > 2 and matrix.shape[:-2] != batch:
        matrix = np.broadcast_to(matrix, batch + matrix.shape[-2:])
    return _stacked(_contiguous(matrix if matrix.ndim == 2 else matrix[part], kind))


def _contiguous(matrix: np.ndarray, kind: Any) -> np.ndarray:
    """In order of memory and writeable, for which kernels are compiled."""
    matrix = np.ascontiguousarray(matrix, kind)
    return matrix if matrix.flags.writeable else matrix.copy()


def _stacked(matrices: np.ndarray) -> np.ndarray:
    """(N, n, m) of (..., n, m)."""
    return matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:])


@_Kernel
def _multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Add the products (N, n, m) of (1 or N, n, k) and (1 or N, k, m) to `out`."""
    for n in range(len(out)):
        own_a, own_b = min(n, len(a) - 1), min(n, len(b) - 1)
        for begin in range(0, out.shape[2], _COLUMNS):
            end = min(begin + _COLUMNS, out.shape[2])
            for i in range(out.shape[1]):
                for k in range(0, a.shape[2] - 3, 4):  # in order, but the sums are read and written a quarter as often
                    p, q, r, s = a[own_a, i, k], a[own_a, i, k + 1], a[own_a, i, k + 2], a[own_a, i, k + 3]
                    for j in range(begin, end):
                        two = out[n, i, j] + p * b[own_b, k, j] + q * b[own_b, k + 1, j]
                        out[n, i, j] = two + r * b[own_b, k + 2, j] + s * b[own_b, k + 3, j]
                for k in range(a.shape[2] // 4 * 4, a.shape[2]):
                    factor = a[own_a, i, k]
                    for j in range(begin, end):
                        out[n, i, j] += factor * b[own_b, k, j]


@partial(_Kernel, lists=True)
def _solve(a: np.ndarray, b: np.ndarray) -> bool:
    """Solve for b (N, n, m) in place. False where a matrix (N, n, n) is singular."""
    size = len(a[0])
    for n in range(len(a)):
        for column in range(size):
            pivot = column
            for row in range(column + 1, size):
                if abs(a[n][row][column]) > abs(a[n][pivot][column]):
                    pivot = row
            if a[n][pivot][column] == 0:
                return False
            for k in range(size if pivot != column else 0):
                a[n][column][k], a[n][pivot][k] = a[n][pivot][k], a[n][column][k]
            for k in range(len(b[0][0]) if pivot != column else 0):
                b[n][column][k], b[n][pivot][k] = b[n][pivot][k], b[n][column][k]
            for row in range(column + 1, size):
                ratio = a[n][row][column] / a[n][column][column]
                for k in range(column + 1, size):
                    a[n][row][k] -= ratio * a[n][column][k]
                for k in range(len(b[0][0])):
                    b[n][row][k] -= ratio * b[n][column][k]
        for row in range(size - 1, -1, -1):
            for other in range(row + 1, size):
                for k in range(len(b[0][0])):
                    b[n][row][k] -= a[n][row][other] * b[n][other][k]
            for k in range(len(b[0][0])):
                b[n][row][k] /= a[n][row][row]
    return True


@_Kernel
def _cholesky(a: np.ndarray) -> bool:
    """Factor lower triangles (N, n, n) in place. False where one is not positive definite."""
    for n in range(len(a)):
        for j in range(a.shape[1]):
            for k in range(j):
                for i in range(j, a.shape[1]):
                    a[n, i, j] -= a[n, i, k] * a[n, j, k]
            if not a[n, j, j] > 0:
                return False
            root = math.sqrt(a[n, j, j])
            for i in range(j, a.shape[1]):
                a[n, i, j] /= root
    return True


@_Kernel
def _cholesky_banded(columns: np.ndarray, start: int, stop: int) -> int:
    """Factor in place `start:stop` of columns (n, width) from the diagonal down, where those before them are factored;
    the number of the minor that is not positive, or 0."""
    count, width = columns.shape
    for j in range(start, stop):
        if not columns[j, 0] > 0:
            return j + 1
        root = math.sqrt(columns[j, 0])
        for i in range(width):
            columns[j, i] /= root
        for k in range(1, min(width, count - j)):
            factor = columns[j, k]
            for i in range(k, width):
                columns[j + k, i - k] -= factor * columns[j, i]
    return 0


@_Kernel
def _solve_banded(columns: np.ndarray, right: np.ndarray, start: int, stop: int, down: bool) -> None:
    """Solve for rows `start:stop` of `right` (n, m) in place, by a factor (n, width), or by its transpose upwards."""
    count, width = columns.shape
    for j in range(start, stop if down else start):
        for m in range(right.shape[1]):
            right[j, m] /= columns[j, 0]
        for k in range(1, min(width, count - j)):
            for m in range(right.shape[1]):
                right[j + k, m] -= columns[j, k] * right[j, m]
    for j in range((start if down else stop) - 1, start - 1, -1):
        for k in range(1, min(width, count - j)):
            for m in range(right.shape[1]):
                right[j, m] -= columns[j, k] * right[j + k, m]
        for m in range(right.shape[1]):
            right[j, m] /= columns[j, 0]


@partial(_Kernel, lists=True)
def _jacobi(a: np.ndarray, vectors: np.ndarray) -> bool:
    """Make Hermitian matrices (N, n, n) diagonal, ascending, by rotations whose product goes to `vectors`."""
    size = len(a[0])
    for n in range(len(a)):
        norm = 0.0
        for i in range(size):
            vectors[n][i][i] = 1
            for k in range(size):
                norm = max(norm, abs(a[n][i][k]))
        rotated = True
        for _ in range(_SWEEPS):
            rotated = False
            for p in range(size - 1):
                for q in range(p + 1, size):
                    length = abs(a[n][p][q])
                    first, second = a[n][p][p].real, a[n][q][q].real
                    scale = max(math.sqrt(abs(first)) * math.sqrt(abs(second)), 1e-4 * norm)
                    if length <= _EPS * scale:
                        continue
                    rotated = True
                    phase = a[n][q][p] / length
                    ratio = (second - first) / 2 / length
                    tangent = math.copysign(1 / (abs(ratio) + math.sqrt(1 + ratio * ratio)), ratio)
                    cosine = 1 / math.sqrt(1 + tangent * tangent)
                    sine = tangent * cosine
                    for k in range(size):
                        x, y = a[n][k][p], phase * a[n][k][q]
                        a[n][k][p], a[n][k][q] = cosine * x - sine * y, sine * x + cosine * y
                        x, y = vectors[n][k][p], phase * vectors[n][k][q]
                        vectors[n][k][p], vectors[n][k][q] = cosine * x - sine * y, sine * x + cosine * y
                    for k in range(size):
                        a[n][p][k], a[n][q][k] = a[n][k][p].conjugate(), a[n][k][q].conjugate()
                    a[n][p][p], a[n][q][q] = first - tangent * length, second + tangent * length
                    a[n][p][q] = a[n][q][p] = 0
            if not rotated:
                break
        if rotated:
            return False
        for i in range(size):
            lowest = i
            for k in range(i + 1, size):
                lowest = k if a[n][k][k].real < a[n][lowest][lowest].real else lowest
            a[n][i][i], a[n][lowest][lowest] = a[n][lowest][lowest], a[n][i][i]
            for k in range(size):
                vectors[n][k][i], vectors[n][k][lowest] = vectors[n][k][lowest], vectors[n][k][i]
    return True
