"""The table of boards: the arrays of xwr, one antenna at each position, and errors that list the known boards."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.radar.boards import BOARDS, find_board
from rover_pipeline.radar.options import RangeAzimuthOptions, RangeDopplerOptions
from rover_pipeline.radar.steps import check_order

XWR = {
    "AWR1843": "AWR1843Boost",
    "AWR1843AOP": "AWR1843AOP",
    "AWR1843L": "AWR1642Boost",
    "AWR1642": "AWR1642Boost",
    "AWR2944": "AWR2944EVM",
    "AWRL6844": "AWRL6844EVM",
}


@pytest.mark.parametrize("name", BOARDS)
def test_no_two_virtual_antennas_of_a_board_share_a_position(name: str) -> None:
    board = BOARDS[name]
    assert len(np.unique(board.grid, axis=0)) == len(board.tx) * len(board.rx)


@pytest.mark.parametrize(("name", "xwr_class"), XWR.items())
def test_virtual_arrays_are_those_of_xwr(name: str, xwr_class: str) -> None:
    xwr = pytest.importorskip("xwr.rsp.numpy", reason="xwr is in the extra `bench`")
    board = BOARDS[name]
    tx, rx = len(board.tx), len(board.rx)
    numbered = np.arange(1, tx * rx + 1, dtype="c8").reshape(1, 1, tx, rx, 1)
    expected = getattr(xwr, xwr_class)().mimo_virtual_array(numbered)[0, 0, :, :, 0]
    array = np.zeros_like(expected)
    array[tuple(board.grid.T)] = numbered.ravel() * board.signs
    np.testing.assert_array_equal(array, expected)


def test_the_configuration_names_the_board_before_the_recording_does() -> None:
    config = "radar: {args: {radar: {device: AWR1642}}}"
    assert find_board(None, config, (4, 2, 4, 32)) is BOARDS["AWR1642"]
    assert find_board("awr1843l", config, (4, 2, 4, 32)) is BOARDS["AWR1843L"]


def test_an_unknown_board_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"AWR1834.*did you mean 'AWR1843'.*AWR1642, AWR1843, .*IWR6843"):
        find_board("AWR1834", None, (4, 3, 4, 32))
    with pytest.raises(ConfigError, match=r"names no .* no board has 5 TX and 1 RX; set radar.board to one of AWR1642"):
        find_board(None, "radar: {type: radar}", (4, 5, 1, 32))


def test_an_unnamed_board_is_assumed_by_its_numbers_of_antennas_with_a_warning() -> None:
    iq = np.zeros((0, 4, 3, 4, 32), "i2")
    assert find_board(None, "{}", iq.shape[1:]) is BOARDS["AWR1843"]
    assert "taken for AWR1843" in check_order(iq, options=RangeAzimuthOptions(), config="{}").warnings[0]
    assert not check_order(iq, options=RangeAzimuthOptions(board="AWR1843"), config="{}").warnings
    assert not check_order(iq, options=RangeDopplerOptions(), config="{}").warnings


def test_a_board_with_other_antennas_than_the_frame_is_refused() -> None:
    with pytest.raises(ConfigError, match="3 TX and 4 RX, the board AWR1642 has 2 and 4"):
        find_board("AWR1642", None, (4, 3, 4, 32))
