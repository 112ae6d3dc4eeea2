"""Fairness testers: algorithms that search the input space for people who are treated unequally.

`run` holds the public call, `testers` what is particular to each algorithm, and `phases` what they share. They move in
the values of `value_space`, ask the network through `oracle`, and follow its `gradients`. `discovered` confirms IDIs.
"""
