"""Reads DiskSpd's text into a profile, and collects every error with its position."""
