"""Audits: count the inputs that are treated unequally, by comparing them with their neighbours.

- `run`: `fairmend.audit`, the public function, and `result`, what it returns; `plan`, how it is done
- `inputs`: inputs of any origin, in slices and blocks; `slices`: the audit of one slice
- `neighbours`: inputs scanned by comparing them with all of their neighbours, with random ones, or by
  bounds; `comparisons`: what a comparison with a stream of neighbours finds
- `fast_scores`: the lowest and highest score in a finite neighbourhood, from `extremes` or, on a GPU, `device_search`
- `disparity`: how far scores differ, over all inputs
- `slices`, `rows`: what is counted, what is kept of every input, and a random sample of them, for reports
"""
