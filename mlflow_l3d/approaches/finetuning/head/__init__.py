"""``trainable=head``: dense heads on the features of a frozen encoder, trained many at once."""
