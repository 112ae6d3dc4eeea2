"""Where work runs: on the CPU, or on a GPU. `names` needs no PyTorch; the other modules do."""
