"""The evaluation of the paper: its tables, with its numbers beside ours. Needs the extra "bench"."""
