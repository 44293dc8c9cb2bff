"""Synthetic results, for tests of code that reads results. Nothing here was measured."""
