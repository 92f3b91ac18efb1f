"""Reads a `camera.json`: which model of a lens its numbers are of, and whether they agree with one another.

The one of the public data set has `fx fy cx cy k[4] p[2]` and names no model: its k are those of OpenCV's fisheye.
Beside it stands the same as nerfstudio writes it (`fl_x fl_y k1 k2 k3 k4 p1 p2 w h camera_model`), which is read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from rover_pipeline.camera.lens import Lens, LensModel
from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.texts import parse_json

#: Keys that name a model, in our own files, nerfstudio, ROS and Kalibr.
_KEYS = ("model", "camera_model", "distortion_model", "lens_model", "lens")
#: Names of the models, in small letters: of COLMAP and nerfstudio, ROS, Kalibr and of the papers.
_NAMES: Mapping[str, LensModel | Literal["pinhole"]] = {
    "fisheye": "fisheye",
    "opencv_fisheye": "fisheye",
    "kannala_brandt": "fisheye",
    "equidistant": "fisheye",
    "equi": "fisheye",
    "brown": "brown",
    "brown_conrady": "brown",
    "opencv": "brown",
    "plumb_bob": "brown",
    "radtan": "brown",
    # Some programs write it beside the model of the distortion, which then decides.
    "pinhole": "pinhole",
    "simple_pinhole": "pinhole",
}


class Intrinsics(NamedTuple):
    """What a `camera.json` says."""

    lens: Lens
    #: what named the model of the lens, or that it follows from the numbers.
    model_from: Literal["camera.lens", "camera.json", "numbers"]
    warnings: tuple[str, ...] = ()  #: what cannot be known from the file.


def read_intrinsics(text: str, width: int, height: int, model: LensModel | None = None) -> Intrinsics:
    """Intrinsics of recorded pictures.

    The model of the lens is `model`, else the one that the file names. A file without a name is of Brown's model if
    some p is not zero, as the fisheye has none, or if there are at most three k; four k are those of the fisheye,
    except that four zeros are taken for a pinhole, with a warning: they stand where nobody calibrated a distortion.

    Args:
        text: of the `camera.json`.
        width, height: of the recorded pictures, pixels.
        model: the option `camera.lens`; None = as the file says.

    Raises:
        ValueError: the text is something else, contradicts itself or `model`, or is for pictures of another size: it
            says so, or does not say which and has the middle of such pictures.
    """
    try:
        content = parse_json(text, "camera.json")
        numbers = _numbers(content)
        for name, other, size in (("w", "width", width), ("h", "height", height)):
            if (given := content.get(name, content.get(other, size))) != size:
                raise ValueError(f"{name if name in content else other} is {given}")
    except (FormatError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        detail = f"no {error}" if isinstance(error, KeyError) else short(str(error), 120)
        problem = f"must give the numbers fx, fy, cx, cy, and lists k and p, for pictures of {width}x{height}"
        raise ValueError(f"camera.json {problem} ({detail})") from error
    fx, fy, cx, cy, k, p = (numbers[name] for name in ("fx", "fy", "cx", "cy", "k", "p"))
    # Larger numbers would make arithmetic overflow.
    are_finite = (np.abs([fx, fy, cx, cy, *k, *p]) < 1e9).all()
    if len(k) > 4 or len(p) not in (0, 2) or not are_finite or min(fx, fy) <= 0:
        problem = "must give finite numbers: fx and fy above zero, at most four in k, two in p"
        raise ValueError(f"camera.json {problem}; it gives {short(numbers, 200)}")
    # A camera looks through the middle of its pictures, so numbers of a calibration with pictures of another size are
    # known by a middle that is nearer, as a ratio, to that of half or of twice the size.
    sizes = 2 * cx / width, 2 * cy / height
    if not content.keys() & {"w", "width"} and (min(sizes) > np.sqrt(2) or max(sizes) < np.sqrt(0.5)):
        raise ValueError(
            f"camera.json seems to be of pictures {np.mean(sizes):.2g} times as large as {width}x{height}: its cx and "
            "cy are the middle of such; scale fx, fy, cx and cy, or add the size w and h if they are right"
        )
    named = _named(content, model)
    is_bent = any(k) or any(p)
    if model and named and model != ("brown" if named == "pinhole" else named):
        raise ValueError(f"camera.json names the model {named}, and camera.lens is {model}: correct the wrong one")
    if named == "pinhole" and is_bent and model is None:
        raise ValueError("camera.json names the model pinhole, which has no distortion, and gives k or p; " + _REMEDY)
    chosen = model or ("brown" if named == "pinhole" else named)
    warnings: tuple[str, ...] = ()
    if chosen is None:
        chosen = "fisheye" if len(k) == 4 and any(k) and not any(p) else "brown"
        if len(k) == 4 and not is_bent:
            warnings = (
                "camera.json names no model and has four zeros in k: it is taken for a pinhole; a fisheye whose k are "
                "zero needs camera.lens: fisheye",
            )
    if chosen == "fisheye" and any(p):
        raise ValueError(f"camera.json gives p = {list(p)}, which a fisheye does not have; " + _REMEDY)
    first, second, third, fourth = (*k, 0.0, 0.0, 0.0, 0.0)[:4]
    lens = Lens(width, height, fx, fy, cx, cy, (first, second, third, fourth), (p[0], p[1]) if p else Lens.p, chosen)
    return Intrinsics(lens, "camera.lens" if model else "camera.json" if named else "numbers", warnings)


_REMEDY = f"correct it, or name its model ({' or '.join(get_args(LensModel))}) in a key `model`"


def _numbers(content: Mapping[str, Any]) -> dict[str, Any]:
    """`fx`, `fy`, `cx`, `cy`, and the lists `k` and `p`."""
    focal = ("fl_x", "fl_y") if "fl_x" in content and "fx" not in content else ("fx", "fy")
    numbers = {
        name: float(content[key]) for name, key in zip(("fx", "fy", "cx", "cy"), (*focal, "cx", "cy"), strict=True)
    }
    return numbers | {name: _coefficients(content, name) for name in ("k", "p")}


def _coefficients(content: Mapping[str, Any], name: str) -> tuple[float, ...]:
    """The list `k`, or the numbers `k1`, `k2` and so on; empty when there are none."""
    if name in content:
        return tuple(float(value) for value in content[name])
    present = [number for number in range(1, 9) if f"{name}{number}" in content]
    return tuple(float(content.get(f"{name}{number}", 0)) for number in range(1, max(present, default=0) + 1))


def _named(content: Mapping[str, Any], model: LensModel | None) -> LensModel | Literal["pinhole"] | None:
    """The model that the file names; None when it names none, or one that is not known while `camera.lens` decides."""
    names = {}
    for key in _KEYS:
        if (given := content.get(key)) is None:
            continue
        name = str(given).strip().lower().replace("-", "_").replace(" ", "_")
        if name in _NAMES:
            names[_NAMES[name]] = given
        elif model is None:
            known = ", ".join(_NAMES)
            raise ValueError(
                f"camera.json: {key} is {short(given)}, and no model of a lens that is known ({known}); correct it, or "
                "say by camera.lens what it is: fisheye or brown"
            )
    bent = [name for name in names if name != "pinhole"]
    if len(bent) > 1:
        given = " and ".join(map(short, names.values()))
        raise ValueError(f"camera.json names two models of a lens, {given}; {_REMEDY}")
    return bent[0] if bent else next(iter(names), None)
