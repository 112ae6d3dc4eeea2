"""A network as the kernel's model: the one that the checker reads from the file that the network is saved to.

Everything that fairmend calls proven is decided by `fairmend_check.kernel`, about this model, which the kernel makes of
the steps and tensors that a certificate has. The readers of files are written twice, here and in the checker; tests
compare what both make of the same files.
"""

from __future__ import annotations

from dataclasses import replace

from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.network.description import stored_steps
from fairmend_check.errors import CheckError
from fairmend_check.kernel.description import described_model
from fairmend_check.kernel.model import Model


def kernel_model(network: Network) -> Model:
    """Return the model of a network; refuse one that is too large for the kernel."""
    try:
        model, _ = described_model(*stored_steps(network))
    except CheckError as error:
        raise FairmendError(f"nothing can be proven about this network: {error}") from error
    return replace(model, closing="" if network.closing == "none" else network.closing)
