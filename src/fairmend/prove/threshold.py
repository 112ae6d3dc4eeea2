"""Agree on the threshold: the spec says from which probability on a prediction is positive, and the network decides."""

from __future__ import annotations

from fairmend.base.errors import FairmendError
from fairmend.network import DEFAULT_THRESHOLD, Network
from fairmend.spec import Spec


def network_of_spec(network: Network, spec: Spec) -> Network:
    """Return the network that decides at the threshold of the spec; refuse one that has another threshold itself."""
    if network.threshold == spec.threshold:
        return network
    if network.threshold != DEFAULT_THRESHOLD:
        raise FairmendError(
            f"the network decides at the threshold {network.threshold:g}, but the spec at {spec.threshold:g}. "
            f"Set threshold = {network.threshold:g} in [label], or use the network's at_threshold({spec.threshold:g})."
        )
    return network.at_threshold(spec.threshold)
