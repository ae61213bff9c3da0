"""Cells in the tasks of Slurm."""
