"""Writes vdbench's output directory, with the columns that scripts read."""
