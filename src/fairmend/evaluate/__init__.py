"""Every figure and every sentence about a model, computed once for the terminal, JSON, reports and notebooks."""
