"""Segments: parts of a recording that are registered independently and then joined."""
