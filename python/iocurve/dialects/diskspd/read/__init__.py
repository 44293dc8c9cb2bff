"""Reads DiskSpd's text into a profile, and collects every mistake with its position."""
