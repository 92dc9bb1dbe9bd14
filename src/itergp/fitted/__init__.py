"""A fitted model as an immutable value, and its summaries."""
