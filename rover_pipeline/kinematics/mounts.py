"""What recordings show of a sensor's mount, how sure that is, and whether a declared mount contradicts it.

An error of a mount has seven components: a rotation vector r, rad, and a translation, m, both in the lidar frame, and
a time, s. The true mount is exp(r) R, the translation plus its error, and the time offset plus its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve
from rover_pipeline.numerics.robust import FALSE_ALARM

#: Components of an error, units that people read, and the factors to them. Layout.
COMPONENTS = ("roll", "pitch", "yaw", "x", "y", "z", "time")
UNITS = (("degrees", 180 / np.pi),) * 3 + (("m", 1.0),) * 3 + (("ms", 1e3),)
#: Standard deviations of a mount that somebody gave, of one that nobody gave, and of a good one that is tested: rad, m,
#: s. Noise: tape measures and CAD, clocks of hosts (issue 36: starts of 5 degrees, 20 cm, 50 ms).
PRIOR_SIGMA = np.array([np.radians(5.0)] * 3 + [0.2] * 3 + [0.05])
UNKNOWN_SIGMA = np.array([3.0] * 3 + [1.0] * 3 + [0.05])
TOLERANCE = np.array([np.radians(0.1)] * 3 + [0.005] * 3 + [0.001])
#: What motion shows which components. Layout.
_MOTIONS = (
    ((0, 1, 2), "its rotation about {}", "move forward and sideways, and tilt the rig, 20 s"),
    ((3, 4), "its translation along {}", "turn left and right, 20 s"),
    ((5,), "its translation along {}", "tilt the rig forward and to the side, 20 s"),
    ((6,), "its time offset", "start, stop and turn, 20 s"),
)


@dataclass(frozen=True)
class MountEstimate:
    """A mount as recordings show it."""

    mount: Mount  #: the estimate: the declared mount, from which it starts, where recordings show nothing.
    covariance: np.ndarray  #: f8 (7, 7), of its error as above, that of the prior included.
    prior: np.ndarray  #: f8 (7, 7), covariance of the mount from which it starts.
    remarks: tuple[str, ...] = ()  #: sentences for people.
    adopted: bool = True  #: whether it is better than the declared mount where it was not fitted.
    #: f8 (7, 7), the part of the covariance that all recordings of the sensor share, so that more of them do not make
    #: it smaller.
    shared: np.ndarray = field(default_factory=lambda: np.zeros((7, 7)))

    @property
    def sigma(self) -> np.ndarray:
        """Standard deviations of the components, f8 (7,), rad, m, s."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def observed(self) -> np.ndarray:
        """Whether recordings show a component: more than half of the prior's deviation is gone, bool (7,)."""
        return np.asarray(4 * np.diag(self.covariance) < np.diag(self.prior))

    def tested(self) -> str:
        """The smallest errors of a declared mount that `compare` finds one at a time, and what it does not test."""
        sizes = np.sqrt(chdtri(1, FALSE_ALARM / 2 / max(1, self.observed.sum())) * (self.sigma**2 + TOLERANCE**2))
        parts = [f"{COMPONENTS[i]} {UNITS[i][1] * sizes[i]:.2g} {UNITS[i][0]}" for i in np.flatnonzero(self.observed)]
        missing = [COMPONENTS[i] for i in np.flatnonzero(~self.observed)]
        found = [f"errors from {', '.join(parts)} would be found"] if parts else []
        return "; ".join(found + ([f"not tested: {', '.join(missing)}"] if missing else []))

    def proposals(self) -> list[str]:
        """What recordings do not show, and what motion would show it, in sentences."""
        found = []
        for components, what, motion in _MOTIONS:
            if missing := [each for each in components if not self.observed[each]]:
                axes = " and ".join("xyz"[each % 3] for each in missing)
                found.append(f"{what.format(axes)} is not observed and stays as declared; {motion}")
        return found


class Deviation(NamedTuple):
    """How far a declared mount is from what recordings show."""

    error: np.ndarray  #: f8 (7,), the error of the declared mount: what is to be added to it.
    sigma: np.ndarray  #: f8 (7,), of it.
    probability: float  #: that a true mount would be as far away as this by noise.
    component: int  #: the one that is off most in standard deviations, of those that are observed.

    @property
    def is_wrong(self) -> bool:
        """Whether the declared mount contradicts what recordings show."""
        return self.probability < FALSE_ALARM

    def __str__(self) -> str:
        """The components that are off by more than noise explains, such as `yaw +2.1 ± 0.05 degrees`: what recordings
        show less what was declared."""
        ratio = np.abs(self.error) / self.sigma
        chosen = [i for i in np.argsort(-ratio, kind="stable") if ratio[i] > max(3.0, ratio.max() / 4)]
        return described(self.error, self.sigma, chosen or [self.component])


def described(error: np.ndarray, sigma: np.ndarray, components: Iterable[int]) -> str:
    """Some components of an error with their deviations, for people."""
    named = ((COMPONENTS[i], error[i], sigma[i], *UNITS[i]) for i in components)
    return ", ".join(f"{name} {k * each:+.3g} \u00b1 {k * its:.2g} {unit}" for name, each, its, unit, k in named)


def prior_covariance(mount: Mount) -> np.ndarray:
    """Covariance of a declared mount, f8 (7, 7)."""
    return np.diag((PRIOR_SIGMA if mount.known else UNKNOWN_SIGMA) ** 2)


def unknown(start: Mount, *remarks: str) -> MountEstimate:
    """What is known of a mount of which recordings show nothing."""
    prior = prior_covariance(start)
    return MountEstimate(start, prior, prior, remarks, adopted=False)


def difference(mount: Mount, other: Mount) -> np.ndarray:
    """The error of `mount` if `other` is true, f8 (7,)."""
    turn = log(matmul(other.rotation, mount.rotation.T)[None])[0]
    return np.concatenate([turn, other.translation - mount.translation, [other.time_offset - mount.time_offset]])


def changed(mount: Mount, error: np.ndarray) -> Mount:
    """The true mount of one that has an error, f8 (7,)."""
    rotation = matmul(exp(error[None, :3])[0], mount.rotation)
    return Mount(mount.translation + error[3:6], rotation, mount.source, mount.time_offset + float(error[6]))


def with_prior(start: Mount, prior: np.ndarray, information: np.ndarray, gradient: np.ndarray) -> MountEstimate:
    """The estimate of data with an information, f8 (7, 7), and its product with the error of the start, f8 (7,)."""
    values, axes = eigh(information)
    whole = matmul(axes * np.maximum(values, 0.0), axes.T) + inv(prior)
    return MountEstimate(changed(start, solve(whole, gradient)), inv(whole), prior)


def combine(start: Mount, estimates: Sequence[MountEstimate]) -> MountEstimate:
    """One estimate of several that started from the same mount and prior, and saw different recordings."""
    if len(estimates) == 1:
        return estimates[0]
    prior = estimates[0].prior
    before = inv(prior)
    shown = [inv(each.covariance - each.shared) for each in estimates]
    shared = np.mean([each.shared for each in estimates], axis=0)
    information = np.sum([each - before for each in shown], axis=0)
    terms = [matmul(each, difference(start, its.mount)) for each, its in zip(shown, estimates, strict=True)]
    found = with_prior(start, prior, information, np.sum(terms, axis=0))
    remarks = tuple(dict.fromkeys(text for each in estimates for text in each.remarks))
    adopted = any(each.adopted for each in estimates)
    return MountEstimate(found.mount, found.covariance + shared, prior, remarks, adopted, shared)


def compare(declared: Mount, estimate: MountEstimate) -> Deviation:
    """The declared mount beside what recordings show, by chi-square tests of each observed component, and of all.

    What is not observed may be anything that its prior allows, also where observed components depend on it. No rig
    keeps what a drawing says to the last digit.
    """
    covariance = estimate.covariance + np.diag(TOLERANCE**2)
    return _tested(difference(declared, estimate.mount), covariance, estimate.observed)


def moved(before: MountEstimate, after: MountEstimate) -> Deviation:
    """How far a sensor was moved between two recordings, by the tests of `compare`."""
    covariance = before.covariance - before.shared + after.covariance - after.shared + 2 * np.diag(TOLERANCE**2)
    return _tested(difference(before.mount, after.mount), covariance, before.observed & after.observed)


def _tested(error: np.ndarray, covariance: np.ndarray, observed: np.ndarray) -> Deviation:
    sigma, seen = np.sqrt(np.diag(covariance)), error[observed]
    square = float(matmul(seen, solve(covariance[np.ix_(observed, observed)], seen))) if len(seen) else 0.0
    ratio = np.where(observed, np.abs(error) / sigma, 0.0)
    # Of several tests the smallest probability counts, times their number (Bonferroni).
    count = max(1, len(seen))
    alone, together = count * float(chdtrc(1, ratio.max() ** 2)), float(chdtrc(count, square))
    return Deviation(error, sigma, min(1.0, 2 * min(alone, together)), int(ratio.argmax()))


def agree(first: MountEstimate, second: MountEstimate) -> float:
    """The squared difference of two estimates from one start, over its covariance: that of seven numbers."""
    error, covariance = difference(first.mount, second.mount), first.covariance + second.covariance
    return float(matmul(error, solve(covariance - first.shared - second.shared, error)))


def adopt(start: Mount, whole: MountEstimate, halves: Sequence[MountEstimate], gain: float) -> MountEstimate:
    """The estimate, which is adopted only where it is better for what it was not fitted to.

    Args:
        halves: what the halves of the recording show.
        gain: by how much what some seconds show fits others better than the start does, as a sum of squares.
    """
    # Errors that are shared within a half differ between the halves, so they count in full.
    apart = agree(*(replace(each, shared=np.zeros((7, 7))) for each in halves))
    if chdtrc(7, apart) < FALSE_ALARM:
        return unknown(start, "its halves show different mounts: the sensor moves, or they are too short")
    if gain <= 0:
        no_better = "every other second shows a mount that fits the seconds between no better than the declared one"
        whole = replace(whole, remarks=(no_better,))
    more = max(0.0, apart / 7 - 1) * (whole.covariance - whole.shared)
    return replace(whole, covariance=whole.covariance + more, adopted=gain > 0)
