"""The identity."""

from fairmend.network import Activation
from support.function_checks import check_inference


def test_it_is_exact():
    check_inference(Activation("identity"), lambda z: z, onnx_node=("Identity", {}))
