"""What an object may be, by stated rules of size and speed. Nobody has labelled anything: these are no learned classes.

Each class has typical sizes and speeds with a spread. The probability of a class is how well an object fits it, against
an "other" that fits everything a little. A child, a wheelchair, a dog or a scooter is what it resembles, or "other".
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.objects.options import CLASSES

#: Length, width and height, m, and speed, m/s, in the middle of a class, and the factor by which two of three differ at
#: most. Sizes are those of clusters, of which beams see a part. Cars: segments B to D of the European market, and vans.
#: Pedestrians walk at 1.3 m/s (Bohannon, 1997). Cyclists ride at 3 to 7 m/s.
_TYPICAL: dict[str, tuple[tuple[float, float], ...]] = {
    "car": ((4.0, 1.35), (1.75, 1.25), (1.5, 1.25), (7.0, 2.0)),
    "pedestrian": ((0.45, 1.6), (0.5, 1.6), (1.7, 1.15), (1.2, 1.6)),
    "cyclist": ((1.6, 1.3), (0.55, 1.5), (1.7, 1.15), (4.5, 1.5)),
}
#: Distance, in spreads squared, at which an object is as likely "other".
_OTHER = 9.0
#: Least probability of "other": rules are never sure.
_DOUBT = 0.05
#: Least speed that is told from a slower one, m/s.
_LEAST_SPEED = 0.3


def probabilities(extent: np.ndarray, speed: float) -> np.ndarray:
    """Probability of each class, f8 (class,), in the order of `options.CLASSES`.

    Args:
        extent: f8 (3,), length, width and height, m.
        speed: of most of the track, m/s; 0 = it stands, so that the speed tells nothing.
    """
    values = np.log([*extent, max(speed, _LEAST_SPEED)])
    weights = np.array([1.0, 1.0, 1.0, float(speed > 0)])
    distance = np.full(len(CLASSES), _OTHER)
    for number, name in enumerate(CLASSES):
        if name in _TYPICAL:
            middle, factor = np.log(np.array(_TYPICAL[name])).T
            distance[number] = (weights * ((values - middle) / factor) ** 2).sum()
    fit = np.exp(-(distance - distance.min()) / 2)
    fit /= fit.sum()
    fit *= 1 - _DOUBT
    fit[CLASSES.index("other")] += _DOUBT
    return np.asarray(fit)
