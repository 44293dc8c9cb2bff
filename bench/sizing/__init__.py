"""Sizing questions that documents answer, asked of ``iocurve size``; ``python -m bench.sizing`` writes the table."""
