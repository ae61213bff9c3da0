"""Many small networks trained side by side: the weights of all cells of a chunk are one tensor a layer."""
