"""The contract with the native engine: a plan goes in, an outcome comes back. Mirrors ``crates/engine``."""
