"""fio: command lines and job files, and its forms of output."""
