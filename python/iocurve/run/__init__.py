"""Carrying out plans: on this machine (``local``)."""
