"""What is known about points on planes before their equations are made, and what the equations say about them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection

#: Distance of a point from its plane, in standard deviations, beyond which it counts less. Tuned: by hand.
SCALE = 2.0
#: Largest distance of a point of a sweep from a thick plane, in thicknesses; see `PointWeights`. Those that are
#: farther, in standard deviations, say nothing about the noise. Tuned: by hand.
THICK = 3.0
#: Largest distance of a point from its plane, metres, where the trajectory is nearly right; one that is farther is as
#: bad as a point without a plane. Tuned: by hand.
GATE = 0.05


class PointWeights(NamedTuple):
    """Which points of a sweep are used, and how much they count."""

    gate: float  #: largest distance of a point from its plane, metres.
    noise: float  #: standard deviation of a range, metres.
    scale: float  #: of the robust weight of Geman and McClure, in standard deviations; see `SCALE`.
    stride: int  #: one point in so many is used.
    thick: float  #: largest distance of a point from a thick plane, in thicknesses, if that is more than the gate.
    extent: float  #: smallest extent of a plane along its shorter side, relative to its voxel.
    #: f8 (level,), how far rays get into the thick planes of each size of voxel, see `Nuisance`; f8 (0,): not at all,
    #: and there are no equations of it.
    depth: np.ndarray
    #: correlations of the errors of points on one plane, and on different planes of one part of a surface.
    common: tuple[float, float] = (0.0, 0.0)
    #: 1: noise of points has tilted the planes, which therefore pull points along them towards those that drew them.
    #: This pull is taken away from right sides and from the squares of distances; 0: it is not.
    tilted: float = 0.0
    #: standard deviation of the direction of a beam, rad, which tilts planes as well. What tilted planes seem to say
    #: about a motion along them is taken away from the matrices (both: errors in variables; W. A. Fuller, "Measurement
    #: Error Models", 1987); 0: it is not.
    beam: float = 0.0
    spacing: float = 1.0  #: of neighbouring beams, rad, which says how many have drawn a plane.


#: Unknowns that all points of a recording have in common; see `Nuisance`. From the last one on, one for each size of
#: voxel. Layout.
ELEVATION, DEPTH = 0, 1


class PointErrors(NamedTuple):
    """What is known about the errors of points, from the pass before."""

    nuisance: np.ndarray  #: f8 (1 + level,), the unknowns of `Nuisance`; f8 (0,) = they are 0, and no unknowns.
    common: tuple[float, float] = (0.0, 0.0)  #: see `PointWeights`.
    noise: float = np.inf  #: standard deviation of a range, m; infinite where nothing is known.
    #: correlations of each further lidar, and the variance of its distances relative to that of the main one.
    others: tuple[tuple[tuple[float, float], float], ...] = ()

    def of_other(self, number: int) -> PointErrors:
        """Those of a further lidar; of one that is not known yet they are as those of the main one."""
        return self._replace(common=self.others[number][0] if self.others else self.common, noise=np.inf)

    def weights(self, options: OdometrySection, depth: np.ndarray) -> PointWeights:
        """How much points count whose trajectory is nearly right.

        Structure makes planes thicker, and never thinner: so the noise of ranges is at most what the recording shows.
        It is no smaller than the rounding of points.
        """
        noise = max(min(options.range_noise, self.noise), float(np.spacing(np.float32(options.max_range))))
        return PointWeights(GATE, noise, SCALE, 1, THICK, 0.0, depth, self.common, 1.0)

    @property
    def depth(self) -> np.ndarray:
        """How far rays get into thick planes, f8 (level,)."""
        return self.nuisance[DEPTH:]

    def removed(self, sweep: Sweep) -> Sweep:
        """The sweep with its points where they are if its beams point where they seem to."""
        return (
            sweep.raised(float(self.nuisance[ELEVATION])) if len(self.nuisance) and self.nuisance[ELEVATION] else sweep
        )


#: Before anything is known. Layout.
NO_ERRORS = PointErrors(np.zeros(0))


class Nuisance(NamedTuple):
    """Normal equations of the nuisance parameters, which all points of a recording have in common.

    - By how much all beams point higher than `lidar.json` says, rad.
    - How far rays get into thick planes, in thicknesses. A ray meets leaves behind the face that it comes from. Those
      of the other side of a bush are seen from there. So a plane of leaves lies deeper along each ray, by a multiple
      of its thickness, and what passes by seems to be longer than it is. The thickness that noise of ranges gives to
      every plane does not count. The multiple is another one for each size of voxel, whose faces cut deep foliage off.

    If all beams are raised, the planes of the map rise as well, as their points do.
    """

    cross: np.ndarray  #: f8 (K, C, 6), of the unknowns with each pose.
    information: np.ndarray  #: f8 (K, K), of the unknowns alone.
    right: np.ndarray  #: f8 (K,), of the unknowns alone.
    #: f8 (180,), the part of the elevation's right side that is from the beams of each degree of elevation. Each beam
    #: points elsewhere than it should by an amount of its own, in all sweeps.
    of_beams: np.ndarray

    @classmethod
    def nothing(cls, unknowns: int, poses: int) -> Nuisance:
        """The equations before anything is added."""
        cross, information = np.zeros((unknowns, poses, 6)), np.zeros((unknowns, unknowns))
        return cls(cross, information, np.zeros(unknowns), np.zeros(180))


class Statistics(NamedTuple):
    """How well points lie on a map."""

    points: float  #: number of points that were used.
    inliers: float  #: number of those that lie on a plane.
    squared_distances: float  #: sum of the squared distances of the inliers from their planes, m2.
    cut_off: float  #: the same sum, with distances that are cut off at the gate: thick planes have inliers beyond it.
    normalised: float  #: sum of the squared distances, each divided by its expected variance and cut off at 9.
    #: the same sum, each divided by this variance once more; and the sum of the inverse squares of the variances. Their
    #: ratio is the variance of the points on thin planes: so much each point says about the variance of a range (Fisher
    #: information of a variance component).
    of_noise: tuple[float, float] = (0.0, 0.0)
    balanced: float = 0.0  #: as `cut_off`, if each part of a surface had as many points as any other one.
    #: number of planes on which two inliers or more lie, and sum over them of the mean product of the distances of two
    #: different points, divided by their expected variances; the same of the parts of surfaces that have points on two
    #: planes or more, of points on different planes. Products of independent errors are 0 on average.
    pairs: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
