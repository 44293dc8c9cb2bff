"""What people see of a result: the page, its charts and tables, the terminal."""
