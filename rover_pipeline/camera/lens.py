"""Intrinsics of a camera: a pinhole with radial and tangential distortion (D. C. Brown, Close-range camera
calibration, Photogrammetric Engineering 37, 1971).

A direction (x, y) = (right, down) / ahead is projected to

    x' = x (1 + k1 r2 + k2 r2^2 + k3 r2^3 + k4 r2^4) + 2 p1 x y + p2 (r2 + 2 x^2)
    y' = y (1 + k1 r2 + k2 r2^2 + k3 r2^3 + k4 r2^4) + p1 (r2 + 2 y^2) + 2 p2 x y
    column = fx x' + cx,  row = fy y' + cy

with r2 = x^2 + y^2 and (0, 0) the centre of the first pixel. This is OpenCV's model except for k4, which OpenCV uses
in a denominator.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.texts import parse_json


@dataclass(frozen=True)
class Lens:
    """Intrinsics of pictures of one size.

    Attributes:
        width, height: of the pictures, pixels.
        fx, fy: focal lengths, pixels.
        cx, cy: principal point, pixels.
        k, p: radial and tangential distortion.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    k: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    p: tuple[float, ...] = (0.0, 0.0)

    @staticmethod
    def parse(text: str, width: int, height: int) -> Lens:
        """Intrinsics from the text of a `camera.json`: `fx fy cx cy`, and optionally `k` (4 numbers) and `p` (2).

        Raises:
            ValueError: the text is something else.
        """
        try:
            content = parse_json(text, "camera.json")
            fx, fy, cx, cy = (float(content[name]) for name in ("fx", "fy", "cx", "cy"))
            k = tuple(float(value) for value in content.get("k", Lens.k))
            p = tuple(float(value) for value in content.get("p", Lens.p))
        except (FormatError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            problem = f"must give the numbers fx, fy, cx, cy, and lists k and p ({short(str(error))})"
            raise ValueError(f"camera.json {problem}") from error
        lens = Lens(width, height, fx, fy, cx, cy, k, p)
        if len(k) != 4 or len(p) != 2 or not np.isfinite([fx, fy, cx, cy, *k, *p]).all() or min(fx, fy) <= 0:
            problem = "must give finite numbers: fx and fy above zero, four in k, two in p"
            raise ValueError(f"camera.json {problem}; it gives {short(lens.describe(), 200)}")
        return lens

    @property
    def is_distorted(self) -> bool:
        return any(self.k) or any(self.p)

    @property
    def max_tangent(self) -> float:
        """Tangent of the largest angle from the axis at which the radial distortion is still monotonic."""
        radius = np.linspace(0.0, 10.0, 10_001)
        distorted = radius * (1 + np.polyval([*self.k[::-1], 0.0], radius**2))
        decreasing = np.flatnonzero(np.diff(distorted) <= 0)
        return float(radius[decreasing[0]]) if len(decreasing) else np.inf

    def describe(self) -> dict[str, object]:
        """The content of a `camera.json` with these intrinsics."""
        content = asdict(self)
        return {name: content[name] for name in ("fx", "fy", "cx", "cy", "k", "p")}

    def resized(self, width: int, height: int) -> Lens:
        """The intrinsics of the same pictures at another size."""
        x, y = width / self.width, height / self.height
        # Picture borders stay where they are; they are half a pixel away from the centres of the outermost pixels.
        cx, cy = (self.cx + 0.5) * x - 0.5, (self.cy + 0.5) * y - 0.5
        return replace(self, width=width, height=height, fx=self.fx * x, fy=self.fy * y, cx=cx, cy=cy)

    def undistorted(self) -> Lens:
        """The same pinhole without distortion."""
        return replace(self, k=Lens.k, p=Lens.p)

    def pixels(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column and row of the projections of directions.

        Args:
            x, y: (right, down) / ahead, arrays of the same shape.
        """
        square = x * x + y * y
        radial = 1 + np.polyval([*self.k[::-1], 0.0], square)
        p1, p2 = self.p
        distorted_x = x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x)
        distorted_y = y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y
        return self.fx * distorted_x + self.cx, self.fy * distorted_y + self.cy

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Direction (x, y) of each pixel without distortion, f8 (height, width) each."""
        columns, rows = np.meshgrid(np.arange(self.width), np.arange(self.height))
        return (columns - self.cx) / self.fx, (rows - self.cy) / self.fy
