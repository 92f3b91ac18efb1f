"""Raw captures of TI radars through a DCA1000 (`adc_data.bin`) into a roverd trace with `radar/`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import Field
from scipy.constants import speed_of_light

from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import new_trace
from rover_pipeline.options import Options

#: Order of the four int16 of two complex samples, as positions in the stored `Q Q I I`.
ORDERS = {"iiqq": (2, 3, 0, 1), "qqii": (0, 1, 2, 3)}

_FRAMES_AT_ONCE_BYTES = 64 << 20


class Capture(Options):
    """What was captured: the keys of `radar.args.radar` in a collection configuration, and how words are ordered."""

    device: str = Field(min_length=1)
    frequency: float = Field(gt=0, description="Start of the chirp, GHz.")
    idle_time: float = Field(ge=0, description="us")
    adc_start_time: float = Field(ge=0, description="us")
    ramp_end_time: float = Field(gt=0, description="us")
    tx_start_time: float = Field(0, description="us")
    freq_slope: float = Field(gt=0, description="MHz/us")
    adc_samples: int = Field(gt=0)
    sample_rate: float = Field(gt=0, description="ksps")
    frame_length: int = Field(gt=0, description="Chirps of one TX a frame.")
    frame_period: float = Field(gt=0, description="ms")

    @property
    def range_resolution(self) -> float:
        """Metres a range bin: c / 2B, B the bandwidth swept while sampling."""
        bandwidth_hz = self.freq_slope * 1e12 * self.adc_samples / (self.sample_rate * 1e3)
        return speed_of_light / (2 * bandwidth_hz)

    def doppler_resolution(self, tx: int) -> float:
        """m/s a Doppler bin: wavelength / (2 * time of a frame's chirps), as the collector computes it."""
        chirp_s = (self.idle_time + self.ramp_end_time) * 1e-6
        wavelength = speed_of_light / (self.frequency * 1e9)
        return wavelength / (2 * self.frame_length * tx * chirp_s)


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
        order: order of words in the file, "iiqq" or "qqii"; else what the configuration says.
        device: board, when the configuration does not name it.
        start: epoch seconds of the first frame; else when the configuration was made, else when the file was.

    Returns:
        The number of frames.

    Raises:
        FormatError: the file is no whole number of frames, or there is none.
        ConfigError: the configuration cannot be used.
    """
    capture, tx, rx, stated_order, stated_start = read_capture(config, device)
    order = order or stated_order
    shape = (capture.frame_length, tx, rx, 2 * capture.adc_samples)
    frame_bytes = 2 * int(np.prod(shape))
    try:
        size = adc.stat().st_size
    except OSError as error:
        raise FormatError(f"{adc}: {error.strerror}") from error
    count, extra = divmod(size, frame_bytes)
    if extra or not count:
        rest = f"the last {extra:,} bytes, from byte {size - extra}, are left over" if count else "there is no frame"
        raise FormatError(
            f"{adc}: {size:,} bytes is not a whole number of {frame_bytes:,}-byte frames {list(shape)} of int16; "
            f"{rest}. Check that --config belongs to it"
        )
    if start is None:
        start = stated_start if stated_start is not None else os.stat(adc).st_mtime - count * capture.frame_period / 1e3
        source = "its configuration was made" if stated_start is not None else "the file was last changed"
        print(f"{adc}: holds no times; counted from when {source} (--start sets another)", file=sys.stderr)

    specs = {
        TS: TS_SPEC,
        VALID: VALID_SPEC,
        "iq": ChannelSpec(
            format="raw", type="i2", shape=shape, desc="Raw ADC words, Q Q I I. [chirp, tx, rx, 2 * sample]"
        ),
    }
    with new_trace(out) as trace:
        with SensorWriter(trace / "radar", specs) as writer, adc.open("rb") as file:
            step = max(1, _FRAMES_AT_ONCE_BYTES // frame_bytes)
            for first in range(0, count, step):
                frames = min(step, count - first)
                words = np.fromfile(file, "<i2", frames * frame_bytes // 2).reshape(-1, 4)
                writer.append(
                    ts=start + np.arange(first, first + frames) * capture.frame_period / 1e3,
                    valid=np.ones(frames, "u1"),
                    iq=words[:, ORDERS[order]].reshape(frames, *shape),
                )
            sidecar = {
                "shape": [*shape[:3], capture.adc_samples],
                "range_resolution": capture.range_resolution,
                "doppler_resolution": capture.doppler_resolution(tx),
            }
            replace_file(trace / "radar" / "radar.json", json.dumps(sidecar, indent=4) + "\n")
        section = {"radar": {"type": "radar", "args": {"radar": capture.model_dump()}}}
        replace_file(trace / "config.yaml", yaml.safe_dump({**section, "comment": f"imported from {adc.name}"}))
    return count


def read_capture(config: Path, device: str | None) -> tuple[Capture, int, int, str, float | None]:
    """Capture, number of TX and RX, order of words, and epoch seconds when it is stated."""
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{config}: cannot be read: {error}") from error
    content = parse_collection(text, str(config))  # JSON is YAML too
    if "mmWaveDevices" in content:
        return _from_mmwave_studio(config, content, device)
    try:
        section = content["radar"]["args"]["radar"]
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"{config}: is neither a mmWave Studio JSON nor a configuration with radar.args.radar"
        ) from error
    capture = Capture.parse({**section, **({"device": device} if device else {})}, f"{config}: radar.args.radar")
    tx, rx = (2, 4) if capture.device in ("AWR1642", "AWR1843L") else (3, 4)
    if capture.device in ("AWR2944", "AWRL6844"):
        raise ConfigError(f"{config}: {capture.device} makes real samples; only complex captures can be imported")
    return capture, tx, rx, "qqii", None


def _from_mmwave_studio(
    config: Path, content: Mapping[str, Any], device: str | None
) -> tuple[Capture, int, int, str, float | None]:
    try:
        if len(content["mmWaveDevices"]) != 1:
            raise ConfigError(f"{config}: describes {len(content['mmWaveDevices'])} devices, not one")
        rf = content["mmWaveDevices"][0]["rfConfig"]
        raw = content["mmWaveDevices"][0]["rawDataCaptureConfig"]
        profile = rf["rlProfiles"][0]["rlProfileCfg_t"]
        frame = rf["rlFrameCfg_t"]
        tx = frame["chirpEndIdx"] - frame["chirpStartIdx"] + 1
        rx = int(rf["rlChanCfg_t"]["rxChannelEn"], 16).bit_count()
        lanes = int(raw["rlDevLaneEnable_t"]["laneEn"], 16).bit_count()
        output = rf["rlAdcOutCfg_t"]["fmt"]
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
    return Capture.parse(values, str(config)), tx, rx, "qqii" if swapped else "iiqq", start


def _device_beside(config: Path) -> str:
    """The board, which mmWave Studio writes into a `.setup.json` in the same folder."""
    for path in sorted(config.parent.glob("*.setup.json")):
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["mmWaveDevice"]).upper()
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise ConfigError(f"{config}: does not name the board, and no .setup.json beside it does; give --device")
