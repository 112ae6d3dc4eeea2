"""Prove that inputs are treated equally, and write down what is proven.

- `certify`: a verdict for each input, by one of the `engines`; `result` is what it returns
- `counterfactuals`: the most different ones of each input over a stream of them, for engines and audits
- `proof`: which class a whole neighbourhood provably gets, and by which margin; a repair ends with it
- `claims`: every sentence about what is proven, but for those of the kernel
- `certificate`: the proof as a file that `fairmend check` verifies
- `deployment`, `vnnlib`: whether what is served is the network of a certificate; problems for other verifiers
"""
