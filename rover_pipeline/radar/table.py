"""Declarations of the virtual sensors that are made from the radar.

They are written for a radar that records samples. Those of recordings of a radar that sends points, with their Doppler
velocity, read the points instead, and say what they cannot make.
"""

from __future__ import annotations

from functools import partial

from rover_pipeline.engine.step import SEVERAL, SMALL, Output, Rate, Run, Shown, Step, When
from rover_pipeline.kinematics.options import ODOMETRY
from rover_pipeline.radar.options import (
    PointsOptions,
    RadarOdometryOptions,
    RangeAzimuthOptions,
    RangeDopplerOptions,
    SpectrumOptions,
    VelocityOptions,
)

#: What is declared otherwise where a recording's radar is points.
_of_points = partial(When, has=("radar/xyz",), lacks=("radar/iq",))
_f4 = partial(Output, type="f4")

#: Odometry helps to find the ambiguity numbers of the Doppler. A radar that sends points gives them, strongest first.
_OTHER_POINTS = (
    When(
        {
            "function": "rover_pipeline.radar.guided:guided_points",
            "inputs": {"ts": "radar/ts"},
            "whole": {"odometry": tuple(f"{name}?" for name in ODOMETRY)},
        },
        options={"odometry": True},
    ),
    _of_points(
        {
            "function": "rover_pipeline.radar.steps:sent_points",
            "inputs": {"iq": None, "ts": None, **{name: f"radar/{name}" for name in ("xyz", "doppler", "count")}},
            "whole": {"odometry": None},
            "files": {"sidecar": None, "config": None},
            "outputs": {"snr": _f4("Strength in the unit of the radar. [point], falling.")},
            "run": {"prepare": None, "inspect": None, "shares": ""},
        }
    ),
    When({"inputs": {"strength": "radar/intensity"}}, has=("radar/xyz", "radar/intensity"), lacks=("radar/iq",)),
    When(
        {"inputs": {"strength": "radar/snr"}, "outputs": {"snr": _f4("Signal over noise, dB. [point], falling.")}},
        has=("radar/xyz", "radar/snr"),
        lacks=("radar/iq",),
    ),
)

_FILES = {"sidecar": "radar/radar.json?", "config": "config.yaml?"}
_NOT_OF_POINTS = _of_points({"unfit": "has a radar of points and no samples (radar/iq)"})
#: Declares what is made from the samples.
_of_samples = partial(Step, inputs={"iq": "radar/iq"}, files=_FILES, alternatives=(_NOT_OF_POINTS,))
#: Products of one pass over `radar/iq` share its decoding and its transform.
_IN_PASS = partial(Run, prepare="rover_pipeline.radar.prepare:prepare", shares="radar")
#: How spectra of the samples are made.
_SPECTRUM = partial(_IN_PASS, inspect="rover_pipeline.radar.prepare:inspect_spectra", sidecars=("axes.json",))

STEPS = (
    _of_samples(
        version=9,
        sensor="_radar_range_doppler",
        function="rover_pipeline.radar.steps:range_doppler",
        sections=("radar.range_doppler",),
        options=RangeDopplerOptions,
        outputs={
            "power": _f4(
                "Range-Doppler power, mean over virtual antennas, dB re 1 squared ADC count. [doppler, range]; "
                "Doppler bin n/2 is zero velocity, larger recede."
            )
        },
        run=_SPECTRUM(cost=Rate(("radar",), 3, 0.1)),
        shown=Shown(default=True, summary="Range-Doppler power, dB re one squared ADC count."),
    ),
    _of_samples(
        version=5,
        sensor="_radar_micro_doppler",
        function="rover_pipeline.radar.steps:micro_doppler",
        sections=("radar.range_doppler",),
        options=RangeDopplerOptions,
        outputs={
            "power": _f4(
                "Range-Doppler power summed over distances, dB re 1 squared ADC count. [doppler]; Doppler bin n/2 is "
                "zero velocity, larger recede."
            ),
            "range": _f4("Distance with most of this power, m; NaN where it is not known. [doppler]"),
        },
        run=_SPECTRUM(cost=Rate(("radar",), 3, 0.01)),
        shown=Shown(
            summary="What moves at each velocity, over time: the micro-Doppler signature of people and machines."
        ),
    ),
    _of_samples(
        version=9,
        sensor="_radar_range_azimuth",
        function="rover_pipeline.radar.steps:range_azimuth",
        sections=("radar.range_azimuth",),
        options=RangeAzimuthOptions,
        outputs={
            "power": _f4(
                "Power summed over Doppler, averaged over elevation, dB re 1 squared ADC count. [azimuth, range]; "
                "azimuth bin k is at sine (k - n/2) / (n/2), to the right."
            )
        },
        run=_SPECTRUM(cost=Rate(("radar",), 5, 0.1)),
        shown=Shown(
            default=True,
            summary="Power by direction, in equal steps of the sine that grows to the right, and distance.",
        ),
    ),
    _of_samples(
        version=9,
        sensor="_radar_spectrum",
        function="rover_pipeline.radar.steps:spectrum",
        sections=("radar.spectrum",),
        options=SpectrumOptions,
        outputs={
            "spectrum": Output(
                "Amplitude in ADC counts, or dB re 1 ADC count when so configured. [doppler, elevation, azimuth, "
                "range]; zero velocity, level and straight ahead at bins n/2; larger recede, are up and to the right. "
                "axes.json has the angle of each bin.",
                type="f2",
                unit="ADC counts",
            )
        },
        run=_SPECTRUM(cost=Rate(("radar",), 8, 0.7)),
        shown=Shown(summary="Magnitude of the four-dimensional spectrum, ADC counts."),
    ),
    _of_samples(
        sensor="_radar_points",
        function="rover_pipeline.radar.steps:points",
        version=17,
        sections=("radar.points", "rig"),
        uses={"rig": ("name", "radar")},
        options=PointsOptions,
        inputs={"iq": "radar/iq", "whole": "radar/valid"},
        files={"sidecar": "radar/radar.json", "config": "config.yaml?"},
        outputs={
            "xyz": _f4("Points in the radar frame, front-left-up, m; NaN past `count`. [point, xyz]"),
            "doppler": _f4("Radial velocity, m/s; positive recedes. [point]"),
            "snr": _f4("Power over the noise around, dB. [point], falling."),
            "count": Output("Number of points.", type="u2"),
            "folds": Output(
                "Doppler ambiguity number: spans, twice the largest Doppler each, that were added to the measured one. "
                "[point]",
                type="i1",
            ),
            "certain": Output(
                "1 = the ambiguity number is certain, and with it doppler and direction, the direction is not at an "
                "edge of the search, and `artefact` is 0; 0 past `count`. [point]",
                type="u1",
            ),
            "deviation": _f4(
                "Standard deviations of the sines of azimuth and elevation, from the point's power over the noise, its "
                "coherence and that of the array; NaN where the array does not measure them. [point, azimuth and "
                "elevation]"
            ),
            "spread": _f4(
                "Standard deviations of the sines over the targets in the point's cell. [point, azimuth and elevation]"
            ),
            "artefact": Output("1 = image by unequal I and Q, 2 = wrapped coupling, 0 = none seen. [point]", type="u1"),
            "excised": _f4("Share of the samples that `radar.interference` replaced, 0 to 1."),
        },
        alternatives=_OTHER_POINTS,
        run=_IN_PASS(inspect="rover_pipeline.radar.prepare:check_order", cost=Rate(("radar",), 14, 0.01)),
        shown=Shown(
            default=True, summary="Targets in the radar frame, front-left-up, strongest first; NaN past `count`."
        ),
    ),
    Step(
        sensor="_radar_velocity",
        function="rover_pipeline.radar.velocity:velocity",
        version=13,
        sections=("radar.velocity", "radar.points.max_folds"),
        options=VelocityOptions,
        inputs={name: f"_radar_points/{name}" for name in ("xyz", "doppler", "count", "certain", "deviation")},
        files={"sidecar": "radar/radar.json", "config": "config.yaml?"},
        outputs={
            "vel": _f4("The radar's own velocity over ground in its front-left-up frame, m/s. [xyz]"),
            "cov": _f4("Covariance of vel, m2/s2. [xyz, xyz]"),
            "inliers": Output("Points at rest that it was estimated from.", type="u2"),
        },
        # It needs to know how large Doppler bins are: of points, by what their import writes beside the channels.
        alternatives=(_of_points({"files": {"sidecar": "radar/points.json", "config": None}}),),
        run=Run(threads=1, brief=True, cost=SMALL),
        shown=Shown(default=True, summary="The radar's own velocity over ground, m/s, front-left-up."),
    ),
    _of_samples(
        sensor="_radar_quality",
        function="rover_pipeline.radar.steps:quality",
        version=9,
        sections=("radar.points", "rig"),
        uses={"rig": ("name", "radar")},
        options=PointsOptions,
        outputs={
            "clipped": _f4("Share of the I and Q values that are at the rails of the converter, 0 to 1."),
            "interfered": _f4(
                "Share of the chirps with interference of another radar, 0 to 1; NaN where there are too few chirps."
            ),
            "excised": _f4("Share of the samples with interference, which `radar.interference` replaces."),
            "coherence": _f4(
                "Share of the power of strong targets that a plane wave at the array explains, 0 to 1; NaN where there "
                "are too few."
            ),
            "antenna_power": _f4("Power of each virtual antenna over that of the median one, dB. [tx, rx]"),
        },
        run=_IN_PASS(conclude="rover_pipeline.radar.health:conclude", cost=Rate(("radar",), 33, 0.01)),
        shown=Shown(
            summary="How far a frame can be trusted: clipped samples, interference, the array's coherence, its "
            "antennas."
        ),
    ),
    Step(
        sensor="_radar_odom",
        function="rover_pipeline.radar.inertial_odometry:radar_odom",
        version=12,
        sections=(
            "radar_odometry",
            "rig",
            "sync.times",
            *(f"radar.velocity.{name}" for name in ("least_error", "max_share", "vertical", "pitch")),
        ),
        uses={"rig": ("name", "radar", "imu")},
        options=RadarOdometryOptions,
        inputs={"vel": "_radar_velocity/vel", "vel_cov": "_radar_velocity/cov"},
        files={"sidecar": "radar/radar.json?", "radar": "radar/meta.json?", "config": "config.yaml?"},
        whole={
            "imu_ts": "imu/ts",
            "imu_acc": "imu/acc",
            "imu_avel": "_imu_filtered/avel",
            "imu_valid": "_imu_filtered/valid",
        },
        outputs={
            "pos": Output(
                "Position of the radar at ts, m. [xyz]; the world is level, with its origin at the radar's first "
                "frame and the heading of the rig there.",
                type="f8",
            ),
            "rot": Output("World-from-radar rotation. [world, sensor]", type="f8"),
            "vel": Output("Velocity in the world, m/s. [xyz]", type="f8"),
            "acc": Output("Acceleration in the world, without gravity, m/s2. [xyz]", type="f8"),
            "avel": Output("Angular velocity in the radar frame, rad/s. [xyz]", type="f8"),
            "inliers": _f4("How much the radar's velocity of the frame counts, 0 (not at all) to 1."),
            "cov": _f4(
                "Covariance of pos and rot, of a displacement and then a rotation vector, both in the radar frame, m "
                "and rad. [xyz and rotation, xyz and rotation]"
            ),
        },
        alternatives=(
            When(
                {
                    "outputs": {"vel_cov": _f4("Covariance of the velocity in the radar frame, m2/s2. [xyz, xyz]")},
                    "constants": {"several": True},
                },
                has=(SEVERAL,),
            ),
        ),
        run=Run(recording=True, beside=("radar",), threads=1, cost=SMALL),
        shown=Shown(
            summary="The radar's trajectory from its velocities and an IMU, in a level world, for smoke, dust, tunnels "
            "and rigs without a lidar."
        ),
    ),
)
