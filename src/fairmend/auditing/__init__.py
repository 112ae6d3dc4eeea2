"""Audits: count the inputs that are treated unequally, by comparing them with their neighbours.

- `run`: `fairmend.audit`, the public function, and `result`, what it returns; `plan`, how it is done
- `inputs`: inputs of any origin, in slices and blocks; `slices`: the audit of one slice
- `neighbours`: inputs compared with all of their neighbours, with random ones (`random_neighbours`), or by bounds
  (`branch_scan`)
- `fast_scores`: the lowest and highest score in a finite neighbourhood, from `later_layers` by `extremes` or, on a GPU,
  by `device_search`
- `score_spread`, `disparity`: how far scores differ in each neighbourhood, and over all inputs
- `tally`, `rows`: what is counted, what is kept of every input, and a random sample of them, for reports
"""
