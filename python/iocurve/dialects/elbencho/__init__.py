"""elbencho's command line."""
