"""From diagnosis to cure: which remedies would leave less luck, and whether they do."""
