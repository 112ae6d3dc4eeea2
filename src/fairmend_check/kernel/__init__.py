"""The kernel: the only part whose answer counts.

It has one form of a network (`model`), operations and functions that own their mathematics (`operations`, `functions`),
the spec and who is similar (`spec`, `neighbourhood`), and proves what a `certificate` claims (`claim`, `regions`). It
imports NumPy, the standard library, and the errors and the JSON reader beside this package: nothing that reads model
files.
"""
