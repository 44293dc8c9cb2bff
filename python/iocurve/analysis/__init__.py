"""What a result means: what limited it, whether it held steady, what it may hide, how it compares."""
