"""Runs that exist already, whoever logged them: groups that differ by seeds, and how much is luck."""
