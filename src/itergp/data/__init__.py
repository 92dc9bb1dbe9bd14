"""Rows of data: identical inputs as one row, and the unit of a feature."""
