"""Step 2: the smallest change of the last layer that gives every neighbourhood one prediction."""
