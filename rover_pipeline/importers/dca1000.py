"""Import of raw captures of TI radars by a DCA1000 (`adc_data.bin`) as a roverd trace with `radar/`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from pydantic import Field
from scipy.constants import speed_of_light

from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import CONFIG, new_trace
from rover_pipeline.options import Options
from rover_pipeline.radar.boards import BOARDS

#: Order of the four int16 of two complex samples in the file -> their indices in the stored order `Q Q I I`.
ORDERS = {"iiqq": (2, 3, 0, 1), "qqii": (0, 1, 2, 3)}
#: Frames are read and written in blocks of this size.
_BLOCK_BYTES = 64 << 20


class Capture(Options):
    """Board and waveform of a capture: the keys of `radar.args.radar` in a collection configuration."""

    device: str = Field(min_length=1)
    frequency: float = Field(gt=0, description="Start of the chirp, GHz.")
    idle_time: float = Field(ge=0, description="us")
    adc_start_time: float = Field(ge=0, description="us")
    ramp_end_time: float = Field(gt=0, description="us")
    tx_start_time: float = Field(0, description="us")
    freq_slope: float = Field(gt=0, description="MHz/us")
    adc_samples: int = Field(gt=0)
    sample_rate: float = Field(gt=0, description="ksps")
    frame_length: int = Field(gt=0, description="Chirps of one TX in a frame.")
    frame_period: float = Field(gt=0, description="ms")

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
    setup = read_setup(config, device)
    capture, words_order = setup.capture, ORDERS[order or setup.order]
    shape = (capture.frame_length, setup.tx, setup.rx, 2 * capture.adc_samples)
    frame_bytes = 2 * int(np.prod(shape))
    try:
        status = adc.stat()
    except OSError as error:
        raise FormatError(f"{adc}: {error.strerror}") from error
    size = status.st_size
    count, extra = divmod(size, frame_bytes)
    if extra or not count:
        rest = f"the last {extra:,} bytes, from byte {size - extra}, are left over" if count else "there is no frame"
        raise FormatError(
            f"{adc}: {size:,} bytes is not a whole number of {frame_bytes:,}-byte frames {list(shape)} of int16; "
            f"{rest}. Check that --config belongs to it"
        )
    if start is None:
        source = "the file was last changed" if setup.start is None else "its configuration was made"
        start = status.st_mtime - count * capture.frame_period / 1e3 if setup.start is None else setup.start
        print(f"{adc}: holds no times; counted from when {source} (--start sets another)", file=sys.stderr)

    desc = "Raw ADC words, Q Q I I. [chirp, tx, rx, 2 * sample]"
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "iq": ChannelSpec(format="raw", type="i2", shape=shape, desc=desc)}
    with new_trace(out) as trace:
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
        radar = {"type": "radar", "args": {"radar": capture.model_dump()}}
        replace_file(trace / CONFIG, yaml.safe_dump({"radar": radar, "comment": f"imported from {adc.name}"}))
    return count


def read_setup(config: Path, device: str | None) -> Setup:
    """The content of a configuration file of mmWave Studio or of a collection.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{config}: cannot be read: {error}") from error
    content = parse_collection(text, str(config))  # JSON is a subset of YAML.
    if "mmWaveDevices" in content:
        return _from_mmwave_studio(config, content, device)
    try:
        section = content["radar"]["args"]["radar"]
    except (KeyError, TypeError) as error:
        problem = "is neither a mmWave Studio JSON nor a configuration with radar.args.radar"
        raise ConfigError(f"{config}: {problem}") from error
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
        created = content.get("configGenerator", {}).get("createdOn")
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ConfigError(f"{config}: is no mmWave Studio configuration of one device: {error!r} is missing") from error
    if lanes != 2 or not complex_samples:
        raise ConfigError(f"{config}: {lanes} LVDS lanes, ADC format {output['b2AdcOutFmt']}; only complex on 2 lanes")
    start = datetime.fromisoformat(created).timestamp() if created else None
    return Setup(Capture.parse(values, str(config)), tx, rx, "qqii" if swapped else "iiqq", start)


def _device_beside(config: Path) -> str:
    """The name of the board, which mmWave Studio writes into a `.setup.json` in the same folder."""
    for path in sorted(config.parent.glob("*.setup.json")):
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["mmWaveDevice"]).upper()
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise ConfigError(f"{config}: does not name the board, and no .setup.json beside it does; give --device")
