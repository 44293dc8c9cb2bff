"""Exceptions, quantities and the base of values that are documents: every room may use them."""
