"""Output in the form that the tool's readers know."""
