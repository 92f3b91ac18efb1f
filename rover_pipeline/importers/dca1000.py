"""Import of raw captures of TI radars by a DCA1000 (`adc_data.bin`) as a roverd trace with `radar/`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field
from scipy.constants import speed_of_light

from rover_pipeline.errors import ConfigError, FormatError, short
from rover_pipeline.format.channels.base import MAX_SAMPLES
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.format.files import require_regular
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec, replace_file
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.texts import read_json, read_text
from rover_pipeline.importers.origin import write_config
from rover_pipeline.options import Options
from rover_pipeline.radar.boards import BOARDS

#: Order of the four int16 of two complex samples in the file -> their indices in the stored order `Q Q I I`.
ORDERS = {"iiqq": (2, 3, 0, 1), "qqii": (0, 1, 2, 3)}
#: Frames are read and written in blocks of this size.
_BLOCK_BYTES = 64 << 20
#: Longest time within a chirp, us. The limits of `Capture` are far beyond any chip: they keep out what is no waveform.
_MAX_US = 1e6
#: Transmitters that take turns, and receivers, of the largest cascade.
_MAX_ANTENNAS = 16
#: Seconds since 1970 in which a capture can begin: until 2100.
_LATEST_S = 4_102_444_800.0


class Capture(Options):
    """Board and waveform of a capture: the keys of `radar.args.radar` in a collection configuration."""

    device: str = Field(min_length=1, max_length=40)
    port: str | None = Field(None, description="Control port of the board, which the samples do not depend on.")
    frequency: float = Field(gt=0, le=300, description="Start of the chirp, GHz.")
    idle_time: float = Field(ge=0, le=_MAX_US, description="us")
    adc_start_time: float = Field(ge=0, le=_MAX_US, description="us")
    ramp_end_time: float = Field(gt=0, le=_MAX_US, description="us")
    tx_start_time: float = Field(0, ge=-_MAX_US, le=_MAX_US, description="us")
    freq_slope: float = Field(gt=0, le=1000, description="MHz/us")
    adc_samples: int = Field(gt=0, le=1 << 16)
    sample_rate: float = Field(ge=1, le=1e6, description="ksps")
    frame_length: int = Field(gt=0, le=1 << 16, description="Chirps of one TX in a frame.")
    frame_period: float = Field(ge=0.01, le=1e6, description="ms")

    @property
    def range_resolution(self) -> float:
        """Size of a range bin, m: c / 2B with the bandwidth B of the sampled part of a chirp."""
        bandwidth_hz = self.freq_slope * 1e12 * self.adc_samples / (self.sample_rate * 1e3)
        return speed_of_light / (2 * bandwidth_hz)

    def doppler_resolution(self, tx: int) -> float:
        """Size of a Doppler bin, m/s: wavelength / (2 * duration of a frame's chirps), as the collector computes it."""
        chirp_s = (self.idle_time + self.ramp_end_time) * 1e-6
        wavelength = speed_of_light / (self.frequency * 1e9)
        return wavelength / (2 * self.frame_length * tx * chirp_s)


class Setup(NamedTuple):
    """Content of a configuration file: `order` is a key of `ORDERS`, `start` the epoch seconds when it was made."""

    capture: Capture
    tx: int
    rx: int
    order: str
    start: float | None


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

    Args:
        adc: little-endian int16, frame, chirp, tx, rx, sample; two LVDS lanes, complex samples.
        config: mmWave Studio's `.mmwave.json`, or a collection `config.yaml` with a radar section.
        order: order of words in the file, "iiqq" or "qqii"; device: name of the board; None = as in the configuration.
        start: epoch seconds of the first frame; None = when the configuration was made, or else from when the file was
            last changed.

    Returns:
        The number of frames.

    Raises:
        FormatError: the file is no whole number of frames, or has none.
        ConfigError: the configuration cannot be used.
    """
    if start is not None and not 0 <= start < _LATEST_S:
        raise ConfigError(f"--start {start}: must be seconds since 1970, before 2100")
    setup = read_setup(config, device)
    capture, words_order = setup.capture, ORDERS[order or setup.order]
    shape = (capture.frame_length, setup.tx, setup.rx, 2 * capture.adc_samples)
    frame_bytes = 2 * math.prod(shape)
    if frame_bytes > MAX_SAMPLE_BYTES:
        raise ConfigError(
            f"{config}: a frame of {list(shape)} int16 has {frame_bytes:,} bytes, more than any radar makes"
        )
    try:
        status = adc.stat()
    except OSError as error:
        raise FormatError(f"{adc}: {error.strerror}") from error
    require_regular(adc, status)
    size = status.st_size
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
        start = status.st_mtime - count * capture.frame_period / 1e3 if setup.start is None else setup.start
        print(f"{adc}: holds no times; counted from when {source} (--start sets another)", file=sys.stderr)

    desc = "Raw ADC words, Q Q I I. [chirp, tx, rx, 2 * sample]"
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "iq": ChannelSpec(format="raw", type="i2", shape=shape, desc=desc)}
    with imported_trace(out) as trace:
        with SensorWriter(trace / "radar", specs) as writer, adc.open("rb") as file:
            step = max(1, _BLOCK_BYTES // frame_bytes)
            for first in range(0, count, step):
                frames = min(step, count - first)
                words = np.fromfile(file, "<i2", frames * frame_bytes // 2).reshape(-1, 4)
                writer.append(
                    ts=start + np.arange(first, first + frames) * capture.frame_period / 1e3,
                    valid=np.ones(frames, "u1"),
                    iq=words[:, words_order].reshape(frames, *shape),
                )
            sidecar = {
                "shape": [*shape[:3], capture.adc_samples],
                "range_resolution": capture.range_resolution,
                "doppler_resolution": capture.doppler_resolution(setup.tx),
            }
            replace_file(trace / "radar" / "radar.json", json.dumps(sidecar, indent=4) + "\n")
        radar = {"type": "radar", "args": {"radar": capture.model_dump(exclude_none=True)}}
        options = {"order": order or setup.order, "start": float(start)}
        write_config(trace, {"radar": radar}, command="import dca1000", sources=[adc, config], options=options)
    return count


def read_setup(config: Path, device: str | None) -> Setup:
    """The content of a configuration file of mmWave Studio or of a collection.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        text = read_text(config)
    except FileNotFoundError as error:
        raise ConfigError(f"{config}: cannot be read: {error.strerror}") from error
    content = parse_collection(text, str(config))  # JSON is a subset of YAML.
    if "mmWaveDevices" in content:
        return _from_mmwave_studio(config, content, device)
    try:
        section = content["radar"]["args"]["radar"]
    except (KeyError, TypeError) as error:
        problem = "is neither a mmWave Studio JSON nor a configuration with radar.args.radar"
        raise ConfigError(f"{config}: {problem}") from error
    if not isinstance(section, dict):
        raise ConfigError(f"{config}: radar.args.radar is a {type(section).__name__}, not a mapping")
    capture = Capture.parse({**section, **({"device": device} if device else {})}, f"{config}: radar.args.radar")
    board = BOARDS.get(capture.device, BOARDS["AWR1843"])
    if board.real:
        raise ConfigError(f"{config}: {capture.device} makes real samples; only complex captures can be imported")
    return Setup(capture, len(board.tx), len(board.rx), "qqii", None)


def _from_mmwave_studio(config: Path, content: Mapping[str, Any], device: str | None) -> Setup:
    try:
        devices = content["mmWaveDevices"]
        if len(devices) != 1:
            raise ConfigError(f"{config}: describes {len(devices)} devices, not one")
        rf, raw = devices[0]["rfConfig"], devices[0]["rawDataCaptureConfig"]
        profile = rf["rlProfiles"][0]["rlProfileCfg_t"]
        frame, output = rf["rlFrameCfg_t"], rf["rlAdcOutCfg_t"]["fmt"]
        tx = frame["chirpEndIdx"] - frame["chirpStartIdx"] + 1
        rx = int(rf["rlChanCfg_t"]["rxChannelEn"], 16).bit_count()
        lanes = int(raw["rlDevLaneEnable_t"]["laneEn"], 16).bit_count()
        values = {
            "device": device or _device_beside(config),
            "frequency": profile["startFreqConst_GHz"],
            "idle_time": profile["idleTimeConst_usec"],
            "adc_start_time": profile["adcStartTimeConst_usec"],
            "ramp_end_time": profile["rampEndTime_usec"],
            "tx_start_time": profile["txStartTime_usec"],
            "freq_slope": profile["freqSlopeConst_MHz_usec"],
            "adc_samples": profile["numAdcSamples"],
            "sample_rate": profile["digOutSampleRate"],
            "frame_length": frame["numLoops"],
            "frame_period": frame["framePeriodicity_msec"],
        }
        swapped = bool(raw["rlDevDataFmtCfg_t"]["iqSwapSel"])
        complex_samples = output["b2AdcOutFmt"] in (1, 2)
        created = (content.get("configGenerator") or {}).get("createdOn")
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        problem = f"is no mmWave Studio configuration of one device: {short(error)}"
        raise ConfigError(f"{config}: {problem}") from error
    for name, number in (("TX", tx), ("RX", rx)):
        if not isinstance(number, int) or not 1 <= number <= _MAX_ANTENNAS:
            raise ConfigError(f"{config}: gives {short(number)} {name}; a radar has 1 to {_MAX_ANTENNAS}")
    if lanes != 2 or not complex_samples:
        given = short(output["b2AdcOutFmt"])
        raise ConfigError(f"{config}: {lanes} LVDS lanes, ADC format {given}; only complex on 2 lanes")
    capture = Capture.parse(values, str(config))
    return Setup(capture, tx, rx, "qqii" if swapped else "iiqq", _created(config, created))


def _created(config: Path, text: Any) -> float | None:
    """Epoch seconds when a configuration was made; None when it does not say."""
    if not text:
        return None
    try:
        start = datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        start = -1.0
    if not 0 <= start < _LATEST_S:
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
