"""Eq. (6): the combined posterior, its parts, its samples."""
