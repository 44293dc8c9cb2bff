"""Draws the reading of a result: the page with its charts and tables, CSV, images, the terminal."""
