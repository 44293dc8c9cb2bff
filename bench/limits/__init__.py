"""The limits bench counts how often iocurve finds the limit of a server: a stub, its own volume, other servers."""
