"""A dictionary whose entries are attributes too: what one sample is given as."""

from __future__ import annotations

from typing import Any

from rover_pipeline.errors import UnknownAttributeError, UnknownNameError, did_you_mean


class Record(dict[str, Any]):
    """Values by name: `record["rng"]`, and `record.rng` for names that are Python names.

    It is a plain dictionary for all who collate or pickle it, and prints in a line; torch's `default_collate` turns a
    list of records into a record of batches.
    """

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError(_unknown(name, self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self:
            raise UnknownAttributeError(_unknown(name, self))
        return self[name]

    def __repr__(self) -> str:
        return f"<Record {', '.join(f'{name}: {_short(value)}' for name, value in self.items())}>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]


def _short(value: Any) -> str:
    """A value in a few characters: of an array its type and shape."""
    if not hasattr(value, "shape"):
        return repr(value)
    return f"{value.dtype}{[*value.shape]}" if value.shape else str(value)


def _unknown(name: str, record: Record) -> str:
    return f"the sample has no {name!r}; {did_you_mean(name, record) if record else 'it is empty'}"
