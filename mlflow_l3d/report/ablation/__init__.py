"""An ablation as text and picture."""
