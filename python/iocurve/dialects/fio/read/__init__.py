"""Reads fio's text into the fields of a job, and collects every mistake with its position."""
