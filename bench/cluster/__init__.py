"""A Ray cluster of hosts with separate links, and what happens to a run when one of them breaks."""
