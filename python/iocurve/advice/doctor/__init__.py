"""Doctor: checks the client's tuning and says what was found, why it matters, the fix, and how to undo it.

Everything is read from ``/proc``, ``/sys`` and ``/etc`` through a ``Host``, which may be a captured one.
"""
