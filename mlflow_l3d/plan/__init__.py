"""From a specification to the list of cells: factors, designs, and the identity of a cell."""
