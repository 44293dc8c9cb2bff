"""Writes job files and their JSON schema."""
