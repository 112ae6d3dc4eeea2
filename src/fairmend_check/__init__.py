"""fairmend_check: says whether a fairmend certificate holds for a model file.

The checker is a program of its own. It needs NumPy and the standard library, imports nothing of fairmend, and trusts
neither the certificate nor the model file. It is written from docs/certificate.md, which defines what it checks; the
readers, the arithmetic and the neighbourhoods are its own. To audit it, read the files in this order:

1. The verdict
   - main.py: the command line; prints the verdict
   - check.py: the rules, from the files to a result
   - result.py, errors.py: the result, names from files that are safe to print, and why there is none
   - json_reader.py: JSON from an untrusted file
   - spec_toml.py: a spec file, to compare with that of a certificate
2. kernel/: the mathematics; read it front to back
   - certificate.py: the certificate as typed data, and its inputs, block by block
   - spec.py: the spec, with its links
   - claim.py, statement.py: what is claimed of classes and of scores, and the sentence that says so
   - neighbourhood.py: which inputs count as similar to an input
   - rounding.py: arithmetic that rounds outward
   - model.py: a network is a graph of operations; the digests of its weights and of all
   - assemble.py: builds graphs from the steps of a file
   - description.py, condition.py: the JSON form of a network, and what it says about the module of a state dict
   - operations/: a class for each operation, with all of its mathematics; base.py says what is needed; affine.py has
     layers and the norms beside them, columns.py inputs, choices, tables, sums and concatenations, product.py products
     of two nodes, groups.py softmax and normalisation
   - functions/: a class for each elementwise function; base.py says what is needed; straight.py has those of lines,
     curve.py what those that bend have in common, curved.py each of these, elementary.py exp, log, roots and waves
   - bounds.py: lower bounds of margins and of other forms of a model's outputs
   - inference_error.py: rounding errors of inference
   - blindness.py: which columns the outputs can depend on
   - entry.py, classes.py: the first nodes of a model that is not read further, and whether similar people are the same
     behind them
   - regions.py: the steps above, for every input of a certificate
   - rescaling.py, enclosure.py: what any program makes of a probability, such as points, and what it may compute at all
3. shares/: counting people
   - people.py, linked_people.py: all people that a spec allows, as cells and boxes of them
   - tally.py: how many people of a box are on one side of a linear form
   - requirements.py: what a claim, about classes or scores, requires of the people of a box, as linear forms
   - prover.py, listing.py: what is proven about a box, by linear forms or person by person; how much work that takes
   - prove.py: the tree of boxes in a certificate, and the steps above for every box
4. run/: the run of the model
   - compare.py: runs it in a process of its own, on people of the spec or members of the same classes, and compares
     with enclosures
   - runtimes.py: that process; ONNX Runtime and Keras are imported there and nowhere else
5. evidence/: what a check leaves behind; nothing here decides a verdict
   - attestation.py: the result as in-toto statements, and reading them back
   - ci.py: the result as JUnit XML and as Markdown
   - files.py: digests of the files, and files that are written together or not at all
6. readers/: from bytes to a network
   - read_model.py: selects the reader by suffix
   - zip_archive.py: the zip archives of .pth, .pt2 and .keras files
   - read_onnx.py, protobuf.py, onnx_nodes.py, onnx_axes.py, onnx_sizes.py, onnx_graph.py: .onnx
   - onnx_edges.py, onnx_entry.py, onnx_operators.py, onnx_memory.py: the entry and the edges of an .onnx file that is
     not read further, and nodes that may leave memory unset
   - state_dict.py: tensors of a state dict, in the steps that the certificate names, and .safetensors
   - read_torch.py: .pth, .pt and .ckpt, in which no code runs, and .pt2, the weights of an exported program
   - read_keras.py, keras_config.py, keras_layers.py, keras_tokens.py, hdf5.py: .h5 and .keras
   - read_nnet.py: .nnet
"""

from __future__ import annotations

from fairmend_check._version import __version__
from fairmend_check.check import check
from fairmend_check.result import CheckResult

__all__ = ["CheckResult", "__version__", "check"]
