"""Reads vdbench's text into definitions and runs, and collects every mistake with its position."""
