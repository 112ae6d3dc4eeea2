"""Drafts of specs, made from data or from a fitted scikit-learn pipeline, with remarks for who looks them over."""
