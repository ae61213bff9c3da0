"""The studies: each answers a question by many trainings, in a folder with its request, its run and its results."""
