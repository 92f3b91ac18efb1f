"""What a recording shows of a sensor's mount, how sure it is, and whether a declared mount contradicts it.

An error of a mount has seven components: a rotation vector r, rad, and a translation, m, both in the lidar frame, and
a time, s. The true mount is exp(r) R, the translation plus its error, and the time offset plus its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics.linear import inv, matmul, solve

#: Components of an error, and the factor to the unit that people read. Layout.
COMPONENTS = ("roll", "pitch", "yaw", "x", "y", "z", "time")
UNITS = (("degrees", 180 / np.pi),) * 3 + (("m", 1.0),) * 3 + (("ms", 1e3),)
#: Standard deviations of a mount that somebody gave: 5 degrees, 20 cm, 50 ms. Tuned: by hand.
PRIOR_SIGMA = np.array([np.radians(5.0)] * 3 + [0.2] * 3 + [0.05])
#: Share of true mounts that are called wrong, of one sensor of one recording. Tuned: by hand.
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class MountEstimate:
    """A mount as recordings show it.

    Attributes:
        mount: the estimate: the declared mount, from which it starts, where recordings show nothing.
        covariance: f8 (7, 7), of its error as above, that of the prior included.
        prior: f8 (7, 7), covariance of the mount from which it starts.
        remarks: sentences for people: what was not observed, and what motion would show it.
    """

    mount: Mount
    covariance: np.ndarray
    prior: np.ndarray
    remarks: tuple[str, ...] = ()

    @property
    def sigma(self) -> np.ndarray:
        """Standard deviations of the components, f8 (7,), rad, m, s."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def observed(self) -> np.ndarray:
        """Whether recordings show a component: more than half of the prior's deviation is gone, bool (7,)."""
        return np.asarray(4 * np.diag(self.covariance) < np.diag(self.prior))


class Deviation(NamedTuple):
    """How far a declared mount is from what recordings show.

    Attributes:
        error: f8 (7,), the error of the declared mount: what is to be added to it; sigma: f8 (7,), of it.
        probability: that a true mount would be as far away as this by noise.
        component: the one that is off most in standard deviations, of those that are observed.
    """

    error: np.ndarray
    sigma: np.ndarray
    probability: float
    component: int

    @property
    def is_wrong(self) -> bool:
        """Whether the declared mount contradicts what recordings show."""
        return self.probability < FALSE_ALARM

    def __str__(self) -> str:
        unit, factor = UNITS[self.component]
        off, sigma = factor * self.error[self.component], factor * self.sigma[self.component]
        return f"{COMPONENTS[self.component]} {-off:+.3g} \u00b1 {sigma:.2g} {unit}"


def prior_covariance(sigma: np.ndarray = PRIOR_SIGMA) -> np.ndarray:
    """Covariance of a mount that is not known better, f8 (7, 7), of deviations f8 (7,)."""
    return np.diag(np.asarray(sigma, "f8") ** 2)


def difference(mount: Mount, other: Mount) -> np.ndarray:
    """The error of `mount` if `other` is true, f8 (7,)."""
    turn = log(matmul(other.rotation, mount.rotation.T)[None])[0]
    return np.concatenate([turn, other.translation - mount.translation, [other.time_offset - mount.time_offset]])


def changed(mount: Mount, error: np.ndarray) -> Mount:
    """The true mount of one that has an error, f8 (7,)."""
    rotation = matmul(exp(error[None, :3])[0], mount.rotation)
    return Mount(mount.translation + error[3:6], rotation, mount.source, mount.time_offset + float(error[6]))


def combine(start: Mount, prior: np.ndarray, estimates: list[MountEstimate]) -> MountEstimate:
    """One estimate of several that started from the same mount and prior, f8 (7, 7), and saw different data."""
    before = inv(prior)
    shown = [inv(each.covariance) for each in estimates]
    information = before + sum(each - before for each in shown)
    gradient = sum((matmul(each, difference(start, its.mount)) for each, its in zip(shown, estimates, strict=True)), 0)
    remarks = tuple(dict.fromkeys(text for each in estimates for text in each.remarks))
    return MountEstimate(changed(start, solve(information, gradient)), inv(information), prior, remarks)


def compare(declared: Mount, estimate: MountEstimate) -> Deviation:
    """The declared mount beside what recordings show, by a chi-square test of all components.

    A component that is not observed stays at the prior's centre, which is the declared mount, and adds nothing.
    """
    error = difference(declared, estimate.mount)
    square = float(matmul(error, solve(estimate.covariance, error)))
    ratio = np.where(estimate.observed, np.abs(error) / estimate.sigma, -1.0)
    return Deviation(error, estimate.sigma, float(chdtrc(len(error), square)), int(ratio.argmax()))
