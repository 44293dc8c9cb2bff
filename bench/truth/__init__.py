"""Measures how true iocurve's figures and conclusions are, and writes the tables of ``docs/evidence/accuracy.md``.

``conclusions`` and ``searches`` simulate what is measured. ``served`` and ``delayed`` measure instruments of their own
(``instruments``): a stub NFS server and a library under ``pread``, in C, that log what they did.
"""
