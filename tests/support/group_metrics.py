"""The gaps between groups of the protected features, from a network and inputs."""

from fairmend.evaluate.groups import group_metrics_of, protected_columns


def group_metrics(net, spec, X, y=None):
    """Return the metrics of each protected feature on X (a data frame or rows), with the true classes y if known."""
    inputs = spec.as_inputs(X, net.dtype)
    return group_metrics_of(spec, protected_columns(spec, inputs), net.predict(inputs), y, classes=net.outputs)
