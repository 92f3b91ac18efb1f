"""Batch workflow from roverd recordings to virtual sensors."""

__version__ = "0.1.0"
