"""The table of boards: the arrays of xwr, one antenna at each position, and errors that list the known boards."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.radar.boards import BOARDS, find_board
from rover_pipeline.radar.options import PointsOptions, RangeAzimuthOptions, RangeDopplerOptions
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.prepare import check_order

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
    with pytest.raises(ConfigError, match=r"AWR1834.*did you mean 'AWR1843'.*AWR1642, .*AWR1843, .*IWR6843"):
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


#: Rows (antGeometry1) and columns (antGeometry0) of TX1-RX1 ... TX3-RX4, and signs (antPhaseRot), as TI's demonstration
#: of people tracking sets them for its boards of the 60 GHz band. Columns grow to the right there.
TI = {
    "IWR6843": ("0 -1 -2 -3 -2 -3 -4 -5 -4 -5 -6 -7", "-1 -1 -1 -1 0 0 0 0 -1 -1 -1 -1", "1 1 1 1 1 1 1 1 1 1 1 1"),
    "IWR6843AOP": (
        "-1 -1 0 0 -3 -3 -2 -2 -1 -1 0 0", "-1 0 -1 0 -3 -2 -3 -2 -3 -2 -3 -2", "-1 1 -1 1 -1 1 -1 1 -1 1 -1 1",
    ),
    "IWR6843ODS": (
        "0 0 -1 -1 -2 -2 -3 -3 -2 -2 -3 -3", "0 -1 -1 0 0 -1 -1 0 -2 -3 -3 -2", "1 -1 -1 1 1 -1 -1 1 1 -1 -1 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TI)
def test_virtual_arrays_of_the_60_ghz_boards_are_those_of_ti(name: str) -> None:
    columns, rows, signs = (np.array(numbers.split(), "f8") for numbers in TI[name])
    board = BOARDS[name]
    expected = np.stack([-columns, rows], axis=-1)
    np.testing.assert_array_equal(board.antennas - board.antennas[0], expected - expected[0])
    np.testing.assert_array_equal(board.signs, signs)


def test_the_recording_tells_which_antennas_took_part_and_in_which_order() -> None:
    config = "radar: {args: {radar: {device: AWR1843, tx: [3, 1], rx: [2, 4]}}}"
    board = find_board(None, config, (4, 2, 2, 32))
    np.testing.assert_array_equal(board.antennas, [[5, 0], [7, 0], [1, 0], [3, 0]])
    with pytest.raises(ConfigError, match=r"radar.args.radar: board AWR1642: TX \[3, 1\]: must be different ones of"):
        find_board("AWR1642", config, (4, 2, 2, 32))
    with pytest.raises(ConfigError, match="tx: must be a list of numbers"):
        find_board(None, config.replace("[3, 1]", "three"), (4, 2, 2, 32))


def test_some_receivers_of_a_board_leave_the_rows_of_the_others_where_they_are() -> None:
    # Rows 0, 1 and 3 of the board: the distance between the first two of them is no measure of the third.
    board = BOARDS["AWR1843AOP"].select(None, (1, 2, 4))
    assert board.row_step == 1 and board.grid[:3, 0].tolist() == [0, 1, 3]


@pytest.mark.parametrize(("tx", "rx"), [([3, 1], [2, 4]), ([1, 3], [1, 2, 3]), ([2], [3]), ([1, 3, 2], [1, 2, 3, 4])])
@pytest.mark.parametrize("estimator", ["beam", "capon", "music"])
def test_a_target_straight_ahead_is_found_there_by_any_antennas(tx: list[int], rx: list[int], estimator: str) -> None:
    board = BOARDS["AWR1843"].select(tuple(tx), tuple(rx))
    find = PointFinder(board, PointsOptions(estimator=estimator))
    spectrum = np.zeros((len(tx), len(rx), 16, 64), "c8")
    spectrum[..., 0, 20] = board.signs.reshape(len(tx), len(rx)) * 1000
    power = np.ones((16, 64), "f4")
    power[8, 20] = 1e6
    found = find(spectrum, power)
    assert found.peaks.range_bin.tolist() == [20]
    np.testing.assert_allclose(found.direction, [[1, 0, 0]], atol=1e-3)
