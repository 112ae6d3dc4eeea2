"""Certificates written by hand from the steps of a network, for the kernel alone."""

import base64
import json
import zlib

import numpy as np

from fairmend_check.check import check
from fairmend_check.kernel.description import described_model
from fairmend_check.kernel.model import network_digest, weights_digest


def verdict_of(path, steps, tensors, spec, *, inputs=None, blind=None):
    """Write a certificate about float32 for listed inputs, or for columns that are not read, and check it."""
    model, _ = described_model(steps, tensors)
    count = 0 if inputs is None else len(inputs)
    content = {
        "format": "fairmend-certificate",
        "version": 1,
        "fairmend": "0",
        "method": "certify",
        "claim": "",
        "arithmetic": "float32",
        "model": {
            "weights_sha256": weights_digest(model),
            "file_sha256": None,
            "inputs": model.inputs,
            "outputs": model.outputs,
            "dtype": model.dtype,
            "network": {
                "sha256": network_digest(model),
                "steps": steps,
                "tensors": {
                    name: {
                        "dtype": "float32",
                        "shape": list(tensor.shape),
                        "values": base64.b64encode(tensor.astype("<f4").tobytes()).decode(),
                    }
                    for name, tensor in tensors.items()
                },
                "unused": [],
            },
        },
        "spec": spec,
        "global": None if blind is None else {"columns": blind},
        "shares": None,
        "entry": None,
        "count": count,
    }
    lines = [json.dumps(content)[:-1] + ', "inputs": [']
    if count:
        numbers = zlib.compress(np.ascontiguousarray(inputs.T.astype("<f4")).tobytes())
        lines.append(json.dumps({"count": count, "columns": base64.b64encode(numbers).decode()}))
    path.write_text("\n".join([*lines, "]}\n"]))
    return check(path, None)
