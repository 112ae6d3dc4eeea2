"""A person with a twin: the same value, encoded by the spec instead of elsewhere, and a network that tells them apart.

With a mean far above the standard deviation, one unit in the last place of float32 is a tenth of a year. The network is
a bump of that width around the encoding of the person's own value, so only the twin gets another prediction.
"""

import numpy as np

from fairmend import Feature, Network, Spec
from fairmend.network import Activation, Affine
from fairmend.spec.products import encode_column

OWN = 2001


def twin_spec(columns: int = 1, **how) -> Spec:
    how = how or {"protected": True}
    scale = {"mean": 1e6, "std": 0.1}
    features = [Feature(f"year{i}", "integer", range=(2000, 2003), scale=scale, **how) for i in range(columns)]
    sex = Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True)
    return Spec([*features, *([] if how.get("protected") else [sex])])


def twin(spec: Spec) -> np.ndarray:
    """Return the encoding of the person's own values, (1, width)."""
    years = [f for f in spec.features if not f.one_hot]
    columns = [encode_column(f, np.array([float(OWN)]), np.float32)[0] for f in years]
    return np.array([[*columns, *([1, 0] if len(years) < len(spec.features) else [])]], np.float32)


def person(spec: Spec) -> np.ndarray:
    """Return the person, whose own bits lie one unit beside them."""
    x = twin(spec)
    years = [spec.columns(f.name).start for f in spec.features if not f.one_hot]
    x[:, years] += 1
    return x


def bump_network(spec: Spec, needed: float) -> Network:
    """Return a network with a negative logit only where more than ``needed`` columns hold the twin's encoding."""
    years = [spec.columns(f.name).start for f in spec.features if not f.one_hot]
    centre = twin(spec)[0]
    weight, bias = np.zeros((3 * len(years), spec.width), np.float32), np.zeros(3 * len(years), np.float32)
    for k, column in enumerate(years):
        weight[3 * k : 3 * k + 3, column] = 1
        bias[3 * k : 3 * k + 3] = -centre[column] + np.array([1, 0, -1])
    head = -np.tile(np.array([1, -2, 1], np.float32), len(years))
    return Network([Affine(weight, bias), Affine(head[None], np.array([needed], np.float32))], [Activation("relu")])
