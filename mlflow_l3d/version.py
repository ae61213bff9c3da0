"""The version of this package, where everything may read it."""

__version__ = "0.2.0"
