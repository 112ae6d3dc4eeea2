"""PyTorch: state dicts in .pth and .safetensors files, and modules in memory."""
