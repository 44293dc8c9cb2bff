"""Writes results and profiles as DiskSpd does."""
