"""What mmWave Studio wrote about a capture: its JSON, its Lua script, or the log of the calls that it made.

All three are read into one `Studio`. Units differ: a JSON and a script hold GHz, us and ms; a log holds the numbers of
the chip's registers (TI, mmWave Radar Interface Control Document: 2^-26 of 3.6 GHz, or of 2.7 GHz on 60 GHz chips, for
the frequency; 10 ns for the times of a chirp; 5 ns for the period of frames).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rover_pipeline.errors import ConfigError, short

#: Values of a profile, as `Studio.profiles` names them -> their keys in the JSON, and the numbers of the arguments in
#: `ar1.ProfileConfig` of a script (after the power back-off and phase of three transmitters) and in `API:ProfileConfig`
#: of a log, where one word holds the back-off of all. Layout.
_PROFILE = {
    "frequency": ("startFreqConst_GHz", 1, 1),
    "idle_time": ("idleTimeConst_usec", 2, 2),
    "adc_start_time": ("adcStartTimeConst_usec", 3, 3),
    "ramp_end_time": ("rampEndTime_usec", 4, 4),
    "tx_start_time": ("txStartTime_usec", 12, 8),
    "freq_slope": ("freqSlopeConst_MHz_usec", 11, 7),
    "adc_samples": ("numAdcSamples", 13, 9),
    "sample_rate": ("digOutSampleRate", 14, 10),
}
_SCRIPT_PROFILE_ARGUMENTS = 18
_VARIATIONS = ("startFreqVar_MHz", "freqSlopeVar_KHz_usec", "idleTimeVar_usec", "adcStartTimeVar_usec")
#: Bits of a synthesizer's word, and its full scale in Hz: that of the chips of the 60 GHz band is smaller. Layout.
_WORD, _SCALE_77, _SCALE_60 = 2.0**26, 3.6e9, 2.7e9
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Chirps that a chip can hold. Layout.
_MAX_CHIRPS = 512


class Chirp(NamedTuple):
    """One configured chirp: its profile, the transmitters' bits, and whether it differs from its profile."""

    profile: int
    tx: int
    varied: bool


class Studio(NamedTuple):
    """A capture as mmWave Studio describes it."""

    profiles: Mapping[int, Mapping[str, float]]  #: by number, with the names and units of `Capture`.
    chirps: Mapping[int, Chirp]  #: by number.
    first: int  #: number of the first chirp of a loop.
    last: int
    loops: int  #: of a frame.
    period: float  #: of frames, ms.
    rx: int  #: bits of the receivers.
    lanes: int  #: of the LVDS interface.
    is_complex: bool
    swapped: bool  #: whether Q comes before I.
    device: str | None = None  #: name of the board; None = not given.
    created: Any = None  #: ISO time; None = not given.


def of_json(content: Mapping[str, Any], path: str) -> Studio:
    """What a `.mmwave.json` says. Raises ConfigError where it describes no one device, or lacks keys; the message names
    all of them."""
    devices = content["mmWaveDevices"]
    if not isinstance(devices, list) or len(devices) != 1:
        count = len(devices) if isinstance(devices, list) else "no list of"
        raise ConfigError(f"{path}: describes {count} devices, not one")
    keys = _Keys(devices[0])
    rf, raw = ("rfConfig",), ("rawDataCaptureConfig",)
    profiles = {}
    for n in range(keys.count(*rf, "rlProfiles")):
        at = (*rf, "rlProfiles", n, "rlProfileCfg_t")
        profiles[keys.number(*at, "profileId")] = {
            name: keys.number(*at, key, whole=False) for name, (key, _, _) in _PROFILE.items()
        }
    chirps = {}
    for n in range(keys.count(*rf, "rlChirps")):
        at = (*rf, "rlChirps", n, "rlChirpCfg_t")
        first, last = (keys.number(*at, key) for key in ("chirpStartIdx", "chirpEndIdx"))
        varied = any(keys.number(*at, key, whole=False, default=0) for key in _VARIATIONS)
        chirp = Chirp(keys.number(*at, "profileId"), keys.number(*at, "txEnable"), varied)
        chirps.update(dict.fromkeys(range(max(first, 0), min(last, _MAX_CHIRPS) + 1), chirp))
    frame, output = (*rf, "rlFrameCfg_t"), (*rf, "rlAdcOutCfg_t", "fmt")
    generator = content.get("configGenerator")
    described = Studio(
        profiles,
        chirps,
        first=keys.number(*frame, "chirpStartIdx"),
        last=keys.number(*frame, "chirpEndIdx"),
        loops=keys.number(*frame, "numLoops"),
        period=keys.number(*frame, "framePeriodicity_msec", whole=False),
        rx=keys.number(*rf, "rlChanCfg_t", "rxChannelEn"),
        lanes=keys.number(*raw, "rlDevLaneEnable_t", "laneEn").bit_count(),
        is_complex=keys.number(*output, "b2AdcOutFmt") in (1, 2),
        swapped=bool(keys.number(*raw, "rlDevDataFmtCfg_t", "iqSwapSel")),
        created=generator.get("createdOn") if isinstance(generator, Mapping) else None,
    )
    if keys.missing:
        raise ConfigError(
            f"{path}: is no mmWave Studio configuration of one device: lacks, or has no number at, "
            f"{', '.join(keys.missing)}; export it again from mmWave Studio"
        )
    return described


class _Keys:
    """Numbers in a JSON, and the paths of all that are missing."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.missing: list[str] = []

    def count(self, *path: str | int) -> int:
        """Length of a list; a list without entries is missing."""
        found = self._find(path)
        if not isinstance(found, list) or not found:
            self._lacks(path)
            return 0
        return len(found)

    def number(self, *path: str | int, whole: bool = True, default: int | None = None) -> Any:
        """A number, or a text with a hexadecimal one; 0 where it is missing."""
        found = self._find(path)
        if found is None and default is not None:
            return default
        try:
            value = int(found, 16) if isinstance(found, str) else found
            if not isinstance(value, bool) and isinstance(value, (int, float)) and (not whole or value == int(value)):
                return int(value) if whole else float(value)
        except (ValueError, OverflowError):
            pass
        self._lacks(path)
        return 0

    def _find(self, path: Sequence[str | int]) -> Any:
        found = self._content
        for key in path:
            try:
                found = found[key]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def _lacks(self, path: Sequence[str | int]) -> None:
        # The list's number stands in brackets; the names of entries that only wrap others are left out.
        text = ".".join(f"[{key}]" if isinstance(key, int) else key for key in path).replace(".[", "[")
        if text not in self.missing:
            self.missing.append(text)


def of_script(text: str, path: str) -> Studio:
    """What a Lua script of mmWave Studio says: the calls of `ar1` with numbers, or with variables set to numbers.

    Raises ConfigError where a call is missing, has unknown arguments, or stands there twice with other ones, so that
    the script does not say which of them ran.
    """
    calls: dict[str, list[list[Any]]] = {}
    variables: dict[str, Any] = {}
    for line in re.sub(r"--\[\[.*?\]\]", "", text, flags=re.DOTALL).splitlines():
        code = line.partition("--")[0]
        if assigned := re.match(r"\s*(?:local\s+)?(\w+)\s*=\s*([^=].*)$", code):
            variables[assigned[1]] = _value(assigned[2].strip().rstrip(";"), variables)
        for name, arguments in re.findall(r"ar1\.(\w+)\s*\(([^()]*)\)", code):
            calls.setdefault(name, []).append([_value(each.strip(), variables) for each in arguments.split(",")])

    def only(name: str, minimum: int, exactly: bool = False) -> list[float]:
        """The arguments of a call; an error where there is none, or where there are different ones."""
        given = calls.get(name, [])
        if not given:
            raise ConfigError(f"{path}: has no call of ar1.{name}; give the script that configured the capture")
        if any(each != given[0] for each in given[1:]):
            ways = f"calls ar1.{name} in {len(given)} ways"
            raise ConfigError(f"{path}: {ways}, and does not say which one ran; leave that one")
        return _numbers(path, f"ar1.{name}", given[0], minimum, exactly)

    profile, frame = only("ProfileConfig", _SCRIPT_PROFILE_ARGUMENTS, exactly=True), only("FrameConfig", 5)
    channels, lanes = only("ChanNAdcConfig", 10, exactly=True), only("LVDSLaneConfig", 5)
    chirps: dict[int, Chirp] = {}
    for given in calls.get("ChirpConfig", []):
        call = _numbers(path, "ar1.ChirpConfig", given, 10)
        chirp = Chirp(int(call[2]), sum(1 << n for n, on in enumerate(call[7:]) if on), any(call[3:7]))
        for number in range(max(int(call[0]), 0), min(int(call[1]), _MAX_CHIRPS) + 1):
            if chirps.setdefault(number, chirp) != chirp:
                raise ConfigError(f"{path}: configures chirp {number} in two ways; leave the call that ran")
    chip = calls.get("SelectChipVersion", [[None]])[-1][0]
    return Studio(
        {int(profile[0]): {name: profile[n] for name, (_, n, _) in _PROFILE.items()}},
        chirps,
        first=int(frame[0]),
        last=int(frame[1]),
        loops=int(frame[3]),
        period=frame[4],
        rx=sum(1 << n for n, on in enumerate(channels[3:7]) if on),
        lanes=sum(map(bool, lanes[1:5])),
        is_complex=channels[8] in (1, 2),
        swapped=bool(channels[9]),
        device=_board(chip) if isinstance(chip, str) else None,
    )


def _value(text: str, variables: Mapping[str, Any]) -> Any:
    """A number, the text between quotes, the value of a variable, or None."""
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    try:
        return float(int(text, 16)) if text[:2].lower() == "0x" else float(text)
    except ValueError:
        return variables.get(text)


def of_log(text: str, path: str) -> Studio:
    """What the log of mmWave Studio says. Of calls of one name the last one counts, but those that failed. Raises
    ConfigError where a call is missing, or has too few numbers."""
    calls: dict[str, list[list[Any]]] = {}
    started = chip = None
    for stamp, name, arguments in _logged(text):
        if name == "select_chip_version":
            chip = arguments.partition(",")[0]
            continue
        values = [_value(each, {}) for each in arguments.rstrip(",").split(",")]
        if values[-1] != 0:  # The last number is the status that the call returned.
            continue
        started = stamp if name in ("SensorStart", "StartFrame") else started
        calls.setdefault(name, []).append(values[:-1])
    names = ("ProfileConfig", "FrameConfig", "ChirpConfig", "ChannelConfig", "DataFmtConfig", "LaneConfig")
    if lacking := [f"API:{name}" for name in names if name not in calls]:
        raise ConfigError(f"{path}: lacks {', '.join(lacking)}; give the log of the session that made the capture")
    minima = (11, 5, 8, 2, 4, 1)
    for name, minimum in zip(names, minima, strict=True):
        for call in calls[name]:
            _numbers(path, f"API:{name}", call, minimum)
    profile, frame = calls["ProfileConfig"][-1], calls["FrameConfig"][-1]
    board = _board(chip) if chip else None
    scale = _SCALE_60 if board and board[3:4] == "6" else _SCALE_77
    registers = {name: profile[n] for name, (_, _, n) in _PROFILE.items()}
    described = registers | {name: registers[name] / 100 for name in registers if name.endswith("_time")}
    described["frequency"] = registers["frequency"] * scale / _WORD / 1e9
    described["freq_slope"] = registers["freq_slope"] * scale * 900 / _WORD / 1e6
    chirps: dict[int, Chirp] = {}
    for call in calls["ChirpConfig"]:
        chirp = Chirp(int(call[2]), int(call[7]), any(call[3:7]))
        chirps.update(dict.fromkeys(range(max(int(call[0]), 0), min(int(call[1]), _MAX_CHIRPS) + 1), chirp))
    data = calls["DataFmtConfig"][-1]
    return Studio(
        {int(profile[0]): described},
        chirps,
        first=int(frame[0]),
        last=int(frame[1]),
        loops=int(frame[3]),
        period=frame[4] * 5e-6,
        rx=int(calls["ChannelConfig"][-1][1]),
        lanes=int(calls["LaneConfig"][-1][0]).bit_count(),
        is_complex=data[2] in (1, 2),
        swapped=bool(data[3]),
        device=board,
        created=started,
    )


def _logged(text: str) -> Iterator[tuple[str | None, str, str]]:
    """Time (ISO, taken as UTC because a log names no time zone), name and arguments of each call in a log."""
    pattern = r"(\d\d)-(\w{3})-(\d{4}) (\d\d:\d\d:\d\d): API:(\w+),(.*)"
    for day, month, year, clock, name, arguments in re.findall(pattern, text):
        stamp = None
        if month in _MONTHS:
            stamp = f"{year}-{_MONTHS.index(month) + 1:02d}-{day}T{clock}+00:00"
        yield stamp, name, arguments.strip()


def _board(chip: str) -> str:
    """The name of a chip as boards are called: AR1642 -> AWR1642, XWR6843 -> IWR6843."""
    digits = re.search(r"\d{4}\w*", chip)
    if digits is None:
        return chip.upper()
    return ("IWR" if digits[0].startswith(("6", "14")) else "AWR") + digits[0].upper()


def _numbers(path: str, call: str, arguments: list[Any], minimum: int, exactly: bool = False) -> list[float]:
    """The arguments of a call, each of them a number, and not fewer than there must be."""
    for position, value in enumerate(arguments):
        if not isinstance(value, float):
            raise ConfigError(f"{path}: argument {position + 1} of {call} is {short(value)}, no number; write it out")
    if len(arguments) < minimum or (exactly and len(arguments) != minimum):
        kind = "" if exactly else "at least "
        raise ConfigError(
            f"{path}: {call} has {len(arguments)} arguments, not {kind}{minimum} as for chips with three transmitters"
        )
    return arguments
