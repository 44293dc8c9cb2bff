"""The fio dialect: command lines, job files and output formats."""
