"""The DiskSpd dialect: command lines, XML profiles, and text and XML output."""
