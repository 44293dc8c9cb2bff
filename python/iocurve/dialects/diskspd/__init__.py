"""DiskSpd's words: its command line and XML profiles become jobs, and answers have its form."""
