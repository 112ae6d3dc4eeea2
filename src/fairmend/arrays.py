"""Array types that signatures use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
FloatArray = NDArray[np.floating[Any]]
"""float32 or float64: inputs and scores in the network's own precision."""
