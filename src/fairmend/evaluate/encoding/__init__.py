"""Whether a spec encodes people as the model read them, and a search for the encoding that does."""
