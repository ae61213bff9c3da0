"""The questions to many trainings: each study has a folder with its request, its run and its results."""
