"""A Ray cluster of hosts with links of their own, and what happens to a run when one of them breaks."""
