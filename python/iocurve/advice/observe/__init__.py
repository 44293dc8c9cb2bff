"""Observe: the I/O of applications on a mount or device, from the kernel's counters, without adding any."""
