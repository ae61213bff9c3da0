"""How the components of variance are estimated, one module a design."""
