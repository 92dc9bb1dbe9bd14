"""Rows of data: duplicates merged into one row, and the scale of each feature."""
