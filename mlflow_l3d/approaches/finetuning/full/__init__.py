"""``trainable=full`` and ``lora``: training of a whole model, or of adapters on one."""
