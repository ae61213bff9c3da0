"""How much of a score is luck, and which kind of luck (Pecher et al. 2024)."""
