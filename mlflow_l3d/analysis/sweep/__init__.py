"""What several investigations say together: how importance moves with model, shots, classes, prompt format, task."""
