"""Reads vdbench's text into definitions and runs, and collects every error with its position."""
