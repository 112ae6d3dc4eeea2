"""fairmend_check: says whether a fairmend certificate holds for a model file.

The checker is a program of its own. It needs NumPy and the standard library, imports nothing of fairmend, and trusts
neither the certificate nor the model file. It is written from docs/certificate.md, which defines what it checks; the
readers, the arithmetic and the neighbourhoods are its own. To audit it, read the files in this order:

1. The verdict
   - main.py: the command line; prints the verdict
   - check.py: the rules, from the three files to a result
   - result.py, errors.py: the result, and why there is none
   - claim.py: what a certificate claims, in English
   - printable.py: names from files, safe to print
2. The certificate
   - json_reader.py: JSON from an untrusted file
   - certificate.py: the certificate as typed data
   - region_lists.py, region_blocks.py: its regions as arrays, from a list of objects or from compressed blocks
   - shares_claim.py, split_tree.py: shares of all people, and the tree of boxes that proves them
   - spec.py, links.py, spec_toml.py: the spec, its links, and its TOML file
3. The mathematics
   - neighbourhood.py: which inputs count as similar to an input
   - coverage.py: whether the boxes of a proof cover a neighbourhood, decided exactly
   - rounding.py: arithmetic that rounds outward
   - functions: what elementwise functions do on intervals; base.py says what is needed, and each has a file:
     ramp.py (ReLU, LeakyReLU, PReLU), sigmoid.py (tanh too); curve.py and those that bend as it says: clip.py,
     hardsigmoid.py, softsign.py, elu.py (CELU and SELU too), softplus.py, silu.py, mish.py, gelu.py, gelu_tanh.py,
     hardswish.py
   - bounds.py: lower bounds of margins and of other forms of a model's outputs
   - inference_error.py: rounding errors of inference
   - blindness.py: which columns the outputs can depend on
   - threshold.py: margins at a threshold of the probability
   - scores.py: raw outputs and probabilities, and how far apart two of them can be
   - regions.py: the steps above, for every region of a certificate
   - people.py: all people that a spec allows, as cells and boxes of them
   - linked_people.py: what links make of the counterfactuals of people in a box
   - tally.py: how many people of a box are on one side of a linear form
   - leaf_work.py: how much work boxes take, up to a limit
   - leaf_bounds.py, leaf_listing.py: what is proven about a box, by linear bounds or person by person
   - leaf_scores.py: the same for claims about scores
   - shares.py: the steps above, for every box of a certificate of shares
4. The run, which can only take VALID away
   - sample.py: people on whom a model is run
   - enclosure.py: what any program may compute for them
   - run.py: runs the model in a process of its own, and compares
   - runtimes.py: that process; ONNX Runtime and Keras are imported there and nowhere else
5. The model
   - model.py: a graph of operations, and the digest of the weights
   - norms.py, assemble.py: builds graphs; batch normalisation and scaling are folded into the layers beside them
   - read_model.py: selects the reader by suffix
   - zip_archive.py: the zip archives of .pth and .keras files
   - read_onnx.py, protobuf.py, onnx_nodes.py, onnx_graph.py, onnx_patterns.py, onnx_decision.py,
     onnx_external_data.py: .onnx
   - state_dict.py, named_graph.py: tensors of a state dict, in the layers or steps that the certificate names
   - read_pth.py, pickle_reader.py: .pth and .pt; no code in the file runs
   - read_safetensors.py: .safetensors
   - read_pt2.py: .pt2; the weights of an exported program
   - read_keras.py, keras_config.py, keras_calls.py, keras_layers.py, hdf5.py: .h5 and .keras
   - read_nnet.py: .nnet
"""

from __future__ import annotations

from fairmend_check._version import __version__
from fairmend_check.check import check
from fairmend_check.result import CheckResult

__all__ = ["CheckResult", "__version__", "check"]
