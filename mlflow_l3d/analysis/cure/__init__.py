"""What would reduce the luck: predicted from runs that exist, ranked by what it costs."""
