"""Proofs of volumes with each promise broken in turn; ``python -m bench.proofs`` counts the right verdicts."""
