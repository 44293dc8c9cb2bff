"""Finding the limit: strategies that choose where to measure next, and what measures there.

``knee``, ``capacity``, ``ceiling`` and ``usl`` are pure: they are given a function that measures, and tests give them
one that computes. ``loads`` measures on a target; ``command`` is what people type.
"""
