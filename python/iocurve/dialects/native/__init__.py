"""iocurve's own jobs: TOML files whose keys are the fields of ``model.Section``."""
