"""The repairs that the ProF paper is measured against; none of them proves anything by itself."""
