"""An ablation as people read it."""
