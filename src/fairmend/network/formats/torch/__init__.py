"""PyTorch: modules in memory, exported programs (.pt2), and state dicts in .pth, .ckpt and .safetensors files.

A module is traced (`trace`) or an exported program read (`pt2`); either is a list of calls (`program`), which
`interpret` runs on rows of unknown numbers (`rows`). `operators` and `layers` say what the functions and layers of
PyTorch compute. What comes out are `steps` on tensors of the state dict; their description goes into saved files
(`state_dict`).
"""
