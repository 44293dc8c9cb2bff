"""Runs when something breaks: each row breaks one thing and says how the run is to end (``make faults``)."""
