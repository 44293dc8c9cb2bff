"""The model of a target: what its limits make of a load. It measures nothing and looks at no target."""
