"""What a check leaves behind: attestations, and results for continuous integration. Nothing here decides a verdict."""
