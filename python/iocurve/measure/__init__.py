"""Runs plans: single jobs, scenarios, and searches for a limit."""
