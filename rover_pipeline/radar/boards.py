"""The radar's board: a table of the antennas and samples of boards, and which one a recording is of.

A new board is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from rover_pipeline.errors import ConfigError, did_you_mean, naming
from rover_pipeline.radar.axes import chirp_settings
from rover_pipeline.radar.options import CaptureOptions
from rover_pipeline.radar.tuning import TUNING

#: Frequency that the antennas of boards at 76 to 81 GHz are taken to be placed for, GHz: the middle of the band, as no
#: manual says it. A calibration measures what they really are. Physics: band of ITU-R M.2057.
AUTOMOTIVE_GHZ = 78.5
#: The same for boards at 60 to 64 GHz. Physics: Texas Instruments, IWR6843L EVM User's Guide, SWRU585, section 4.1.
INDUSTRIAL_GHZ = 62.0
Positions = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Board:
    """Antennas of a board."""

    #: (left, up) of each transmitter, in the order they fire, and of each receiver, half wavelengths, as seen from the
    #: radar. A pair of both acts as a virtual antenna at the sum of their positions.
    tx: Positions
    rx: Positions
    real: bool = False  #: whether samples are real instead of complex.
    polarity: tuple[int, ...] = ()  #: of each transmitter, -1 if the board feeds it in opposite phase; empty = all 1.
    rx_polarity: tuple[int, ...] = ()  #: the same of each receiver.
    design_ghz: float = AUTOMOTIVE_GHZ  #: frequency whose half wavelength the positions are multiples of.
    spacing: float = 1.0  #: half wavelengths of the recording's centre frequency in a half wavelength of the design.
    #: relative gain of each virtual antenna, as a calibration has measured it; empty = all 1.
    gains: tuple[complex, ...] = ()

    def select(self, tx: tuple[int, ...] | None, rx: tuple[int, ...] | None) -> Board:
        """The board with some of its antennas, numbered from 1, in this order; None = all of them.

        Raises:
            ValueError: the board has no such antenna, or one is named twice.
        """
        if tx is None and rx is None:
            return self
        indices = []
        for kind, numbers, count in (("TX", tx, len(self.tx)), ("RX", rx, len(self.rx))):
            numbers = tuple(range(1, count + 1)) if numbers is None else numbers
            if not numbers or len(set(numbers)) < len(numbers) or not all(1 <= n <= count for n in numbers):
                raise ValueError(f"{kind} {list(numbers)}: must be different ones of the board's 1 to {count}")
            indices.append([n - 1 for n in numbers])
        parts = {"tx": indices[0], "rx": indices[1], "polarity": indices[0], "rx_polarity": indices[1]}
        given = {name: getattr(self, name) for name in parts}
        chosen: dict[str, Any] = {name: tuple(given[name][n] for n in parts[name]) for name in parts if given[name]}
        return replace(self, **chosen)

    @cached_property
    def antennas(self) -> np.ndarray:
        """(left, up) of the virtual antennas, f8 (tx * rx, 2), half wavelengths."""
        return (np.array(self.tx)[:, None] + np.array(self.rx)).reshape(-1, 2)

    @cached_property
    def delays(self) -> np.ndarray:
        """When each virtual antenna is fired within a loop of the transmitters, f8 (tx * rx,), 0 to 1."""
        return np.repeat(np.arange(len(self.tx)) / len(self.tx), len(self.rx))

    @cached_property
    def signs(self) -> np.ndarray:
        """Polarity of the virtual antennas, f8 (tx * rx,)."""
        tx, rx = self.polarity or (1,) * len(self.tx), self.rx_polarity or (1,) * len(self.rx)
        return np.outer(np.array(tx, "f8"), rx).ravel()

    @cached_property
    def corrections(self) -> np.ndarray:
        """Factors that give the virtual antennas equal phase and gain, c16 (tx * rx,); 0 for a dead antenna."""
        gains = np.array(self.gains or (1.0,) * len(self.signs), "c16")
        dead = np.abs(gains) < 10 ** (TUNING.dead_antenna_db / 20)
        return np.where(dead, 0, self.signs / np.where(dead, 1, gains))

    @cached_property
    def row_step(self) -> float:
        """Distance between the rows of virtual antennas, half wavelengths of the design; 1 if there is one row."""
        # In tenths, so that the greatest common divisor is one of integers: some antennas alone leave rows without any.
        steps = np.rint(10 * np.diff(np.unique(self.antennas[:, 1]))).astype("i8")
        return float(np.gcd.reduce(steps)) / 10 if len(steps) else 1.0

    @cached_property
    def row_spacing(self) -> float:
        """Distance between the rows of virtual antennas, half wavelengths of the recording's centre frequency."""
        return self.row_step * self.spacing

    @cached_property
    def grid(self) -> np.ndarray:
        """(row, column) of the virtual antennas, i8 (tx * rx, 2): rows from the top down, columns towards the left.

        So an echo from the right is a positive frequency along the columns, and one from above along the rows.
        """
        left, up = self.antennas.T
        rows, columns = (up.max() - up) / self.row_step, left - left.min()
        return np.rint(np.stack([rows, columns], axis=-1)).astype("i8")

    @cached_property
    def beams(self) -> tuple[int, int]:
        """Intervals of azimuth and elevation beams, equally spaced in the sine."""
        rows, columns = (self.grid.max(axis=0) + 1).tolist()
        return columns * TUNING.beam_steps, rows * TUNING.beam_steps

    @property
    def has_elevation(self) -> bool:
        return bool(self.grid[:, 0].any())


#: Antennas of boards, (left, up), half wavelengths. Layout.
_ROW = ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0))
_COLUMN = ((0.0, 0.0), (0.0, -1.0), (0.0, -2.0), (0.0, -3.0))
_SQUARE = ((0.0, 0.0), (0.0, -1.0), (1.0, -1.0), (1.0, 0.0))
_RAISED_MIDDLE = ((0.0, 0.0), (2.0, 1.0), (4.0, 0.0))
_PAIR = ((0.0, 0.0), (4.0, 0.0))
_ISK = Board(_RAISED_MIDDLE, _ROW, design_ghz=INDUSTRIAL_GHZ)

#: Virtual antennas (transmitter-receiver) as seen from in front of the board:
#:
#:     AWR1843, IWR1443,        2-1 2-2 2-3 2-4
#:     IWR6843 (ISK):   1-1 1-2 1-3 1-4 3-1 3-2 3-3 3-4             AWR1843AOP:  1-1 2-1 3-1
#:     AWR1642, AWR1843L (an AWR1843 without its second TX):                     1-2 2-2 3-2
#:                      1-1 1-2 1-3 1-4 2-1 2-2 2-3 2-4                          1-3 2-3 3-3
#:     AWR2944 (rows 0.8 wavelengths apart):                                     1-4 2-4 3-4
#:                              2-1 2-2 2-3 2-4
#:                      1-1 1-2 1-3 1-4 3-1 3-2 3-3 3-4 4-1 4-2 4-3 4-4
#:     AWRL6844 (TX 2 and 4 upside down):   2-1 2-4 1-1 1-4
#:                                          2-2 2-3 1-2 1-3
#:                                          3-1 3-4 4-1 4-4
#:                                          3-2 3-3 4-2 4-3
#:     IWR6843AOP (RX 1 and 3 upside down):     1-4 1-2
#:                                              1-3 1-1
#:                                              3-4 3-2 2-4 2-2
#:                                              3-3 3-1 2-3 2-1
#:     IWR6843ODS (RX 2 and 3 upside down):     1-1 1-4 2-1 2-4
#:                                              1-2 1-3 2-2 2-3
#:                                                      3-1 3-4
#:                                                      3-2 3-3
#:
#: Those two are as TI's demonstration of people tracking gives them for its boards (antGeometry0, antGeometry1 and
#: antPhaseRot in AOP_6m_default.cfg and ODS_6m_default.cfg of the mmWave industrial toolbox; ISK_6m_default.cfg gives
#: the array of IWR6843 above in the same notation: columns grow to the right there, to the left here). Layout.
BOARDS = {
    "AWR1843": Board(_RAISED_MIDDLE, _ROW),
    "AWR1843AOP": Board(((0.0, 0.0), (1.0, 0.0), (2.0, 0.0)), _COLUMN),
    "AWR1843L": Board(_PAIR, _ROW),
    "AWR1642": Board(_PAIR, _ROW),
    "AWR2944": Board(((0.0, 0.0), (2.0, 1.6), (4.0, 0.0), (8.0, 0.0)), _ROW, real=True),
    "AWRL6844": Board(
        ((2.0, 0.0), (0.0, 0.0), (0.0, -2.0), (2.0, -2.0)),
        _SQUARE,
        real=True,
        polarity=(1, -1, 1, -1),
        design_ghz=INDUSTRIAL_GHZ,
    ),
    "IWR6843": _ISK,
    "IWR1443": Board(_RAISED_MIDDLE, _ROW),
    "IWR6843AOP": Board(
        ((0.0, 2.0), (2.0, 0.0), (0.0, 0.0)),
        ((1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (0.0, 1.0)),
        rx_polarity=(-1, 1, -1, 1),
        design_ghz=INDUSTRIAL_GHZ,
    ),
    "IWR6843ODS": Board(
        ((0.0, 0.0), (2.0, 0.0), (2.0, -2.0)), _SQUARE, rx_polarity=(1, -1, -1, 1), design_ghz=INDUSTRIAL_GHZ
    ),
}
#: Evaluation boards with the antennas of another row, and chips that differ in their temperature range only.
BOARDS |= {
    "AWR1843BOOST": BOARDS["AWR1843"],
    "AWR1642BOOST": BOARDS["AWR1642"],
    "AWR2944EVM": BOARDS["AWR2944"],
    "IWR1843": BOARDS["AWR1843"],
    "IWR1642": BOARDS["AWR1642"],
    "IWR6843ISK": _ISK,
}


def find_board(name: str | None, config: str | None, shape: tuple[int, ...]) -> Board:
    """The board of a recording.

    Args:
        name: from the configuration; None = the one that the recording names.
        config: text of the recording's `config.yaml`. `radar.args.radar` names the board as `device`, else it is the
            one that `assumed_board` gives, and as `tx` and `rx` the antennas that took part, in the order of the frame.
        shape: of a frame, (chirp, tx, rx, word).

    Raises:
        ConfigError: the board is unknown, or its numbers of antennas are not those of the frame.
    """
    name = name or recorded_board(config) or assumed_board(shape)
    if name is None:
        raise ConfigError(
            f"config.yaml names no radar.args.radar.device, and no board has {shape[1]} TX and {shape[2]} RX; "
            f"set radar.board to one of {_known()}"
        )
    board = BOARDS.get(name.upper())
    if board is None:
        raise ConfigError(f"radar board {name!r} is unknown; {did_you_mean(name.upper(), BOARDS)}; known: {_known()}")
    with naming(f"config.yaml: radar.args.radar: board {name}", ValueError, made=ConfigError):
        board = board.select(*_recorded_antennas(config))
    if shape[1:3] != (len(board.tx), len(board.rx)):
        raise ConfigError(
            f"a frame has {shape[1]} TX and {shape[2]} RX, the board {name} has {len(board.tx)} and {len(board.rx)}; "
            f"set radar.board to one of {_known()}, or name those that took part in radar.args.radar.tx and rx of "
            "config.yaml"
        )
    return board


def _known() -> str:
    return ", ".join(sorted(BOARDS))


def assumed_board(shape: tuple[int, ...]) -> str | None:
    """The first board of the table with the numbers of antennas of a frame, (chirp, tx, rx, word); None if none has."""
    return next((name for name, board in BOARDS.items() if (len(board.tx), len(board.rx)) == shape[1:3]), None)


def recorded_board(config: str | None) -> str | None:
    """The board that the text of a `config.yaml` names; None if it names none."""
    chirps = chirp_settings(config)
    return str(chirps["device"]) if "device" in chirps else None


def _recorded_antennas(config: str | None) -> list[tuple[int, ...] | None]:
    """Numbers, from 1, of the transmitters in the order that they fire and of the receivers; None = all of the board.

    Raises:
        ValueError: the text of `config.yaml` holds something else there.
    """
    numbers = {key: chirp_settings(config).get(key) for key in ("tx", "rx")}
    for key, given in numbers.items():
        if given is not None and not (isinstance(given, list) and all(type(n) is int for n in given)):
            raise ValueError(f"{key}: must be a list of numbers of antennas, from 1")
    return [None if given is None else tuple(given) for given in numbers.values()]


def centre_frequency(config: str | None) -> float | None:
    """Frequency in the middle of the sampled part of a chirp, Hz; None if `config.yaml` does not say.

    The chirp starts at `frequency`, and the ADC samples its part from `adc_start_time` on. That middle can be 3 % above
    the start, and so are phases, velocities and the distance of the antennas in wavelengths.
    """
    try:
        chirp = chirp_settings(config)
        sampled = float(chirp["adc_samples"]) / float(chirp["sample_rate"]) * 1e3
        microseconds = float(chirp.get("adc_start_time") or 0) + sampled / 2
        hertz = float(chirp["frequency"]) * 1e9 + float(chirp["freq_slope"]) * 1e6 * microseconds
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    return hertz if 1e9 < hertz < 1e12 else None


@lru_cache(maxsize=8)
def placed_board(options: CaptureOptions, config: str | None, shape: tuple[int, ...]) -> Board:
    """The board with its antennas at the recording's centre frequency, and with the gains of the calibration.

    Raises:
        ConfigError: the board is unknown, or the calibration is of another one.
    """
    board, hertz = find_board(options.board, config, shape), centre_frequency(config)
    if (file := options.calibration) is None:
        return board if hertz is None else replace(board, spacing=hertz / (board.design_ghz * 1e9))
    # The spacing of the calibration scales with the centre frequency.
    scale = 1.0 if hertz is None else hertz / (file.centre_ghz * 1e9)
    return replace(board, gains=file.gains(len(board.tx), len(board.rx)), spacing=file.spacing.value * scale)
