"""The functions for other programs, which ``iocurve`` lists. They measure as the commands do, and print nothing."""
