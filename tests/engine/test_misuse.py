"""A wrong declaration of a step is told in one line that says what to do, when its module is imported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.steps import Options, Recording, step
from rover_pipeline.table import TABLE, asked_outputs
from rover_pipeline.workflow.flow import Flow
from tests.kit import small_trace

IQ = {"iq": "radar/iq"}
OUT = {"a": "A."}


class Mine(Options):
    """Of nothing."""


def power(iq: np.ndarray) -> np.ndarray:
    return iq


def chosen(iq: np.ndarray, *, options: Mine) -> np.ndarray:
    return iq


def untyped(iq, *, options):  # type: ignore[no-untyped-def]
    return iq


def once(recording: Recording) -> np.ndarray:
    return recording.ts


def at_once(recording: Recording, iq: np.ndarray) -> np.ndarray:
    return iq


@pytest.mark.parametrize(
    ("function", "declared", "said"),
    [
        (power, {"inputs": IQ, "ouputs": OUT}, r"@step has no 'ouputs'; did you mean 'outputs'"),
        (power, {"inputs": {"frames": "radar/iq"}}, r"declares 'frames', but takes no argument of this name"),
        (power, {"inputs": {}}, r"takes an argument 'iq' that is in none of inputs, nearest, whole and files"),
        (power, {"inputs": IQ, "section": "extra.mine"}, r"'extra\.mine' but takes no argument `options`"),
        (untyped, {"inputs": IQ, "section": "extra.mine"}, r"annotated with a class of your own"),
        (
            power,
            {"inputs": IQ, "recording": True},
            r"`recording=True` or `products`, and needs an argument `recording`",
        ),
        (power, {"inputs": IQ, "products": {"a.txt": "A."}}, r"needs an argument `recording`"),
        (power, {"inputs": IQ, "part": "seconds"}, r"part='seconds' is none of its options"),
        (at_once, {"inputs": IQ, "recording": True}, r"'iq' .* is read by `recording\.read`"),
    ],
)
def test_a_wrong_declaration_says_what_to_do(function: Any, declared: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        step(version=1, sensor="_mine", **declared)(function)
    assert "\n" not in str(raised.value) and f":{function.__name__}:" in str(raised.value)


def test_right_declarations_are_accepted() -> None:
    step(version=1, sensor="_mine", inputs=IQ, outputs=OUT)(power)
    step(version=1, sensor="_mine", section="extra.mine", inputs=IQ, outputs=OUT)(chosen)
    step(version=1, sensor="_mine", inputs=IQ, outputs=OUT, recording=True)(once)


@step(version=1, sensor="_mine", inputs=IQ, outputs=OUT)
def without_a_section(iq: np.ndarray, *, options: Mine) -> np.ndarray:
    return iq


@step(version=1, sensor="_mine", inputs={"iq": "_radar_range_dopler/power"}, outputs=OUT)
def misspelled(iq: np.ndarray) -> np.ndarray:
    return iq


def test_an_input_that_nothing_makes_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    flow = Flow({"traces": str(small_trace(tmp_path / "rec", sensors=("radar",))), "outputs": "mine"})
    names = (f"{__name__}:misspelled", "_radar_range_doppler")
    rules = [SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names]
    with pytest.raises(ConfigError, match=r"'_radar_range_dopler' \(did you mean '_radar_range_doppler'\?\), which"):
        flow.targets(rules)


def test_options_without_a_section_are_an_error_of_the_rule() -> None:
    with pytest.raises(ConfigError, match="takes `options`, but declares no `section`"):
        Flow({}).needs("tests.engine.test_misuse:without_a_section")


def test_a_step_of_a_user_joins_the_default_outputs_and_can_be_left_out() -> None:
    known = [name[1:] for name, each in TABLE.items()] + ["mine"]
    assert "mine" not in asked_outputs(["default"], known)
    assert asked_outputs(["default"], known, ["mine"])["mine"] is False
    assert "mine" not in asked_outputs(["default,-mine"], known, ["mine"])
