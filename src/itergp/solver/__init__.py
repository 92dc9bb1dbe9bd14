"""Algorithm 1: conditioning on computation."""
