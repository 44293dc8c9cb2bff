"""Reads a TOML job file into jobs, and collects every mistake with its line."""
