"""A fitted model as a value, and what can be said of it."""
