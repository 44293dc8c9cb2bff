"""Vdbench's parameter files: what they say becomes jobs, one run after another, and output in vdbench's columns."""
