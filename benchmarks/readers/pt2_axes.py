"""Attack the reader of .pt2 programs: random modules over values of several axes, against the exported program.

    python benchmarks/readers/pt2_axes.py [--count 300] [--seed 0] [--reproduce NUMBER]

A module is a list of random calls with odd axes, shapes and indices; it stays if it runs for two numbers of rows. What
`load_network` makes of the .pt2 file must give the outputs of the program. (A module in memory is compared with its
`forward`, a file is not.) Prints how many were read and refused; exits with 1 if one is read as another network.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import fairmend

Step = Callable[[Any, list[torch.Tensor]], torch.Tensor]
ROWS = (5, 7)


class Steps(nn.Module):
    """Calls one step after the other; each reads any value before it. The last value goes through a layer."""

    def __init__(self, steps: list[Step], buffers: list[torch.Tensor], width: int) -> None:
        super().__init__()
        self.steps, self.last = steps, nn.Linear(width, 2)
        for number, buffer in enumerate(buffers):
            self.register_buffer(f"b{number}", buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = [x]
        for step in self.steps:
            values.append(step(self, values))
        return self.last(values[-1])


class Drawn:
    """Random steps, and what they give for two numbers of rows."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        torch.manual_seed(number)
        self.width = int(self.rng.choice([4, 6, 8, 12]))
        self.steps: list[Step] = []
        self.buffers: list[torch.Tensor] = []
        self.values = [[torch.randn(rows, self.width)] for rows in ROWS]

    def add(self, step: Step) -> bool:
        try:
            holder = Steps([], self.buffers, 1)
            found = [step(holder, values) for values in self.values]
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False
        shapes = [tuple(each.shape) for each in found]
        fine = all(0 < each.numel() < 4000 and torch.isfinite(each).all() for each in found)
        if not fine or len(shapes[0]) != len(shapes[1]) or sum(a != b for a, b in zip(*shapes, strict=True)) != 1:
            return False
        self.steps.append(step)
        for values, each in zip(self.values, found, strict=True):
            values.append(each)
        return True

    def buffer(self, shape: Any) -> int:
        self.buffers.append(torch.tensor(np.round(self.rng.normal(size=tuple(shape)), 2).astype(np.float32)))
        return len(self.buffers) - 1

    def pick(self) -> int:
        return int(self.rng.integers(len(self.values[0]), size=2).max())

    def axis(self, rank: int) -> int:
        return int(self.rng.integers(-rank, rank))

    def rows_axis(self, number: int) -> int:
        """Return which axis of a value is that of the rows."""
        few, more = (values[number].shape for values in self.values)
        return next(axis for axis, (a, b) in enumerate(zip(few, more, strict=True)) if a != b)

    def draw(self) -> Step:
        rng, i, j = self.rng, self.pick(), self.pick()
        shape = tuple(self.values[0][i].shape)
        rank, at = len(shape), self.rows_axis(i)
        d, e = self.axis(rank), self.axis(rank)
        several = tuple({int(k) for k in rng.integers(-rank, rank, size=2)})
        keep = bool(rng.random() < 0.5)
        small = tuple(1 if k == at or rng.random() < 0.4 else n for k, n in enumerate(shape))
        small = small[int(rng.integers(len(small))) if rng.random() < 0.3 else 0 :]
        mask = torch.tensor(rng.random(small) < 0.4)
        b, m = self.buffer(small), len(self.buffers)
        self.buffers.append(mask)
        index = rng.integers(-2, 2, size=3).tolist()
        order = rng.permutation(rank).tolist()
        start, stop, jump = (int(rng.choice(n)) for n in ([0, 1, -2, -9], [1, 2, 3, -1, 99], [1, 1, 2]))
        rest = [n for k, n in enumerate(shape) if k != at]
        size = int(np.prod(rest))
        cuts = [n for n in range(1, size + 1) if size % n == 0]
        cut, more = int(rng.choice(cuts)), int(rng.choice([2, 3]))
        w = self.buffer((more, shape[-1] if at != rank - 1 else 2))
        letters = "abcde"[:rank]
        other = "".join(rng.permutation(list("abcdef")).tolist()[: len(self.values[0][j].shape)])
        out = "".join(rng.permutation([name for name in sorted({*letters, *other}) if rng.random() < 0.7]).tolist())
        name = str(rng.choice(["relu", "tanh", "sigmoid", "silu", "gelu", "softplus", "softsign", "elu", "mish"]))
        function = getattr(F, name) if hasattr(F, name) else getattr(torch, name)
        power = float(rng.choice([2.0, 0.5, -1.0]))
        makers: list[Step] = [
            lambda s, v: function(v[i]),
            lambda s, v: torch.sigmoid(v[i]) * v[j],
            lambda s, v: torch.sigmoid(v[i].unsqueeze(d)) * v[i].unsqueeze(e),
            lambda s, v: v[i] * v[j],
            lambda s, v: v[i] + v[j],
            lambda s, v: v[i] - v[j],
            lambda s, v: v[i] / (2 + v[j] * v[j]),
            lambda s, v: v[i] @ v[j].transpose(-1, -2),
            lambda s, v: v[i] @ v[j],
            lambda s, v: torch.softmax(v[i], d),
            lambda s, v: torch.softmax(v[i].masked_fill(getattr(s, f"b{m}"), -torch.inf), d),
            lambda s, v: torch.softmax(v[i] + torch.where(getattr(s, f"b{m}"), -torch.inf, 0.0), d),
            lambda s, v: v[i].masked_fill(getattr(s, f"b{m}"), 0.5),
            lambda s, v: v[i].sum(several, keepdim=keep),
            lambda s, v: v[i].mean(several, keepdim=keep),
            lambda s, v: v[i].mean(d, keepdim=keep),
            lambda s, v: v[i].amax(d, keepdim=keep),
            lambda s, v: v[i].max(d, keepdim=keep)[0],
            lambda s, v: v[i].permute(order),
            lambda s, v: v[i].transpose(d, e),
            lambda s, v: v[i].movedim(d, e),
            lambda s, v: v[i].unsqueeze(d),
            lambda s, v: v[i].squeeze(d),
            lambda s, v: v[i].flatten(1),
            lambda s, v: v[i].flatten(d, e),
            lambda s, v: v[i].reshape(v[i].shape[0], cut, -1),
            lambda s, v: v[i].reshape(-1, cut),
            lambda s, v: v[i].reshape(v[0].shape[0], -1, cut),
            lambda s, v: v[i].unflatten(d, (-1, 2)),
            lambda s, v: v[i].select(d, index[0]),
            lambda s, v: v[i].narrow(d, abs(start) % 2, 1),
            lambda s, v: v[i][..., start:stop:jump],
            lambda s, v: v[i][:, start:stop],
            lambda s, v: v[i][:, index],
            lambda s, v: v[i][:, index, ..., index],
            lambda s, v: v[i][:, :, index[:1], index],
            lambda s, v: v[i].index_select(d, torch.tensor([1, 0, 1])),
            lambda s, v: torch.cat([v[i], v[j]], d),
            lambda s, v: torch.stack([v[i], v[i] * 2], d),
            lambda s, v: v[i].chunk(2, d)[-1],
            lambda s, v: v[i].split([1, v[i].shape[d] - 1], d)[1],
            lambda s, v: v[i].unbind(d)[-1],
            lambda s, v: F.glu(v[i], d),
            lambda s, v: v[i].repeat(*([1] * rank), more),
            lambda s, v: v[i].repeat_interleave(more, d),
            lambda s, v: v[i].expand(more, *v[i].shape) if at else v[i].unsqueeze(1).expand(-1, more, *v[i].shape[1:]),
            lambda s, v: v[i] * getattr(s, f"b{b}"),
            lambda s, v: getattr(s, f"b{b}") - v[i],
            lambda s, v: torch.maximum(v[i], v[j]),
            lambda s, v: torch.minimum(v[i], getattr(s, f"b{b}")),
            lambda s, v: torch.addcmul(v[i], v[i], getattr(s, f"b{b}"), value=0.5),
            lambda s, v: F.layer_norm(v[i], v[i].shape[-1:]),
            lambda s, v: F.rms_norm(v[i], v[i].shape[-1:]),
            lambda s, v: F.linear(v[i], getattr(s, f"b{w}")),
            lambda s, v: torch.einsum(f"{letters},{other}->{out}", v[i], v[j]),
            lambda s, v: torch.einsum("...i,oi->...o", v[i], getattr(s, f"b{w}")),
            lambda s, v: F.scaled_dot_product_attention(v[i], v[i], v[j], is_causal=keep),
            lambda s, v: (v[i] * v[i] + 0.5) ** power,
            lambda s, v: v[i].clamp(-0.5, 0.7),
            lambda s, v: torch.where(v[i] > 0, v[i], v[i] * 0.3),
            lambda s, v: torch.sub(v[i], v[j], alpha=0.5),
            lambda s, v: torch.sin(v[i]) + torch.cos(v[j]),
        ]  # fmt: skip
        return makers[int(rng.integers(len(makers)))]

    def finish(self) -> Steps | None:
        """End with rows of a few numbers."""
        last = len(self.values[0]) - 1
        shapes = [tuple(values[last].shape) for values in self.values]
        at = self.rows_axis(last)
        rows = shapes[0][at]
        if rows != ROWS[0] or not self.add(lambda s, v: v[last].movedim(at, 0).reshape(v[0].shape[0], -1)):
            return None
        width = self.values[0][-1].shape[1]
        return Steps(self.steps, self.buffers, width) if width <= 64 else None


def try_one(seed: int, number: int, counts: Counter[str], folder: Path) -> str:
    """Return what is wrong with a module; nothing if all is right."""
    drawn = Drawn(seed, number)
    wanted = int(drawn.rng.integers(2, 8))
    for _ in range(80):
        if len(drawn.steps) >= wanted:
            break
        drawn.add(drawn.draw())
    module = drawn.finish()
    if module is None:
        counts["no module"] += 1
        return ""
    path = folder / "module.pt2"
    try:
        rows = {0: torch.export.Dim("rows")}
        program = torch.export.export(module.eval(), (drawn.values[0][0],), dynamic_shapes=(rows,))
        torch.export.save(program, path)
    except Exception as error:
        counts[f"not exported: {type(error).__name__}"] += 1
        return ""
    try:
        network = fairmend.load_network(path)
    except fairmend.FairmendError as error:
        counts["refused: " + re.sub(r"[\d.,()]+|'[^']*'|/\S+", "#", str(error))[:80]] += 1
        return ""
    counts["read"] += 1
    for count in (1, 4):
        x = torch.randn(count, drawn.width)
        try:
            with torch.no_grad():
                wanted_scores = program.module()(x).numpy()
        except Exception as error:
            counts[f"fails for {count} rows: {type(error).__name__}"] += 1
            continue
        found = np.asarray(network.scores(x.numpy()))
        if found.size != wanted_scores.size or not np.allclose(
            found.reshape(wanted_scores.shape), wanted_scores, rtol=1e-3, atol=1e-3
        ):
            return f"{found.reshape(-1)[:4]} where the program gives {wanted_scores.reshape(-1)[:4]}, {count} rows"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reproduce", type=int)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    wrong = 0
    numbers = range(options.count) if options.reproduce is None else [options.reproduce]
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            found = try_one(options.seed, number, counts, Path(folder))
            if found:
                wrong += 1
                print(f"module {number}: {found}", flush=True)
    for what, count in sorted(counts.items(), key=lambda each: -each[1]):
        print(f"{count:8,}  {what}")
    print(f"{wrong} modules are read as other networks")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
