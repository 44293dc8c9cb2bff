"""The machine that iocurve runs on: what Linux publishes in ``/proc`` and ``/sys``, and the directories of a user.

Facts that the system does not publish are empty or None: a missing fact never stops a measurement.
"""
