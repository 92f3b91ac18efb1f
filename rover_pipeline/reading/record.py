"""A dictionary whose entries are attributes too: what one sample is given as."""

from __future__ import annotations

from typing import Any

from rover_pipeline.errors import UnknownAttributeError, UnknownNameError, did_you_mean


class Record(dict[str, Any]):
    """Values by name: `record["rng"]`, and `record.rng` for names that are Python names.

    It is a plain dictionary for all who collate, pickle or print it; torch's `default_collate` turns a list of records
    into a record of batches.
    """

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError(_unknown(name, self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self:
            raise UnknownAttributeError(_unknown(name, self))
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]


def _unknown(name: str, record: Record) -> str:
    return f"the sample has no {name!r}; {did_you_mean(name, record) if record else 'it is empty'}"
