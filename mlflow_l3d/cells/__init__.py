"""From a request to the list of cells: factors, designs, and the identity of a cell."""
