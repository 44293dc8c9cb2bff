"""Vdbench's reports: the folder with its files, in the columns that scripts read."""
