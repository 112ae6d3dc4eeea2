"""The engines of `certify`: enumeration, branch and bound, and a mixed-integer program."""
