"""Write the .nnet files of the corpus: python make_nnet.py FOLDER.

Three are written by fairmend; "hand-written" has the style of the files in the NNet repository, with a normalisation.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from fairmend.network import Activation, Affine, Network

HAND_WRITTEN = """\
// Neural Network File Format by Kyle Julian, Stanford 2016
2,2,1,3,
2,3,1,
0,
0.0,-3.14,
60760.0,3.14,
1.9791e+04,0.0,7.5188,
6.0261e+04,6.2831853,3.7303e+02,
3.65e-01,-1.2,
5.0e-02,4.0e-01,
-9.75e-01,1.0,
0.15,
-0.25,
1.5e-02,
0.5,-0.75,1.25,
-0.03125,
"""


def network(widths, dtype):
    rng = np.random.default_rng(0)
    pairs = pairwise(widths)
    affines = [Affine(rng.normal(size=(b, a)).astype(dtype), rng.normal(size=b).astype(dtype)) for a, b in pairs]
    return Network(affines, [Activation("relu")] * (len(affines) - 1))


def main(folder):
    for name, widths, dtype in (
        ("single", (3, 2), np.float32),
        ("deep", (3, 4, 2, 1), np.float32),
        ("double", (3, 4, 2), np.float64),
    ):
        network(widths, dtype).save(Path(folder) / f"{name}-fairmend.nnet")
    (Path(folder) / "hand-written.nnet").write_text(HAND_WRITTEN)


if __name__ == "__main__":
    main(sys.argv[1])
