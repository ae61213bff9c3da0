"""What is trained or prompted in a cell."""
