"""The kinds of recordings of the hostile campaign: each draws its parameters from a seeded generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.campaign import hostile_raw as raw
from tests.campaign import hostile_rigs as rigs

Rng = np.random.Generator


class Hostile(NamedTuple):
    """One recording.

    Attributes:
        preset: that it is a variant of; seconds: its duration; changes: fields of the preset.
        faults: as `simulate` takes them.
        alter: changes of the rig, in order; spoil: changes of the raw channels, in order.
        imu: whether the odometry may use the IMU.
        drawn: the parameters, for people.
    """

    preset: str
    seconds: float
    changes: dict[str, Any]
    faults: Sequence[str]
    alter: Sequence[rigs.Alter]
    spoil: Sequence[raw.Spoil]
    imu: bool
    drawn: str


_SMALL = {"lidar": "OS-0-32", "columns": 512, "stand": 0.5}


def _hostile(
    preset: str,
    seconds: float,
    *,
    faults: Sequence[str] = (),
    alter: Sequence[rigs.Alter] = (),
    spoil: Sequence[raw.Spoil] = (),
    imu: bool = True,
    drawn: str = "",
    **changes: Any,
) -> Hostile:
    about = [preset, f"{seconds:.1f} s", drawn, *faults, "with IMU" if imu else "without IMU"]
    return Hostile(
        preset, seconds, _SMALL | changes, faults, alter, spoil, imu, ", ".join(part for part in about if part)
    )


def _anywhere(rng: Rng) -> rigs.Alter:
    return rigs.elsewhere(float(rng.uniform(0, 25)))


def _coin(rng: Rng) -> bool:
    return bool(rng.random() < 0.5)


def _place(rng: Rng, *names: str) -> str:
    return str(rng.choice(names or ("indoor", "outdoor", "park", "stairs")))


def _around(rng: Rng, count: int) -> list[tuple[float, float]]:
    """Places of companions: metres ahead and to the left, none on top of the rig."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False) + rng.uniform(0, 2)
    distances = rng.uniform(0.9, 2.4, count)
    return [(float(d * np.cos(a)), float(0.55 * d * np.sin(a))) for d, a in zip(distances, angles, strict=True)]


def silent_standing(rng: Rng) -> Hostile:
    """The lidar is silent while the rig stands."""
    gap = float(rng.uniform(0.3, 3))
    spoil = raw.silent(1.2, gap)
    return _hostile(_place(rng), 2.8 + gap, spoil=[spoil], stand=9.0, imu=_coin(rng), drawn=f"gap {gap:.2f} s")


def silent_walking(rng: Rng) -> Hostile:
    """The lidar is silent while the rig walks."""
    gap = float(rng.uniform(0.3, 3))
    alter, spoil = _anywhere(rng), raw.silent(1.8, gap)
    return _hostile(_place(rng), 3.4 + gap, alter=[alter], spoil=[spoil], imu=_coin(rng), drawn=f"gap {gap:.2f} s")


def silent_driving(rng: Rng) -> Hostile:
    """The lidar is silent on a bike."""
    gap = float(rng.uniform(0.3, 3))
    spoil = raw.silent(2.2, gap)
    return _hostile("bike", 4.0 + gap, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"gap {gap:.2f} s")


def silent_among_bushes(rng: Rng) -> Hostile:
    """The lidar is silent where there are no planes."""
    gap = float(rng.uniform(0.3, 2))
    spoil = raw.silent(1.8, gap)
    return _hostile(
        "bushes", 3.6 + gap, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"gap {gap:.2f} s"
    )


def silent_among_pillars(rng: Rng) -> Hostile:
    """The lidar is silent in a corridor whose pillars repeat."""
    gap, pillars = float(rng.uniform(0.5, 2.5)), float(rng.uniform(1.0, 3.0))
    drawn = f"gap {gap:.2f} s, pillars every {pillars:.2f} m"
    alter, spoil = rigs.corridor(1.6, [], pillars), raw.silent(1.8, gap)
    return _hostile("crowd", 3.6 + gap, alter=[alter], spoil=[spoil], imu=_coin(rng), speed=1.4, drawn=drawn)


def silent_twice(rng: Rng) -> Hostile:
    """The lidar is silent again and again."""
    gaps = rng.uniform(0.3, 1.2, 2)
    spoil = [raw.silent(1.2, float(gaps[0])), raw.silent(2.9, float(gaps[1]))]
    return _hostile(
        _place(rng), 5.5, alter=[_anywhere(rng)], spoil=spoil, imu=_coin(rng), drawn=f"gaps {gaps.round(2)}"
    )


def companions_in_a_corridor(rng: Rng) -> Hostile:
    """People walk along at the rig's pace in a bare corridor that says nothing about the way along it."""
    half, count, pace = float(rng.uniform(0.8, 2)), int(rng.integers(3, 9)), float(rng.uniform(0.7, 1.5))
    drawn = f"{count} companions, corridor {2 * half + 1.6:.1f} m wide, {pace:.2f} m/s"
    alter = rigs.corridor(half, _around(rng, count))
    return _hostile("crowd", 5.0, alter=[alter], imu=_coin(rng), speed=pace, drawn=drawn)


def companions_in_a_field(rng: Rng) -> Hostile:
    """People walk along at the rig's pace where there is nothing else."""
    count, pace = int(rng.integers(3, 12)), float(rng.uniform(0.7, 1.5))
    alter = rigs.field(_around(rng, count))
    return _hostile(
        "crowd", 5.0, alter=[alter], imu=_coin(rng), speed=pace, drawn=f"{count} companions, {pace:.2f} m/s"
    )


def crowd(rng: Rng) -> Hostile:
    """A crowd at the rig's pace in a hall with ends."""
    faults = ["unkind"] if _coin(rng) else []
    return _hostile("crowd", 5.0, faults=faults, imu=_coin(rng), speed=float(rng.uniform(0.8, 1.3)))


def tunnel(rng: Rng) -> Hostile:
    """The middle of a tunnel, where nothing says how far along one is."""
    alter = rigs.elsewhere(float(rng.uniform(60, 200)))
    return _hostile("tunnel", 5.0, alter=[alter], imu=_coin(rng), speed=float(rng.uniform(2, 8)))


def into_a_tunnel(rng: Rng) -> Hostile:
    """From the niches of a tunnel into its bare middle."""
    start = float(rng.uniform(0, 10))
    return _hostile(
        "tunnel", 6.0, alter=[rigs.elsewhere(start)], imu=_coin(rng), speed=5.0, drawn=f"from {start:.1f} m"
    )


def lidar_restarts(rng: Rng) -> Hostile:
    """The lidar is switched off for a moment and comes back at another phase."""
    off, gap = float(rng.uniform(1.5, 2.5)), float(rng.uniform(0.12, 1.5))
    alter = [_anywhere(rng), rigs.restarted(off, gap)]
    return _hostile(_place(rng), 5.5, alter=alter, imu=_coin(rng), drawn=f"off {gap:.3f} s")


def host_clock_is_set(rng: Rng) -> Hostile:
    """The host's clock is set forward while the rig moves."""
    step = float(rng.choice([0.02, 0.06, 0.3, 2.0, 20.0])) * rng.uniform(0.8, 1.2)
    spoil = raw.clock_set(int(rng.integers(15, 30)), step)
    return _hostile(_place(rng), 5.0, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"by {step:.3f} s")


def sweeps_arrive_late(rng: Rng) -> Hostile:
    """A busy host stamps sweeps late by a time that varies."""
    mean = float(rng.uniform(0.01, 0.06))
    spoil = raw.jittered(mean, rng)
    return _hostile(
        _place(rng), 5.0, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"{1e3 * mean:.0f} ms"
    )


def gyro_in_degrees(rng: Rng) -> Hostile:
    """Angular velocity is stored in degrees per second."""
    return _hostile(_place(rng), 4.0, faults=["imu-degrees"], alter=[_anywhere(rng)])


def imu_axes_exchanged(rng: Rng) -> Hostile:
    """The x and y axes of the IMU are exchanged."""
    return _hostile(_place(rng), 4.0, faults=["imu-axes"], alter=[_anywhere(rng)])


def imu_axes_turned_round(rng: Rng) -> Hostile:
    """Some axes of the IMU point the other way."""
    signs = [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1), (-1, -1, 1), (1, -1, -1)][int(rng.integers(6))]
    return _hostile(_place(rng), 4.0, alter=[_anywhere(rng)], spoil=[raw.imu_signs(signs)], drawn=f"signs {signs}")


def imu_mounted_otherwise(rng: Rng) -> Hostile:
    """The IMU is not mounted as section rig says."""
    angle = float(rng.choice([3.0, 10.0, 45.0, 90.0, 180.0]))
    return _hostile(_place(rng), 4.0, faults=[f"imu-misalignment={angle:g}"], alter=[_anywhere(rng)])


def gyro_saturates(rng: Rng) -> Hostile:
    """The gyroscope saturates where the rig is turned fast."""
    limit = float(rng.uniform(0.3, 1.5))
    alter = [_anywhere(rng), rigs.turning(0.8, float(rng.uniform(0.8, 2)))]
    return _hostile(_place(rng), 4.0, faults=[f"gyro-limit={limit:.2f}"], alter=alter)


def gyro_saturates_in_a_bare_field(rng: Rng) -> Hostile:
    """The gyroscope saturates where hardly anything else tells of the turn."""
    limit = float(rng.uniform(0.1, 0.5))
    alter = [rigs.field([]), rigs.turning(0.8, 1.5)]
    return _hostile("crowd", 4.0, faults=[f"gyro-limit={limit:.2f}"], alter=alter)


def imu_is_late(rng: Rng) -> Hostile:
    """The stamps of the IMU are late while the rig turns."""
    late = float(rng.uniform(0.005, 0.05))
    alter = [_anywhere(rng), rigs.turning(0.5, float(rng.uniform(1, 3)))]
    return _hostile(_place(rng), 4.0, faults=[f"imu-late={late:.4f}"], alter=alter)


def imu_of_another_time_base(rng: Rng) -> Hostile:
    """The stamps of the IMU have nothing to do with those of the lidar."""
    spoil = [raw.imu_since_boot, raw.imu_times(1.5), raw.imu_times(-0.4), raw.imu_times(3600.0)][int(rng.integers(4))]
    return _hostile(_place(rng), 4.0, alter=[_anywhere(rng), rigs.turning(0.5, 2.0)], spoil=[spoil])


def imu_scale_is_off(rng: Rng) -> Hostile:
    """Each axis of the IMU has a scale error."""
    scale = float(rng.uniform(0.02, 0.2))
    alter = [_anywhere(rng), rigs.turning(0.5, 2.0)]
    return _hostile(_place(rng), 4.0, faults=[f"imu-scale={scale:.3f}"], alter=alter)


def gyro_bias_is_large(rng: Rng) -> Hostile:
    """The gyroscope has a large bias."""
    bias = float(rng.uniform(0.02, 0.3))
    return _hostile(_place(rng), 4.0, faults=[f"gyro-bias={bias:.3f}"], alter=[_anywhere(rng)])


def imu_freezes(rng: Rng) -> Hostile:
    """The IMU repeats a value from some second on."""
    spoil = raw.imu_stuck(float(rng.uniform(0, 3)))
    return _hostile(_place(rng), 4.0, alter=[_anywhere(rng), rigs.turning(0.5, 2.0)], spoil=[spoil])


def imu_has_gaps(rng: Rng) -> Hostile:
    """Half of the samples of the IMU are missing, in gaps."""
    gap = float(rng.uniform(0.05, 1.0))
    alter = [_anywhere(rng), rigs.turning(0.5, 2.0)]
    return _hostile(_place(rng), 4.0, alter=alter, spoil=[raw.imu_gaps(gap)], drawn=f"gaps of {gap / 2:.2f} s")


def no_rig(rng: Rng) -> Hostile:
    """Nobody says how the IMU is mounted."""
    return _hostile(_place(rng), 4.0, faults=["no-rig", "imu-mount"], alter=[_anywhere(rng)])


def unkind(rng: Rng) -> Hostile:
    """All errors that every rig has, at once."""
    return _hostile(_place(rng), 4.5, faults=["unkind"], alter=[_anywhere(rng)], imu=_coin(rng))


def everything(rng: Rng) -> Hostile:
    """All errors that any rig has, at once."""
    faults = ["unkind", "gyro-limit=1", "acc-limit", "imu-degrees", "imu-axes", "vibration", "clock-offsets"]
    gap = float(rng.uniform(0.3, 1))
    return _hostile(_place(rng), 5.0, faults=[*faults, f"lidar-silence={gap:.2f}"], alter=[_anywhere(rng)])


def bushes(rng: Rng) -> Hostile:
    """A field of bushes with leaves of any depth."""
    depth, faults = float(rng.uniform(0.05, 0.3)), ["unkind"] if _coin(rng) else []
    alter = [_anywhere(rng)]
    drawn = f"leaves {depth:.2f} m deep"
    return _hostile("bushes", 4.5, faults=faults, alter=alter, imu=_coin(rng), leaf_depth=depth, drawn=drawn)


def park(rng: Rng) -> Hostile:
    """A park with all errors that every rig has."""
    depth = float(rng.uniform(0.05, 0.3))
    alter = [_anywhere(rng)]
    return _hostile("park", 4.5, faults=["unkind"], alter=alter, imu=_coin(rng), leaf_depth=depth)


def few_beams(rng: Rng) -> Hostile:
    """A lidar of 16 or 8 beams."""
    step = int(rng.choice([2, 4]))
    alter = [_anywhere(rng), rigs.few_beams(step)]
    return _hostile(_place(rng, "indoor", "outdoor", "park", "stairs", "bike"), 4.5, alter=alter, imu=_coin(rng),
                    drawn=f"{32 // step} beams")  # fmt: skip


def vibration(rng: Rng) -> Hostile:
    """Strong vibration at 15 Hz."""
    size = float(rng.uniform(0.3, 1.2))
    place = _place(rng, "indoor", "outdoor", "bike")
    return _hostile(place, 4.5, faults=[f"vibration={size:.2f}"], alter=[_anywhere(rng)], imu=_coin(rng))


def heel_strikes(rng: Rng) -> Hostile:
    """Hard steps, up to 20 Hz."""
    size = float(rng.uniform(5, 40))
    return _hostile(_place(rng), 4.5, faults=[f"heel-strikes={size:.0f}"], alter=[_anywhere(rng)], imu=_coin(rng))


def half_of_the_view_is_hidden(rng: Rng) -> Hostile:
    """Something on the rig hides half of the view, and stands still in its frame."""
    share, distance = float(rng.uniform(0.35, 0.75)), float(rng.uniform(0.55, 1.2))
    spoil = raw.occluded(share, distance, rng)
    drawn = f"{share:.0%} hidden at {distance:.2f} m"
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=drawn)


def window_is_dirty(rng: Rng) -> Hostile:
    """Most of the window is blind, in patches."""
    share = float(rng.uniform(0.5, 0.9))
    spoil = raw.dirty(share, rng)
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"{share:.0%} blind")


def rain(rng: Rng) -> Hostile:
    """A share of the pixels sees drops."""
    share = float(rng.uniform(0.1, 0.6))
    spoil = raw.rain(share, rng)
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"{share:.0%} drops")


def lift(rng: Rng) -> Hostile:
    """The rig stands in a closed cabin that begins to rise."""
    speed, spin_up = float(rng.uniform(0.6, 2.0)), float(rng.uniform(1.0, 2.0))
    alter = rigs.lift(speed, 1.5, spin_up)
    return _hostile("indoor", 5.5, alter=[alter], drawn=f"to {speed:.2f} m/s in {spin_up:.1f} s")


def train_passes(rng: Rng) -> Hostile:
    """A train passes a rig that stands on a platform."""
    speed, pillars = float(rng.uniform(1.5, 12)), int(rng.integers(0, 5))
    alter = rigs.train(speed, float(rng.uniform(1.2, 2.5)), pillars)
    return _hostile("indoor", 4.5, alter=[alter], imu=_coin(rng), drawn=f"{speed:.1f} m/s, {pillars} pillars")


def train_passes_somebody(rng: Rng) -> Hostile:
    """A train passes somebody who holds the rig on a platform, which may end over a void."""
    speed, pillars, side = float(rng.uniform(1.5, 12)), int(rng.integers(0, 5)), float(rng.uniform(1.2, 2.5))
    imu, ledge = _coin(rng), float(rng.choice([np.inf, rng.uniform(0.3, 2.0)]))
    alter = rigs.train(speed, side, pillars, held=True, ledge=ledge)
    return _hostile(
        "crowd", 4.5, alter=[alter], imu=imu, drawn=f"{speed:.1f} m/s, {pillars} pillars, ledge {ledge:.1f} m"
    )


def train_passes_among_people(rng: Rng) -> Hostile:
    """A slow train passes somebody who holds the rig; on the other side people walk as fast as the train."""
    speed, count, pillars = float(rng.uniform(0.8, 3)), int(rng.integers(8, 30)), int(rng.integers(0, 5))
    beside = list(zip(rng.uniform(-25, 10, count).tolist(), rng.uniform(1.0, 4.5, count).tolist(), strict=True))
    alter = rigs.train(speed, float(rng.uniform(1.2, 2.5)), pillars, held=True, beside=beside)
    return _hostile("crowd", 4.5, alter=[alter], imu=_coin(rng), drawn=f"{count} people at {speed:.1f} m/s")


def among_vans(rng: Rng) -> Hostile:
    """A drive in a street among vans, most of which have the rig's speed."""
    count, speed = int(rng.integers(3, 9)), float(rng.uniform(5, 20))
    faster = float(rng.choice([0.0, rng.uniform(-0.5, 0.5)]))
    houses = [(float(rng.uniform(8, 16)), float(rng.uniform(6, 12))) for _ in range(26)]
    drawn = f"{count} vans at {speed:.1f} m/s, the second {faster:+.2f} m/s"
    alter = rigs.vans(count, faster, houses)
    return _hostile("crowd", 4.0, alter=[alter], imu=_coin(rng), speed=speed, drawn=drawn)


def traffic_sets_off(rng: Rng) -> Hostile:
    """Everything around a rig that stands sets off."""
    speed, posts = float(rng.uniform(1, 4)), int(rng.integers(0, 5))
    alter = rigs.traffic(speed, 1.0, posts)
    return _hostile("indoor", 5.0, alter=[alter], imu=_coin(rng), drawn=f"to {speed:.1f} m/s, {posts} posts")


def people_pass(rng: Rng) -> Hostile:
    """Somebody who holds the rig stands in a bare corridor, while a stream of people passes."""
    half, count, pace = float(rng.uniform(1, 2.2)), int(rng.integers(4, 20)), float(rng.uniform(0.8, 2))
    lefts, ahead = rng.uniform(0.5, half, count) * rng.choice([-1, 1], count), rng.uniform(-12, 8, count)
    alter = rigs.people_pass(half, pace, lefts.tolist(), ahead.tolist())
    return _hostile("crowd", 4.5, alter=[alter], imu=_coin(rng), drawn=f"{count} people at {pace:.1f} m/s")


def turned_fast(rng: Rng) -> Hostile:
    """The rig is turned by up to 400 degrees a second."""
    speed, peak = 0.6, float(np.radians(rng.uniform(200, 400)))
    wavelength = float(rng.uniform(0.6, 1.5))
    amplitude = peak * wavelength / (2 * np.pi * speed)
    alter = [_anywhere(rng), rigs.turning(amplitude, wavelength)]
    drawn = f"up to {np.degrees(peak):.0f} deg/s"
    return _hostile(_place(rng), 4.0, alter=alter, imu=_coin(rng), speed=speed, drawn=drawn)


def goes_dark(rng: Rng) -> Hostile:
    """Hardly any returns for a while."""
    seconds, share = float(rng.uniform(0.5, 2.0)), float(rng.choice([0.0, 0.005, 0.02, 0.05]))
    spoil = raw.dark(1.5, seconds, share, rng)
    drawn = f"{share:.1%} of the returns for {seconds:.1f} s"
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=drawn)


def beams_reversed(rng: Rng) -> Hostile:
    """Beams are stored from below upwards."""
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[raw.reversed_beams])


def mirror_world(rng: Rng) -> Hostile:
    """Columns are stored in the wrong order."""
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng), rigs.turning(0.5, 3.0)], spoil=[raw.mirrored])


def lidar_freezes(rng: Rng) -> Hostile:
    """The same sweep arrives again and again for a while."""
    seconds = float(rng.uniform(0.3, 2.5))
    spoil = raw.frozen(1.5, seconds)
    return _hostile(_place(rng), 4.8, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"{seconds:.1f} s")


def lidar_stutters(rng: Rng) -> Hostile:
    """Some sweeps are the one before again."""
    share = float(rng.uniform(0.1, 0.5))
    spoil = raw.stuttering(share, rng)
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"{share:.0%}")


def sweeps_are_lost(rng: Rng) -> Hostile:
    """Many sweeps are lost, in bursts."""
    share = float(rng.uniform(0.3, 0.6))
    spoil = raw.lost(share, rng)
    return _hostile(_place(rng), 4.5, alter=[_anywhere(rng)], spoil=[spoil], imu=_coin(rng), drawn=f"{share:.0%}")


def flat_field(rng: Rng) -> Hostile:
    """Flat ground and nothing on it."""
    return _hostile("crowd", 4.0, alter=[rigs.field([])], imu=_coin(rng), speed=float(rng.uniform(0.5, 1.5)))


def stairs(rng: Rng) -> Hostile:
    """A narrow stairwell with all errors that every rig has."""
    return _hostile("stairs", 4.5, faults=["unkind"] if _coin(rng) else [], alter=[_anywhere(rng)], imu=_coin(rng))


def beams_are_off(rng: Rng) -> Hostile:
    """The beams are not where the sidecar says."""
    size = float(rng.uniform(0.1, 0.6))
    return _hostile(_place(rng), 4.5, faults=[f"beam-angles={size:.2f}"], alter=[_anywhere(rng)], imu=_coin(rng))


def tunnel_of_pilasters(rng: Rng) -> Hostile:
    """A drive through a tunnel with equal pilasters, with beams that are not where the sidecar says."""
    speed, period = float(rng.uniform(2, 16)), float(rng.uniform(1, 8))
    alter = rigs.pilasters(period, float(rng.uniform(2.3, 4.8)))
    faults = [f"beam-angles={rng.uniform(0.03, 0.1):.3f}"]
    drawn = f"every {period:.2f} m, {speed:.2f} m/s"
    return _hostile("crowd", 4.0, faults=faults, alter=[alter], imu=_coin(rng), speed=speed, drawn=drawn)


def pilasters_a_sweep(rng: Rng) -> Hostile:
    """A drive through a tunnel so fast that each sweep sees the next of its equal pilasters where the last one was."""
    period = float(rng.uniform(1, 3.2))
    speed = 10 * period + float(rng.uniform(-0.3, 0.3))
    alter = rigs.pilasters(period, float(rng.uniform(2.3, 4.8)))
    faults = [f"beam-angles={rng.uniform(0.03, 0.1):.3f}"]
    drawn = f"every {period:.2f} m, {speed:.2f} m/s"
    return _hostile("crowd", 4.0, faults=faults, alter=[alter], imu=_coin(rng), speed=speed, drawn=drawn)


def garage_of_pillars(rng: Rng) -> Hostile:
    """A garage with equal pillars, with beams that are not where the sidecar says."""
    period, radius, drives = float(rng.uniform(2.5, 6)), float(rng.uniform(0.15, 0.4)), _coin(rng)
    speed = float(rng.uniform(2, 12) if drives else rng.uniform(1, 1.6))
    alter = rigs.garage(period, radius, drives)
    faults = [f"beam-angles={rng.uniform(0.03, 0.1):.3f}"]
    drawn = f"every {period:.2f} m, {speed:.1f} m/s"
    return _hostile("crowd", 4.5, faults=faults, alter=[alter], imu=_coin(rng), speed=speed, drawn=drawn)


def wood(rng: Rng) -> Hostile:
    """A wood without bushes: nothing but trunks over flat ground."""
    spacing, drives, places = float(rng.uniform(3, 6)), _coin(rng), rng.uniform(0, 1, (20, 20, 3))
    speed = float(rng.uniform(2, 5) if drives else rng.uniform(1, 1.6))
    drawn = f"every {spacing:.1f} m, {speed:.1f} m/s"
    alter = [rigs.wood(spacing, places, drives)]
    return _hostile("crowd", 4.5, alter=alter, imu=_coin(rng), speed=speed, drawn=drawn)


KINDS: dict[str, Callable[[Rng], Hostile]] = {
    kind.__name__: kind
    for kind in (
        silent_standing, silent_walking, silent_driving, silent_among_bushes, silent_among_pillars, silent_twice,
        companions_in_a_corridor, companions_in_a_field, crowd, tunnel, into_a_tunnel, lidar_restarts,
        host_clock_is_set, sweeps_arrive_late, gyro_in_degrees, imu_axes_exchanged, imu_axes_turned_round,
        imu_mounted_otherwise, gyro_saturates, gyro_saturates_in_a_bare_field, imu_is_late, imu_of_another_time_base,
        imu_scale_is_off, gyro_bias_is_large, imu_freezes, imu_has_gaps, no_rig, unkind, everything, bushes, park,
        few_beams, vibration, heel_strikes, half_of_the_view_is_hidden, window_is_dirty, rain, lift, train_passes,
        train_passes_somebody, traffic_sets_off, among_vans, people_pass, turned_fast, goes_dark, beams_reversed,
        train_passes_among_people,
        mirror_world, lidar_freezes, lidar_stutters, sweeps_are_lost, flat_field, stairs, beams_are_off,
        tunnel_of_pilasters, pilasters_a_sweep, garage_of_pillars, wood,
    )
}  # fmt: skip
