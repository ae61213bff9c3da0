"""One task, one model, several seeds (Zhou et al. 2025)."""
