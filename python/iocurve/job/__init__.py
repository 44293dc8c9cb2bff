"""Jobs as people write them, and their resolution into plans: the model, the warnings and the explanation."""
