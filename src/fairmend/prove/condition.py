"""What must be true of the program that runs a model, where the file leaves that open.

A state dict holds weights, and the code of a module decides what is computed with them. A verdict on such a file holds
on the condition that the module computes what fairmend took it for. The kernel words it, as for `fairmend check`.
"""

from __future__ import annotations

from fairmend.base.text import printable
from fairmend.models import RunModel
from fairmend.network import Model, Network
from fairmend.network.description import stored_steps, unused_tensors
from fairmend.network.formats.nnet import NnetForm
from fairmend.network.formats.torch.pt2 import Pt2Form
from fairmend.network.formats.torch.state_dict import StateDictForm
from fairmend_check.kernel.condition import state_dict_condition


def model_condition(network: Model) -> str:
    """Return what a program must do with the file that a network was read from; "" if the file itself says it.

    Of a model that is only run, nothing is known but what it gave, so the condition names what ran it.

    A module in memory is traced, and the program in a .pt2 file is read here, so that neither needs a condition. The
    checker does not read such a program, and prints one.
    """
    if isinstance(network, RunModel):
        return (
            f"every score was computed by {network.runtime}, in batches. Another program or version, another precision "
            "or batch may round a score to the other side of the threshold."
        )
    assert isinstance(network, Network)
    form = network.form
    if isinstance(form, NnetForm):
        return form.condition
    if not isinstance(form, StateDictForm) or isinstance(form, Pt2Form) or form.module is not None:
        return ""
    steps, tensors = stored_steps(network)
    unused = unused_tensors(steps, tensors)
    found = printable(state_dict_condition(steps, tensors, unused, network.dtype.name, network.outputs))
    return found if form.part is None else f'the module loads the part "{form.part}" of the checkpoint. T{found[1:]}'
