"""Proofs of volumes with each SLO broken in turn; ``python -m bench.proofs`` counts the right verdicts."""
