"""What people name as a target: an export, a directory, a device, an embedded volume, an emulated disk."""
