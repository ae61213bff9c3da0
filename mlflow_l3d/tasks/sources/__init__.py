"""The tasks that have a name: packages, benchmarks of the papers, GLUE and SuperGLUE, and drawn data."""
