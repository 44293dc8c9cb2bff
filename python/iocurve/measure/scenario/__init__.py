"""Methodologies as data: a scenario says which points are measured, in which order, with which caches, beside what.

``document`` reads a scenario (``iocurve/scenarios/*.toml`` or a person's own), ``cases`` decides all of its points on
given places, ``caches`` says what is done before each, ``runner`` carries them out, ``command`` is what people type.
"""
