"""ONNX models: `file` reads and writes them."""
