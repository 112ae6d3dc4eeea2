"""Prove which share of all people is treated equally, and which unequally: branch and bound over the whole space.

- `space`: boxes of the unprotected features, and how large they are
- `linked`, `cases`: what links make of the counterfactuals of people in boxes
- `forms`: linear forms of the network over boxes, rounded outwards
- `count`: how many people of a box are on one side of a form
- `decide`: what is proven about a box; `leaves` keeps it, `run` splits boxes, `result` draws the map
- `score_decide`: the same for claims about scores
- `lookups`: tables that a network looks up must have a row for every value
- `data_rows`, `sample`: people in the data, and random ones
"""
