"""Measures iocurve and its peers, in one run on one machine; README.md says how to read the results."""
