"""Runs that exist already, whoever logged them: groups that differ by seeds alone, and how much between them is luck."""
