"""What fewer runs and test examples would have found."""
