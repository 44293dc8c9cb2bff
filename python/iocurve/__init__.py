"""iocurve measures how much I/O a volume carries, draws the curve, and says what limits it."""
