"""The operations of a network: a class for each, with all of its mathematics.

`base` says what an operation must know. `columns` has inputs, tables, sums and what moves columns, `affine` the layer
and the norms beside it, `product` and `groups` what is not linear. Elementwise functions are in
`fairmend_check.kernel.functions`.
"""
