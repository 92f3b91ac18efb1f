"""Runs the user's ONNX model on pictures, one at a time."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from rover_pipeline.camera.options import ModelOptions
from rover_pipeline.camera.pictures import resize
from rover_pipeline.lookup import optional

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class Model:
    """A model whose input is one picture, (1, 3, height, width) or (1, height, width, 3).

    It runs on one thread and on one picture at a time, even if it accepts batches: so results depend neither on chunks
    nor on the number of processors. If the model has a fixed input size, pictures are resized to it.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ValueError: the file is no ONNX model, or its input is not one picture.
    """

    def __init__(self, options: ModelOptions) -> None:
        onnxruntime = optional("onnxruntime", "camera.model", "model")
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
        except Exception as error:  # The errors of onnxruntime have no common base class.
            raise self._problem(f"onnxruntime cannot load it: {error}") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise self._problem(f"it takes {len(inputs)} inputs, one picture is given")
        self._input = inputs[0]
        if self._input.type not in _TYPES:
            raise self._problem(f"it takes {self._input.type}; known: {', '.join(_TYPES)}")
        self._dtype = _TYPES[self._input.type]
        scaled = (options.mean, options.std) != (ModelOptions().mean, ModelOptions().std)
        if self._dtype is np.uint8 and (scaled or options.input != "counts"):
            raise self._problem("it takes bytes: set `input: counts`, and neither mean nor std")
        self._size = self._fixed_size(self._input.shape)
        self._channels = options.layout.index("c")

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """Run the model on a picture.

        Args:
            picture: u1 RGB, (height, width, 3).

        Returns:
            u1, labels (height, width) or RGB (height, width, 3), at the size of the model's output.

        Raises:
            ValueError: the model fails, or its output is neither labels nor a picture as the options say.
        """
        try:
            output = self._session.run(None, {self._input.name: self._tensor(picture)})[0]
        except Exception as error:
            raise self._problem(f"it failed on a picture of {picture.shape[:2]}: {error}") from error
        return self._labels(output) if self.options.output == "labels" else self._picture(output)

    def _fixed_size(self, shape: list[int | str | None]) -> tuple[int, int] | None:
        """(width, height) of the model's input; None if it takes any size."""
        axes = dict(zip(self.options.layout, shape, strict=False))
        # ONNX gives an axis without a fixed size as a name or None.
        fixed = {axis: size for axis, size in axes.items() if isinstance(size, int)}
        if len(shape) != 4 or fixed.get("n", 1) != 1 or fixed.get("c", 3) != 3 or ("h" in fixed) != ("w" in fixed):
            raise self._problem(f"it takes {shape}, not one RGB picture with the axes {self.options.layout}")
        return (fixed["w"], fixed["h"]) if "w" in fixed else None

    def _tensor(self, picture: np.ndarray) -> np.ndarray:
        if self._size:
            picture = resize(picture, *self._size)
        values = picture
        if self._dtype is not np.uint8:
            values = picture.astype("f4") / (255 if self.options.input == "unit" else 1)
            values = (values - np.array(self.options.mean, "f4")) / np.array(self.options.std, "f4")
        values = np.moveaxis(values, -1, 0) if self.options.layout == "nchw" else values
        return np.ascontiguousarray(values[None], self._dtype)

    def _labels(self, output: np.ndarray) -> np.ndarray:
        labels = np.asarray(output)
        if labels.dtype.kind == "f":
            if labels.ndim != 4 or labels.shape[self._channels] < 2:
                raise self._problem(f"its scores are {list(labels.shape)}, not one for each of two classes or more")
            if np.isnan(labels).any():  # argmax would take the class of the first of them
                raise self._problem("it gives scores that are not a number")
            labels = labels.argmax(self._channels)
        elif labels.ndim == 4 and labels.shape[self._channels] == 1:
            labels = labels.squeeze(self._channels)
        if labels.ndim != 3 or labels.shape[0] != 1 or labels.dtype.kind not in "iub":
            raise self._problem(f"its labels are {list(output.shape)} of {output.dtype}, not one for each pixel")
        if labels.min(initial=0) < 0 or labels.max(initial=0) > 255:
            raise self._problem("it gives labels that are not within 0 to 255")
        return labels[0].astype("u1")

    def _picture(self, output: np.ndarray) -> np.ndarray:
        if output.ndim != 4 or output.shape[0] != 1 or output.shape[self._channels] != 3:
            raise self._problem(f"its picture is {list(output.shape)}, not RGB with the axes {self.options.layout}")
        picture = np.moveaxis(output[0], self._channels - 1, -1)
        if np.isnan(picture).any():
            raise self._problem("it gives colours that are not a number")
        if picture.dtype != np.uint8:
            is_unit = picture.dtype.kind == "f" and self.options.input == "unit"
            picture = np.rint(np.clip(picture.astype("f4") * (255 if is_unit else 1), 0, 255))
        return np.ascontiguousarray(picture, "u1")

    def _problem(self, text: str) -> ValueError:
        return ValueError(f"camera.model {self._name}: {text}")


#: The model of some options, cached for the next block of pictures.
load = functools.lru_cache(maxsize=2)(Model)
