"""Whether one system is better than another, counting the luck of every factor and of the test examples."""
