"""Special values of stored ranges. Light: compiled kernels import it without the maker's library."""

from __future__ import annotations

#: A range that does not fit in 16 bits is stored as this number of mm. It counts as no return. Layout.
CLIPPED = 65535
