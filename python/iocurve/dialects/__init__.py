"""The languages jobs are written in: each turns its text into a ``Job`` and knows nothing of the others."""
