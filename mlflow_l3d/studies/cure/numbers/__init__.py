"""What verified remedies show."""
