"""How often iocurve names the limit that holds a run down: on a stub server, on its own volume, on other servers."""
