"""The computational primitive: V -> K V, without forming K unless asked to."""
