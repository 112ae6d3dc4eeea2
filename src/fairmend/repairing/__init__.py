"""Repair networks.

`run` holds the public call and `options` its options. `blind`, `distil`, `calibrate` (step 1), `certified` and `head`
(step 2) are the stages; `recipe` combines them. The method `auto` is `selection`: it judges `candidates` and makes a
`choice` by a policy. `baselines` holds the methods of other papers.
"""
