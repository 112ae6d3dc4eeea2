"""The repairs that the ProF paper compares with. None of them proves anything by itself."""
