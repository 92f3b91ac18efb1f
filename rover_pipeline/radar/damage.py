"""Radar frames that were not measured as a whole: samples of an earlier frame, or zeros, stand in the place of theirs.

Both follow from the noise of a receiver, which never repeats itself. Pieces of a chirp at one antenna are compared,
which are shorter than the packets of a capture card. Words can be equal by coincidence, the more so the less noise
there is: how often is estimated from the frame, so that neither a simulation without noise nor a receiver that is off
looks damaged.
"""

from __future__ import annotations

import math

import numpy as np

from rover_pipeline.numerics.robust import FALSE_ALARM


def damaged(frames: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Which frames have parts that are zero, or those of one of the two frames before them, bool (frame,).

    Args:
        frames: i2, (frame, chirp, tx, rx, word), in the order of the recording. With other axes they are no radar's.
        before: the same of up to two frames before them. A recorder with two buffers that reads one which was not
            filled finds the frame before the last.
    """
    if frames.ndim != 5:
        return np.zeros(len(frames), bool)
    pieces = [*_pieces(before), *_pieces(frames)]
    numbers = range(len(before), len(pieces))
    return np.array([_has_zeros(pieces[i]) or _repeats(pieces[i], pieces[max(0, i - 2) : i]) for i in numbers], bool)


def has_zeros(frames: np.ndarray) -> np.ndarray:
    """Which frames have zeros in the place of lost packets, bool (frame,); frames as in `damaged`."""
    return np.array([_has_zeros(each) for each in _pieces(frames)], bool)


def _pieces(frames: np.ndarray) -> np.ndarray:
    """A view of the words in pieces of about 64, (frame, chirp, antenna, piece, group), of up to four words a group.

    Two pieces are rarely equal by coincidence in the first group, so that the others need not be compared.
    """
    *lead, words = frames.shape
    groups = frames.view(f"u{2 * math.gcd(words, 4)}")
    count = max(1, words // 64)
    size = groups.shape[-1] // count
    return groups[..., : count * size].reshape(*lead[:2], math.prod(lead[2:]), count, size)


def _repeats(frame: np.ndarray, before: list[np.ndarray]) -> bool:
    for other in before:
        if (equal := _equal(frame, other)).any():
            words = frame.view("i2")
            # Of one chirp, words are compared with their neighbours instead.
            same = words[1:] == words[:-1] if len(words) > 1 else np.diff(words) == 0
            if _proves(equal, same.mean(axis=(0, 2, 3)), words.shape[-1]):
                return True
    return False


def _has_zeros(frame: np.ndarray) -> bool:
    zero = _equal(frame, np.zeros_like(frame[:1]))
    if zero.all() or not zero.any():
        return bool(zero.any())
    words = frame.view("i2")
    measured = np.maximum((~zero).sum(axis=(0, 2)) * words.shape[-1], 1)
    # An antenna that has nothing but zeros is off.
    share = np.where(zero.all(axis=(0, 2)), 1.0, 1 - np.count_nonzero(words, axis=(0, 2, 3)) / measured)
    return _proves(zero, share, words.shape[-1])


def _equal(frame: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Pieces that are equal, bool (chirp, antenna, piece)."""
    equal: np.ndarray = frame[..., 0] == other[..., 0]
    if equal.any():
        equal &= (frame == other).all(axis=-1)
    return equal


def _proves(found: np.ndarray, share: np.ndarray, words: int) -> bool:
    """Whether pieces are no coincidence, at the rate of false alarms.

    Args:
        found: bool (chirp, antenna, piece); share: f8 (antenna,), of the words that are equal by coincidence.
        words: of a piece.
    """
    return bool((found.any(axis=(0, 2)) & (share**words * found.size < FALSE_ALARM)).any())
