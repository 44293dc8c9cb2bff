"""Writes vdbench's output folder, with the columns that scripts read."""
