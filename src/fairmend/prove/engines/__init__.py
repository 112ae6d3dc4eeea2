"""The engines of `certify`: enumeration, branch and bound, and mixed-integer programming.

Each takes the inputs and a `Findings`, which it fills in. Only `fairmend.prove.certify` calls them.
"""
