"""iocurve's own job files: TOML whose keys are the fields of ``model.Section``."""
