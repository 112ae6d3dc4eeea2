"""Prove which share of all people is treated equally, and which unequally: branch and bound over the whole space.

`fairmend_check.shares` decides boxes and counts people; what is here searches.

- `decide`: has boxes decided, and says where to split them
- `search`: which boxes come next, here or on workers; `leaves` keeps what is proven
- `data_rows`, `sample`: people in the data, and random ones
- `unequal_map`, `result`: the boxes in words, and the shares
- `certificate`: the tree of boxes, and the shares that a check confirms
"""
