"""Columns whose groups are compared, from values by feature."""


def columns_of(spec, values):
    """Return the protected features of a spec with their values."""
    return [(feature, values[feature.name]) for feature in spec.protected]
