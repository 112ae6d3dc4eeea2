"""Drafts of specs from data or from a fitted scikit-learn pipeline, with notes on what to review."""
