"""fio's output formats and log files."""
