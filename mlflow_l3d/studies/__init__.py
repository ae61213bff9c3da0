"""What is asked of many trainings: each study has a folder with its specification, its run and its results."""
