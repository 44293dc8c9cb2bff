"""Reads a TOML job file into jobs, and collects every error with its line."""
