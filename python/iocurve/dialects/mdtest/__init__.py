"""mdtest's command lines: the rates of creating, reading and removing many files and directories."""
