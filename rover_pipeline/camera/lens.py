"""Intrinsics of a camera, with one of OpenCV's two models of a lens.

A direction has the tangents (x, y) = (right, down) / ahead, r = hypot(x, y), and the angle theta = atan(r) from the
optical axis. (0, 0) is the centre of the first pixel. Then column = fx x' + cx and row = fy y' + cy, where

- `fisheye` (J. Kannala and S. S. Brandt, A generic camera model and calibration method for conventional, wide-angle,
  and fish-eye lenses, PAMI 28, 2006; `cv2.fisheye`):

      theta_d = theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4 theta^8)
      (x', y') = (x, y) theta_d / r

- `brown` (D. C. Brown, Close-range camera calibration, Photogrammetric Engineering 37, 1971; `cv2.projectPoints`):

      x' = x (1 + k1 r^2 + k2 r^4 + k3 r^6 + k4 r^8) + 2 p1 x y + p2 (r^2 + 2 x^2)
      y' = y (1 + k1 r^2 + k2 r^4 + k3 r^6 + k4 r^8) + p1 (r^2 + 2 y^2) + 2 p2 x y

  This is OpenCV's model except for k4, which OpenCV uses in a denominator. Without k and p it is a pinhole.

Both polynomials are only calibrated where they grow. Beyond, they would put a second image of the world into the
picture: a lens sees nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

LensModel = Literal["fisheye", "brown"]

#: Beyond this tangent, 89.94 degrees from the axis, Brown's model, which never reaches 90, ends. Tuned: by hand.
_MAX_TANGENT = 1000.0
#: Steps of the table in which the inverse of the radial distortion is looked up before it is refined. Layout.
_STEPS = 16384
#: Rows of pixels whose rays are computed at a time, to bound the memory that it takes. Schedule.
_ROWS = 64
#: Maximum number of iterations that remove the tangential distortion; mostly a few are enough. Schedule.
_ITERATIONS = 20


@dataclass(frozen=True)
class Lens:
    """Intrinsics of pictures of one size.

    Attributes:
        width, height: of the pictures, pixels.
        fx, fy: focal lengths, pixels.
        cx, cy: principal point, pixels.
        k, p: radial and tangential distortion; `fisheye` has no p.
        model: what k and p are coefficients of.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    k: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    p: tuple[float, float] = (0.0, 0.0)
    model: LensModel = "brown"

    @property
    def is_fisheye(self) -> bool:
        return self.model == "fisheye"

    @property
    def is_distorted(self) -> bool:
        """Whether straight lines of the world are bent. A fisheye bends them even if all of its k are zero."""
        return self.is_fisheye or any(self.k) or any(self.p)

    @cached_property
    def max_radius(self) -> float:
        """The theta (`fisheye`, at most pi) or r (`brown`) up to which the radial polynomial grows."""
        # Its derivative, as a polynomial in the square of theta or r.
        slope = [(2 * n + 1) * value for n, value in reversed([*enumerate([1.0, *self.k])])]
        roots = np.roots(slope)
        turns = roots.real[(roots.real > 0) & (np.abs(roots.imag) <= 1e-9 * np.abs(roots))]
        # Digits that do not depend on the processor are enough.
        return min([np.pi if self.is_fisheye else np.inf, *np.sqrt(np.round(turns, 12))])

    @property
    def max_tangent(self) -> float:
        """Tangent of the largest angle below 90 degrees from the axis that the lens sees; infinite without a limit."""
        if not self.is_fisheye:
            return float(self.max_radius)
        return float(np.tan(self.max_radius)) if self.max_radius < np.pi / 2 else np.inf

    def describe(self) -> dict[str, object]:
        """The content of a `camera.json` with these intrinsics."""
        model = self.model if self.is_distorted else "pinhole"
        numbers = {"fx": self.fx, "fy": self.fy, "cx": self.cx, "cy": self.cy, "k": self.k, "p": self.p}
        return {"model": model, **numbers}

    def resized(self, width: int, height: int) -> Lens:
        """The intrinsics of the same pictures at another size."""
        x, y = width / self.width, height / self.height
        # Picture borders stay where they are; they are half a pixel away from the centres of the outermost pixels.
        cx, cy = (self.cx + 0.5) * x - 0.5, (self.cy + 0.5) * y - 0.5
        return replace(self, width=width, height=height, fx=self.fx * x, fy=self.fy * y, cx=cx, cy=cy)

    def undistorted(self) -> Lens:
        """The pinhole with the same focal lengths and principal point."""
        return replace(self, k=Lens.k, p=Lens.p, model="brown")

    def pixels(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column and row of the projections of directions ahead; NaN where the lens sees nothing.

        Args:
            x, y: (right, down) / ahead, f8 arrays of the same shape.
        """
        radius = np.hypot(x, y)
        seen = np.where(radius <= self.max_tangent, radius, np.nan)
        if self.is_fisheye:
            theta = np.arctan(seen)
            radial = np.divide(self._distorted(theta), seen, out=np.ones_like(seen), where=seen != 0)
        else:
            radial = self._factor(seen)
        shift_x, shift_y = self._tangential(x, y)
        return self.fx * (x * radial + shift_x) + self.cx, self.fy * (y * radial + shift_y) + self.cy

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) of each pixel of a pinhole with these intrinsics, f8 (height, width) each."""
        columns, rows = np.meshgrid(np.arange(self.width), np.arange(self.height))
        return (columns - self.cx) / self.fx, (rows - self.cy) / self.fy

    def rays(self) -> np.ndarray:
        """Unit vectors from the camera into which its pixels look, f8 (height, width, 3), front-left-up.

        A fisheye may see what is behind the camera. NaN where the lens sees nothing.
        """
        x, y = self.directions()
        out = np.empty((self.height, self.width, 3))
        for top in range(0, self.height, _ROWS):
            rows = slice(top, top + _ROWS)
            out[rows] = self._rays(x[rows], y[rows])
        return out

    def _rays(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Unit vectors of light, f8 (..., 3), from distorted tangents."""
        if self.is_fisheye:
            distorted = np.hypot(x, y)
            theta = self._inverse(distorted)
            aside = np.divide(np.sin(theta), distorted, out=np.ones_like(theta), where=distorted != 0)
            return np.stack([np.cos(theta), -x * aside, -y * aside], axis=-1)
        x, y = self._straightened(x, y)
        return np.stack([np.ones_like(x), -x, -y], axis=-1) / np.sqrt(1 + x * x + y * y)[..., None]

    def _factor(self, radius: np.ndarray) -> np.ndarray:
        """The radial polynomial at theta or r, divided by it."""
        return np.polyval([*self.k[::-1], 1.0], radius * radius)

    def _distorted(self, radius: np.ndarray) -> np.ndarray:
        return radius * self._factor(radius)

    def _tangential(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        square, (p1, p2) = x * x + y * y, self.p
        return 2 * p1 * x * y + p2 * (square + 2 * x * x), p1 * (square + 2 * y * y) + 2 * p2 * x * y

    def _inverse(self, distorted: np.ndarray) -> np.ndarray:
        """The theta or r whose radial polynomial is `distorted`; NaN where none is."""
        if not any(self.k):
            return np.where(distorted <= self.max_radius, distorted, np.nan)
        limit = min(self.max_radius, _MAX_TANGENT)
        # Brown's polynomial may have no turn at all: a table up to what the picture needs has finer steps.
        while limit > 2 and self._distorted(np.array(limit / 2)) > distorted.max(initial=0.0):
            limit /= 2
        table = np.linspace(0.0, limit, _STEPS + 1)
        values = self._distorted(table)
        cell = np.clip(np.searchsorted(values, distorted) - 1, 0, _STEPS - 1)
        low, high = table[cell], table[cell + 1]
        share = (distorted - values[cell]) / (values[cell + 1] - values[cell])
        radius = low + np.clip(share, 0.0, 1.0) * (high - low)
        for _ in range(2):
            # Newton's method. At the turn the slope vanishes, and only the cell of the table limits the error.
            square = radius * radius
            with np.errstate(divide="ignore", invalid="ignore"):
                step = (self._distorted(radius) - distorted) / (self._factor(radius) + 2 * square * self._slope(square))
            radius = np.clip(radius - np.nan_to_num(step, nan=0.0), low, high)
        return np.where(distorted <= values[-1], radius, np.nan)

    def _slope(self, square: np.ndarray) -> np.ndarray:
        """Derivative of the factor by the square of theta or r."""
        k1, k2, k3, k4 = self.k
        return k1 + square * (2 * k2 + square * (3 * k3 + square * 4 * k4))

    def _straightened(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tangents (x, y) whose distorted ones, by Brown's model, are given; NaN where there are none."""
        distorted = np.hypot(x, y)
        factor = np.divide(self._inverse(distorted), distorted, out=np.ones_like(distorted), where=distorted != 0)
        found_x, found_y, target_x, target_y = (each.ravel() for each in (x * factor, y * factor, x, y))
        p1, p2 = self.p
        rest = np.flatnonzero(np.isfinite(found_x)) if p1 or p2 else np.zeros(0, int)
        for _ in range(_ITERATIONS):
            # Newton's method in two dimensions, for what has not converged yet.
            u, v = found_x[rest], found_y[rest]
            square = u * u + v * v
            radial, slope = self._factor(np.sqrt(square)), self._slope(square)
            shift_x, shift_y = self._tangential(u, v)
            error_x, error_y = u * radial + shift_x - target_x[rest], v * radial + shift_y - target_y[rest]
            xx = radial + 2 * u * u * slope + 2 * p1 * v + 6 * p2 * u
            yy = radial + 2 * v * v * slope + 6 * p1 * v + 2 * p2 * u
            xy = 2 * u * v * slope + 2 * p1 * u + 2 * p2 * v
            with np.errstate(all="ignore"):
                determinant = xx * yy - xy * xy
                step_x = (yy * error_x - xy * error_y) / determinant
                step_y = (xx * error_y - xy * error_x) / determinant
            found_x[rest], found_y[rest] = u - step_x, v - step_y
            rest = rest[~(np.hypot(step_x, step_y) < 1e-12)]
            if not len(rest):
                break
        # What does not converge lies at the turn of the polynomial.
        found_x[rest] = np.nan
        found_x[~(np.hypot(found_x, found_y) <= self.max_tangent)] = np.nan
        return found_x.reshape(x.shape), found_y.reshape(x.shape)
