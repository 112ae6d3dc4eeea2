"""Search the encoding and the order of the columns with which a network gives the scores that the model gave."""
