"""``result.json``: what was measured and where, and what it adds up to."""
