"""Reads fio's text into the fields of a job, and collects every error with its position."""
