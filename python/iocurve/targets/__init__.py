"""Targets of a load: an export, a directory, a file, a device, an embedded volume, an emulated disk."""
