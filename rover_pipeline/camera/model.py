"""An ONNX model of the user's, run on one picture after the other."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from rover_pipeline.camera.options import ModelOptions
from rover_pipeline.camera.pictures import resize
from rover_pipeline.errors import MissingExtraError

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


@functools.lru_cache(maxsize=2)
def load(options: ModelOptions) -> Model:
    """The model, kept for the next block of pictures."""
    return Model(options)


class Model:
    """A model that takes one picture, (1, 3, height, width) or (1, height, width, 3).

    It runs on one thread, and on one picture at a time whatever its first axis allows: results depend neither on
    chunks nor on the machine's number of processors. A model with a size of its own is given pictures of that size.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ValueError: it is no ONNX model, or not of one picture.
    """

    def __init__(self, options: ModelOptions) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError("camera.model", "model") from error
        if options.path is None:
            raise ValueError("camera.model.path names no ONNX file")
        self.options = options
        self._name = Path(options.path).name
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        settings.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                options.path, sess_options=settings, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its errors have no base but this
            raise self._problem(f"onnxruntime cannot load it: {error}") from error
        taken = self._session.get_inputs()
        if len(taken) != 1:
            raise self._problem(f"it takes {len(taken)} inputs, one picture is given")
        self._input = taken[0]
        if self._input.type not in _TYPES:
            raise self._problem(f"it takes {self._input.type}; known: {', '.join(_TYPES)}")
        self._dtype = _TYPES[self._input.type]
        plain = (options.mean, options.std) == (ModelOptions().mean, ModelOptions().std)
        if self._dtype is np.uint8 and not (plain and options.input == "counts"):
            raise self._problem("it takes bytes: set `input: counts`, and neither mean nor std")
        self._size = self._fixed_size(self._input.shape)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """What the model makes of a picture.

        Args:
            picture: u1 RGB, (height, width, 3).

        Returns:
            u1, labels (height, width) or RGB (height, width, 3), at the size the model gives.
        """
        try:
            given = self._session.run(None, {self._input.name: self._tensor(picture)})[0]
        except Exception as error:
            raise self._problem(f"it failed on a picture of {picture.shape[:2]}: {error}") from error
        return self._labels(given) if self.options.output == "labels" else self._picture(given)

    def _fixed_size(self, shape: list[int | str | None]) -> tuple[int, int] | None:
        """(width, height) of the pictures it takes; None when it takes any."""
        axes = dict(zip(self.options.layout, shape, strict=False))
        # A size that is not fixed has a name, or none.
        fixed = {axis: size for axis, size in axes.items() if isinstance(size, int)}
        if len(shape) != 4 or fixed.get("n", 1) != 1 or fixed.get("c", 3) != 3 or ("h" in fixed) != ("w" in fixed):
            raise self._problem(f"it takes {shape}, not one RGB picture with the axes {self.options.layout}")
        return (fixed["w"], fixed["h"]) if "w" in fixed else None

    def _tensor(self, picture: np.ndarray) -> np.ndarray:
        if self._size:
            picture = resize(picture, *self._size)
        if self._dtype is np.uint8:
            values = picture
        else:
            values = picture.astype("f4") / (255 if self.options.input == "unit" else 1)
            values = (values - np.array(self.options.mean, "f4")) / np.array(self.options.std, "f4")
        values = np.moveaxis(values, -1, 0) if self.options.layout == "nchw" else values
        return np.ascontiguousarray(values[None], self._dtype)

    def _labels(self, given: np.ndarray) -> np.ndarray:
        axis = 1 if self.options.layout == "nchw" else 3
        found = np.asarray(given)
        if found.dtype.kind == "f":
            if found.ndim != 4 or found.shape[axis] < 2:
                raise self._problem(f"its scores are {list(found.shape)}, not one for each of two classes or more")
            found = found.argmax(axis)
        elif found.ndim == 4 and found.shape[axis] == 1:
            found = found.squeeze(axis)
        if found.ndim != 3 or found.shape[0] != 1 or found.dtype.kind not in "iub":
            raise self._problem(f"its labels are {list(given.shape)} of {given.dtype}, not one for each pixel")
        if found.min(initial=0) < 0 or found.max(initial=0) > 255:
            raise self._problem("it gives labels that are not within 0 to 255")
        return found[0].astype("u1")

    def _picture(self, given: np.ndarray) -> np.ndarray:
        axis = 1 if self.options.layout == "nchw" else 3
        if given.ndim != 4 or given.shape[0] != 1 or given.shape[axis] != 3:
            raise self._problem(f"its picture is {list(given.shape)}, not RGB with the axes {self.options.layout}")
        picture = np.moveaxis(given[0], axis - 1, -1)
        if picture.dtype != np.uint8:
            picture = np.rint(np.clip(picture.astype("f4") * (255 if self.options.input == "unit" else 1), 0, 255))
        return np.ascontiguousarray(picture, "u1")

    def _problem(self, text: str) -> ValueError:
        return ValueError(f"camera.model {self._name}: {text}")
