"""Scenarios: methodologies as data, with the points, their order, the cache preparation and the comparisons.

``document`` reads a scenario (``measure/scenarios/*.toml`` or a user's file), ``cases`` lists all its points on given
targets, ``caches`` prepares the caches before each, ``runner`` measures them, ``command`` is the command line.
"""
