"""The dialects that jobs are written in. Each dialect turns its text into a ``Job`` and knows nothing of the others."""
