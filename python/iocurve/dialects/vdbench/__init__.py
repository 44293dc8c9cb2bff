"""The vdbench dialect: command lines, parameter files, and output in vdbench's columns."""
