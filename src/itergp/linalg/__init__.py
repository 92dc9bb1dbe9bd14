"""The computational primitive: V -> K V, never forming K unless told to."""
