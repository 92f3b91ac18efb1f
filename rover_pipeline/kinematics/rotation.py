"""Rotations: the logarithm and exponential of SO(3), and the interpolation between two rotations.

The interpolation keeps the angular velocities at both ends. The rotation is R(t) = R0 exp(phi(t)), where the rotation
vector phi(t) is the cubic with the values and slopes of the two rotations at the ends. Angular velocity and
acceleration are its exact derivatives. With phi' and phi'',

    w  = phi' - a phi x phi' + b phi x (phi x phi'),    a = (1 - cos p) / p^2,  b = (p - sin p) / p^3,  p = |phi|

(the right Jacobian of SO(3): Chirikjian, Stochastic Models, Information Theory, and Lie Groups 2, 2012, 10.86).
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.numerics.linear import det, eigh, matmul

#: Angle below which the coefficients come from their series, radians. Rounding makes the closed forms wrong by the
#: resolution of doubles over its square, and the series lack its fourth power over 5040: both are about 1e-12 here.
#: Physics: double precision.
_SMALL = 1e-2
#: What differs by more than this from a rotation is replaced by the nearest one: some hundred roundings of a product.
#: SciPy's own limit is ten times higher. Physics: double precision.
_OBLIQUE = 1e-13


def from_matrix(rot: np.ndarray) -> Rotation:
    """Rotations of matrices (N, 3, 3) or (3, 3), which rounding may have made a little oblique.

    SciPy gives oblique ones to LAPACK.
    """
    rot = np.asarray(rot, "f8")
    oblique = np.abs(matmul(rot, np.swapaxes(rot, -1, -2)) - np.eye(3)).max((-1, -2), keepdims=True) > _OBLIQUE
    return Rotation.from_matrix(np.where(oblique, nearest(rot), rot) if oblique.any() else rot)


def nearest(matrix: np.ndarray) -> np.ndarray:
    """The rotations R of greatest trace(R' M), f8 (..., 3, 3), for matrices M: those nearest to them.

    The quaternion is an eigenvector (Horn, Closed-form solution of absolute orientation, 1987).
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = np.moveaxis(np.asarray(matrix, "f8"), (-2, -1), (0, 1))
    zero = np.zeros_like(xx)  # The upper triangle is not read.
    rows = [
        [xx - yy - zz, zero, zero, zero],
        [xy + yx, yy - xx - zz, zero, zero],
        [xz + zx, yz + zy, zz - xx - yy, zero],
        [zy - yz, xz - zx, yx - xy, xx + yy + zz],
    ]
    vectors = eigh(np.moveaxis(np.array(rows), (0, 1), (-2, -1)))[1]
    quaternions = vectors[..., -1].reshape(-1, 4)
    return np.asarray(Rotation.from_quat(quaternions).as_matrix().reshape(np.shape(matrix)))


def obliqueness(rot: np.ndarray) -> np.ndarray:
    """How far matrices (N, 3, 3) are from rotations, f8 (N,): the largest element of R R' - 1.

    It is infinite for those that reflect, or are not finite.
    """
    finite = np.isfinite(rot).all((1, 2))[:, None, None]
    rot = np.where(finite, rot, -np.eye(3))
    apart = np.abs(matmul(rot, np.swapaxes(rot, 1, 2)) - np.eye(3)).max((1, 2))
    return np.asarray(np.where(det(rot) > 0, apart, np.inf))


def log(rot: np.ndarray) -> np.ndarray:
    """Rotation vectors (N, 3), radians, of rotations (N, 3, 3)."""
    return from_matrix(rot).as_rotvec()


def exp(vector: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) of rotation vectors (N, 3), radians."""
    return Rotation.from_rotvec(vector).as_matrix()


def rotated(rot: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors, f8 (N, 3), each turned by its own rotation, f8 (N, 3, 3)."""
    return np.asarray(np.einsum("nij,nj->ni", rot, vectors))


def interpolate_rotation(
    rot: tuple[np.ndarray, np.ndarray], avel: tuple[np.ndarray, np.ndarray], span: np.ndarray, fraction: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rotations between N pairs of rotations.

    Args:
        rot: world-from-body at both ends, f8 (N, 3, 3); the angle between them is less than 180 degrees.
        avel: angular velocities at both ends, f8 (N, 3), rad/s, in the body's own frame.
        span: seconds from one end to the other, f8 (N,).
        fraction: of the span that has passed, f8 (N,), 0 to 1.

    Returns:
        World-from-body rotation f8 (N, 3, 3), and angular velocity and acceleration f8 (N, 3), rad/s and rad/s2, in the
        body's own frame.
    """
    first = from_matrix(rot[0])
    whole = (first.inv() * from_matrix(rot[1])).as_rotvec()
    begin, end = avel[0] * span[:, None], _slope_of(whole, avel[1] * span[:, None])
    s = fraction[:, None]
    # The cubic through 0 and `whole` with slopes `begin` and `end`, by powers of the fraction.
    square, cube = 3 * whole - 2 * begin - end, begin + end - 2 * whole
    phi = ((cube * s + square) * s + begin) * s
    rate = ((3 * cube * s + 2 * square) * s + begin) / span[:, None]
    rate2 = (6 * cube * s + 2 * square) / span[:, None] ** 2
    return (first * Rotation.from_rotvec(phi)).as_matrix(), *derivatives(phi, rate, rate2)


def _slope_of(phi: np.ndarray, avel: np.ndarray) -> np.ndarray:
    """phi' of an angular velocity, by the inverse of the right Jacobian, (N, 3)."""
    angle = np.linalg.norm(phi, axis=1, keepdims=True)
    safe = np.maximum(angle, _SMALL)
    exact = 1 / safe**2 - (1 + np.cos(safe)) / (2 * safe * np.sin(safe))
    c = np.where(angle < _SMALL, 1 / 12 + angle**2 / 720, exact)
    once = np.cross(phi, avel)
    return avel + 0.5 * once + c * np.cross(phi, once)


def derivatives(phi: np.ndarray, rate: np.ndarray, rate2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angular velocity and acceleration in the body frame, (N, 3) each."""
    p = np.linalg.norm(phi, axis=1, keepdims=True)
    small, p2 = p < _SMALL, p**2
    safe = np.maximum(p, _SMALL)
    sin, cos = np.sin(safe), np.cos(safe)
    a = np.where(small, 1 / 2 - p2 / 24, (1 - cos) / safe**2)
    b = np.where(small, 1 / 6 - p2 / 120, (safe - sin) / safe**3)
    # da/dt and db/dt, divided by phi . phi'.
    da = np.where(small, -1 / 12 + p2 / 180, (safe * sin - 2 * (1 - cos)) / safe**4)
    db = np.where(small, -1 / 60 + p2 / 1260, (3 * sin - 2 * safe - safe * cos) / safe**5)
    along = (phi * rate).sum(axis=1, keepdims=True)
    once = np.cross(phi, rate)
    twice = np.cross(phi, once)
    spin = rate - a * once + b * twice
    once2 = np.cross(phi, rate2)
    change = rate2 - da * along * once - a * once2
    change += db * along * twice + b * (np.cross(rate, once) + np.cross(phi, once2))
    return spin, change


def skew(vector: np.ndarray) -> np.ndarray:
    """The matrices of cross products with vectors, (..., 3) to (..., 3, 3): `skew(a) @ b` is `a` times `b`."""
    x, y, z = np.moveaxis(np.asarray(vector), -1, 0)
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*x.shape, 3, 3)


def remove_tilt(rotation: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Level-from-sensor rotations, f8 (N, 3, 3): a level frame has the sensor's heading, and its z is up.

    Args:
        rotation: f8 (N, 3, 3), world-from-sensor.
        up: f8 (3,), in the world.
    """
    z = np.einsum("nji,j->ni", rotation, up)
    x = np.array([1.0, 0.0, 0.0]) - z * z[:, :1]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=1)
