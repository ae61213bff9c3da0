"""Where cells run: executors and what a worker needs."""
