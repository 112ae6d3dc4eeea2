"""SiLU, fused or by hand."""

import torch.nn.functional as F

from fairmend.network import Activation
from support.function_checks import check_inference


def test_frameworks_compute_it():
    check_inference(Activation("silu"), F.silu, lambda z: z * z.sigmoid())
