"""`compare`: whether system A is better than system B, counting every kind of luck."""
