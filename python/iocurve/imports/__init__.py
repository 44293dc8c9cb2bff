"""Reads the outputs of other tools: each file becomes points with the figures that it states.

``formats`` lists the tools and how their outputs are recognised; each tool has a module. A reader gives
``ImportedMeasurement`` values; ``points`` makes points of them.
"""
