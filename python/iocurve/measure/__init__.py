"""Carrying plans out: one after another, as a scenario, as a search for a limit."""
