"""The embedded NFS volume: what it exports and how fast, as a process that is started, changed and watched."""
