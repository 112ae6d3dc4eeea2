"""Which columns the outputs of a model can depend on: those that reach it by weights that are not 0.

A number that is multiplied by 0 changes nothing as long as it is finite. So the sizes of all values are bounded on the
way, from those of the inputs. And it changes the sign of a zero, which matters to 1 / x. So columns are followed beyond
weights of 0 too, up to such a function.
"""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.operations.base import Bools
from fairmend_check.kernel.rounding import Array, Precision


def dependent_columns(model: Model, columns: list[int], sizes: Array) -> tuple[Bools, Bools]:
    """Return on which of these columns the outputs depend, and which of them may overflow before a weight of 0.

    ``sizes`` (inputs,) bound the values of all inputs. Both results are bool (columns,).
    """
    largest = Precision.of(model.dtype).largest
    start = np.zeros((model.inputs, len(columns)), dtype=np.bool_)
    start[columns, np.arange(len(columns))] = True
    reached, signed, bounds, overflows = [start], [start], [sizes], np.zeros(len(columns), dtype=np.bool_)
    with np.errstate(all="ignore"):
        for node in model.nodes[1:]:
            first = node.sources[0]
            entering = node.operation.entering(bounds[first])
            if node.operation.arithmetic and len(node.sources) == 1:
                lost = reached[first] & ~(entering <= largest)[:, None]  # also of what is not a number
                overflows |= lost.any(axis=0)
            signs = [signed[source] for source in node.sources]
            found = node.operation.reached([reached[source] for source in node.sources])
            if isinstance(node.operation, Activation) and function_of(node.operation).pole:
                found = found | signs[0]
            reached.append(found)
            signed.append(found | node.operation.signed(signs))
            bounds.append(node.operation.bound([bounds[source] for source in node.sources], largest))
    return np.asarray(reached[-1].any(axis=0)), overflows
