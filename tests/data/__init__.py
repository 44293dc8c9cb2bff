"""Results made up by code, for tests of what reads results. Nothing in here was measured."""
