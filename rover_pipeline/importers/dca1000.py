"""Import of raw captures of TI radars by a DCA1000 (`adc_data.bin`) as a roverd trace with `radar/`.

The configuration gives the board, its antennas, the waveform and the order of words in the file.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from rover_pipeline.errors import ConfigError, FormatError, naming, short
from rover_pipeline.format.channels.base import MAX_SAMPLES
from rover_pipeline.format.files import opened_file, regular_size, replace_file
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, raw
from rover_pipeline.format.sensor import VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.texts import parse_collection, read_json, read_text
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers.mmwave_studio import Studio, of_json, of_log, of_script
from rover_pipeline.importers.origin import write_config
from rover_pipeline.numerics.jumps import EPOCH_S
from rover_pipeline.options import Options
from rover_pipeline.radar.axes import bins_of
from rover_pipeline.radar.boards import BOARDS
from rover_pipeline.radar.damage import has_zeros

#: Sequence of the four int16 of two complex samples in the file -> their indices in the stored order `Q Q I I`.
#: Layout.
ORDERS = {"iiqq": (2, 3, 0, 1), "qqii": (0, 1, 2, 3)}
#: Transmitters that take turns, and receivers, of the largest cascade. Physics: 12 and 16 of four chips (TI, TIDUEN5A).
MAX_ANTENNAS = 16
#: Frames are read and written in blocks of this size. Schedule.
_BLOCK_BYTES = 64 << 20


class Capture(Options):
    """Board and waveform of a capture: the keys of `radar.args.radar` in a collection configuration.

    The limits are far beyond any chip: they keep out what is no waveform.
    """

    device: str = Field(min_length=1, max_length=40, description="Name of the board, for example AWR1843.")
    port: str | None = Field(None, description="Control port of the board, which the samples do not depend on.")
    frequency: float = Field(gt=0, le=300, description="Start of the chirp, GHz.")
    idle_time: float = Field(ge=0, le=1e6, description="Time between two ramps, us.")
    adc_start_time: float = Field(ge=0, le=1e6, description="From the start of the ramp to the first sample, us.")
    ramp_end_time: float = Field(gt=0, le=1e6, description="Length of the ramp, us.")
    tx_start_time: float = Field(0, ge=-1e6, le=1e6, description="How long before the ramp the transmitter is on, us.")
    freq_slope: float = Field(gt=0, le=1000, description="Slope of the ramp, MHz/us.")
    adc_samples: int = Field(gt=0, le=1 << 16, description="Samples of a chirp.")
    sample_rate: float = Field(ge=1, le=1e6, description="Sample rate, ksps.")
    frame_length: int = Field(gt=0, le=1 << 16, description="Chirps of one TX in a frame.")
    frame_period: float = Field(ge=0.01, le=1e6, description="Time between the starts of frames, ms.")
    tx: tuple[int, ...] | None = Field(
        None, description="Transmitters in the order that they fire, numbered from 1; all of the board in its order."
    )
    rx: tuple[int, ...] | None = Field(None, description="Receivers that were on, numbered from 1; all of the board.")

    @field_validator("tx", "rx")
    @classmethod
    def _numbers(cls, numbers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if numbers is not None and (
            not 1 <= len(numbers) <= MAX_ANTENNAS
            or len(set(numbers)) < len(numbers)
            or not all(1 <= number <= MAX_ANTENNAS for number in numbers)
        ):
            raise ValueError(f"must be 1 to {MAX_ANTENNAS} different numbers of antennas, from 1")
        return numbers


class Setup(NamedTuple):
    """Content of a configuration file."""

    capture: Capture
    tx: int  #: number of transmitters that took part.
    rx: int  #: number of receivers.
    order: str  #: a key of `ORDERS`.
    start: float | None  #: epoch seconds when the capture was made or configured; None = not given.


def read_setup(config: Path, device: str | None) -> Setup:
    """The content of a configuration file: of mmWave Studio (JSON, Lua script or log), or of a collection. Raises
    ConfigError where the file cannot be used."""
    with naming(f"{config}: cannot be read", FileNotFoundError, made=ConfigError):
        text = read_text(config)
    if "API:ProfileConfig" in text:
        return _of_studio(config, of_log(text, str(config)), device)
    if "ar1." in text:
        return _of_studio(config, of_script(text, str(config)), device)
    content = parse_collection(text, str(config))  # JSON is a subset of YAML.
    if "mmWaveDevices" in content:
        return _of_studio(config, of_json(content, str(config)), device)
    problem = "is neither a JSON, script or log of mmWave Studio nor a configuration with radar.args.radar"
    with naming(f"{config}: {problem}", KeyError, TypeError, made=ConfigError):
        section = content["radar"]["args"]["radar"]
    if not isinstance(section, dict):
        raise ConfigError(f"{config}: radar.args.radar is a {type(section).__name__}, not a mapping")
    return _setup(config, {**section, **({"device": device} if device else {})}, "qqii", None)


def _of_studio(config: Path, studio: Studio, device: str | None) -> Setup:
    if studio.lanes != 2 or not studio.is_complex:
        kind = "complex" if studio.is_complex else "real"
        raise ConfigError(f"{config}: {kind} samples on {studio.lanes} LVDS lanes; only complex on 2 lanes")
    tx, loops = firing_order(studio, str(config))
    rx = tuple(n + 1 for n in range(MAX_ANTENNAS) if studio.rx >> n & 1)
    if not rx or studio.rx >> MAX_ANTENNAS:
        raise ConfigError(f"{config}: gives {studio.rx:#x} as receivers; a radar has 1 to {MAX_ANTENNAS}")
    number = studio.chirps[studio.first].profile
    if number not in studio.profiles:
        raise ConfigError(f"{config}: its chirps have profile {number}, which it does not describe")
    profile = studio.profiles[number]
    values = {
        **profile,
        "adc_samples": int(profile["adc_samples"]),
        "device": device or studio.device or _device_beside(config),
        "frame_length": studio.loops * loops,
        "frame_period": studio.period,
        "tx": tx,
        "rx": rx,
    }
    return _setup(config, values, "qqii" if studio.swapped else "iiqq", _created(config, studio.created))


def firing_order(studio: Studio, path: str) -> tuple[tuple[int, ...], int]:
    """The transmitters of a loop in the order that they fire, numbered from 1, and how often the loop repeats itself.
    Raises ConfigError where chirps differ, several transmitters fire at once, or in no order that repeats itself."""
    count = studio.last - studio.first + 1
    if not 1 <= count <= 512 or studio.loops < 1:
        raise ConfigError(
            f"{path}: a frame of chirps {short(studio.first)} to {short(studio.last)}, {short(studio.loops)} times, is "
            "none"
        )
    numbers = range(studio.first, studio.last + 1)
    if lacking := [str(n) for n in numbers if n not in studio.chirps]:
        raise ConfigError(f"{path}: does not configure chirp {', '.join(lacking)} of its frame")
    chirps = [studio.chirps[n] for n in numbers]
    if any(each.profile != chirps[0].profile or each.varied for each in chirps):
        raise ConfigError(f"{path}: the chirps of a frame differ in their waveform; only equal ones can be imported")
    for number, chirp in zip(numbers, chirps, strict=True):
        if chirp.tx.bit_count() != 1 or not 0 < chirp.tx < 1 << MAX_ANTENNAS:
            raise ConfigError(
                f"{path}: chirp {number} has txEnable {chirp.tx:#x}; one transmitter at a time can be imported (TDM), "
                "not several at once or none"
            )
    order = [chirp.tx.bit_length() for chirp in chirps]
    size = len(set(order))
    if count % size or order != order[:size] * (count // size):
        raise ConfigError(
            f"{path}: the transmitters {short(order)} of a loop do not take turns; only those can be read"
        )
    return tuple(order[:size]), count // size


def _setup(config: Path, values: dict[str, Any], order: str, start: float | None) -> Setup:
    lacking = [
        f"{name} ({field.description})"
        for name, field in Capture.model_fields.items()
        if field.is_required() and values.get(name) is None
    ]
    if lacking:
        raise ConfigError(f"{config}: radar.args.radar lacks {'; '.join(lacking)}")
    capture = Capture.parse(values, f"{config}: radar.args.radar")
    board = BOARDS.get(capture.device.upper())
    if board is None:
        if capture.tx is None or capture.rx is None:
            raise ConfigError(
                f"{config}: the board {capture.device} is unknown, so tx and rx must be given; known: "
                f"{', '.join(sorted(BOARDS))}"
            )
        return Setup(capture, len(capture.tx), len(capture.rx), order, start)
    if board.real:
        raise ConfigError(f"{config}: {capture.device} makes real samples; only complex captures can be imported")
    with naming(f"{config}: {capture.device}", ValueError, made=ConfigError):
        board = board.select(capture.tx, capture.rx)
    return Setup(capture, len(board.tx), len(board.rx), order, start)


def _created(config: Path, text: Any) -> float | None:
    """Epoch seconds when a configuration was made, by an ISO time, of UTC without a zone; None when it does not say."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        start = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        start = -1.0
    if not 0 <= start < EPOCH_S[1]:
        raise ConfigError(f"{config}: createdOn is {short(text)}, no time of a capture; correct it")
    return start


def _device_beside(config: Path) -> str:
    """The name of the board, which mmWave Studio writes into a `.setup.json` in the same folder."""
    for path in sorted(config.parent.glob("*.setup.json")):
        try:
            return str(read_json(path)["mmWaveDevice"]).upper()
        except (OSError, FormatError, LookupError, TypeError):
            continue
    raise ConfigError(f"{config}: does not name the board, and no .setup.json beside it does; give --device")


def import_dca1000(
    adc: Path,
    config: Path,
    out: Path,
    *,
    order: str | None = None,
    device: str | None = None,
    start: float | None = None,
) -> int:
    """Write the trace `out` from raw samples and the configuration they were captured with.

    Samples are little-endian int16, frame, chirp, tx, rx, sample: complex ones, of two LVDS lanes. The other arguments
    are those of the command, as `table.py` describes them; docs/radar-captures.md lists the keys of configurations and
    their units. Without `start`, time counts from when the configuration was made, or else the file was last changed.
    Returns the number of frames. Raises FormatError where the file is no whole number of frames, or has none, and
    ConfigError where the configuration cannot be used.
    """
    if start is not None and not 0 <= start < EPOCH_S[1]:
        raise ConfigError(f"--start {start}: must be seconds since 1970, before 2100")
    setup = read_setup(config, device)
    capture, words_order = setup.capture, ORDERS[order or setup.order]
    shape = (capture.frame_length, setup.tx, setup.rx, 2 * capture.adc_samples)
    frame_bytes = 2 * math.prod(shape)
    if frame_bytes > MAX_SAMPLE_BYTES:
        raise ConfigError(
            f"{config}: a frame of {list(shape)} int16 has {frame_bytes:,} bytes, more than any radar makes"
        )
    with naming(adc, OSError):
        size = regular_size(adc)
    count, extra = divmod(size, frame_bytes)
    if extra or not count:
        rest = f"the last {extra:,} bytes, from byte {size - extra}, are left over" if count else "there is no frame"
        raise FormatError(
            f"{adc}: {size:,} bytes is not a whole number of {frame_bytes:,}-byte frames {list(shape)} of int16; "
            f"{rest}. Check that --config belongs to it"
        )
    if count > MAX_SAMPLES:
        raise FormatError(f"{adc}: holds {count:,} frames, more than the {MAX_SAMPLES:,} of any recording")
    if start is None:
        source = "the file was last changed" if setup.start is None else "its configuration was made"
        start = adc.stat().st_mtime - count * capture.frame_period / 1e3 if setup.start is None else setup.start
        print(f"{adc}: holds no times; counted from when {source} (--start sets another)", file=sys.stderr)

    desc = "Raw ADC words, Q Q I I. [chirp, tx, rx, 2 * sample]"
    specs = {VALID: VALID_SPEC, "iq": raw("i2", shape, desc)}
    with imported_trace(out) as trace:
        with SensorWriter(trace / "radar", specs) as writer, opened_file(adc) as file:
            step = max(1, _BLOCK_BYTES // frame_bytes)
            for first in range(0, count, step):
                frames = min(step, count - first)
                words = np.fromfile(file, "<i2", frames * frame_bytes // 2).reshape(-1, 4)
                iq = words[:, words_order].reshape(frames, *shape)
                writer.append(
                    ts=start + np.arange(first, first + frames) * capture.frame_period / 1e3,
                    # TI's tools fill lost packets with zeros.
                    valid=(~has_zeros(iq)).astype("u1"),
                    iq=iq,
                )
            metres, mps = bins_of(capture.model_dump(), setup.tx)
            sidecar = {
                "shape": [*shape[:3], capture.adc_samples],
                "range_resolution": metres,
                "doppler_resolution": mps,
            }
            replace_file(trace / "radar" / "radar.json", json.dumps(sidecar, indent=4) + "\n")
        radar = {"type": "radar", "args": {"radar": capture.model_dump(mode="json", exclude_none=True)}}
        options = {"order": order or setup.order, "start": float(start)}
        write_config(trace, {"radar": radar}, command="import dca1000", sources=[adc, config], options=options)
    return count
