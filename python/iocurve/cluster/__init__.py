"""Agents on the machines of a Ray cluster: to open one, check it, start one, and say how to start one.

Ray is an optional extra (``scale``) and is loaded only here.
"""
