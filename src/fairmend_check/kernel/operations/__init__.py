"""The operations of a network: a class for each, with all of its mathematics.

`base` says what an operation must know. `dense` is the affine layer, `scale` a factor and a shift for each unit, `join`
has sums and concatenations, `choose` the inputs, columns and look-ups. Elementwise functions are in
`fairmend_check.kernel.functions`, one file for each.
"""
