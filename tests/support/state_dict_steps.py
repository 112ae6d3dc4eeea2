"""The steps that a certificate names for a state dict: layers, norms and functions that follow each other."""


def layer(name, bias=True, **more):
    """A torch.nn.Linear."""
    key = f"{name}." if name else ""
    return {"kind": "affine", "weight": f"{key}weight", "bias": f"{key}bias" if bias else None, **more}


def norm(name, epsilon=1e-5, affine=True):
    """A torch.nn.BatchNorm1d."""
    stored = {"mean": f"{name}.running_mean", "variance": f"{name}.running_var"}
    parts = {"gain": f"{name}.weight", "shift": f"{name}.bias"} if affine else {"gain": None, "shift": None}
    return {"kind": "batch_norm", **stored, **parts, "epsilon": epsilon}


def function(name, **numbers):
    return {"kind": "function", "name": name, **numbers}


def chain(columns, *steps, unused=()):
    """These steps, each of the one before it, as the network of a certificate without its tensors."""
    first = {"kind": "input", "columns": columns, "sources": []}
    following = [{**step, "sources": [number]} for number, step in enumerate(steps)]
    return {"steps": [first, *following], "unused": list(unused)}
