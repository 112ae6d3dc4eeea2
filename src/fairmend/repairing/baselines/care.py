"""CARE (Sun, Sun, Pham and Shi 2022, "Causality-Based Neural Network Repair"): find the neurons that cause the
unfairness, and change their output by particle swarm optimisation.

The attribution of a neuron is its average causal effect on the unfairness: set the neuron to each value of a grid over
its observed range (do(h_j = v)), and measure the unfairness each time. The repair rescales and shifts the output of the
most responsible neurons, h_j → (1 + a_j) h_j + c_j, which changes their outgoing weights and the biases of the next
layer, where it has any: without a bias, c_j has no effect. The swarm uses no gradient, so its objective may count
predictions: w·unfairness + (1 − w)·(1 − accuracy). The original takes one protected attribute; a neighbourhood here may
vary in any number of features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.bounds.forward import forward_nodes
from fairmend.network import Affine, Network
from fairmend.repairing.baselines.neighbours import find_different_pairs
from fairmend.repairing.options import check_values
from fairmend.repairing.task import RepairTask
from fairmend.repairing.training import DerivedBiases, History, Layers, torch_dtype

ITERATIONS = 100
PARTICLES = 20
PATIENCE = 20
"""Iterations without a better particle after which the swarm stops."""

WEIGHT = 0.5
"""Share of unfairness in the objective; the rest is accuracy."""

GRID = 8
SHARE, FEWEST, MOST = 0.1, 5, 32
PER_ROW = 4
INERTIA, OWN, SOCIAL = 0.7298, 1.4962, 1.4962
"""The constriction coefficients of Clerc and Kennedy (2002), with which a swarm provably converges."""

REACH = 1.0
"""How far particles may start from no change and move in one step, in units of a_j and of the spread of h_j."""


@dataclass(frozen=True)
class Neurons:
    """Hidden neurons: the layer and the unit of each, ``(neurons,)``."""

    layer: Ints
    unit: Ints


def care(
    task: RepairTask,
    *,
    steps: int = ITERATIONS,
    fairness_weight: float = WEIGHT,
    progress: Progress | None = None,
) -> tuple[Network, History]:
    """Repair with at most ``steps`` iterations of a swarm.

    ``fairness_weight`` is the share of unfairness in its objective; the rest is accuracy. The history holds the
    unfairness and the share of wrong predictions on the calibration rows of the best particle so far.
    """
    if not _hidden_nodes(task.network):
        raise FairmendError(
            "method care changes hidden neurons that only affine layers read, and this network has none; "
            "use method prof, blind, flip or grft"
        )
    check_values(steps=steps)
    if not 0 <= fairness_weight <= 1:
        raise FairmendError(
            f"fairness_weight is {fairness_weight}; for method care, give a number from 0 to 1: the share of unfairness"
        )
    model = _CareModel(task)
    with few_threads(len(model.inputs) * model.size):
        neurons = model.find_responsible()
        best, history = _run_swarm(model, neurons, steps, fairness_weight, task.seed, progress)
    return model.network_with(neurons, best), history


class _CareModel:
    """The network on the rows that it is measured on: pairs of the repair inputs, then the calibration rows."""

    def __init__(self, task: RepairTask) -> None:
        self.network, self.dtype = task.network, torch_dtype(task.network)
        rng = np.random.default_rng(task.seed)
        rows, others, _ = find_different_pairs(task.network, task.spec, task.X_repair, rng, PER_ROW)
        self.pairs = len(rows)
        stacked = np.concatenate([task.X_repair[rows], others, task.X_cal])
        self.inputs = torch.tensor(stacked, dtype=self.dtype)
        self.y = torch.tensor(task.y_cal)
        self.layers = [
            (torch.tensor(affine.weight, dtype=self.dtype), torch.tensor(affine.bias, dtype=self.dtype))
            for affine in task.network.affines
        ]
        self.derived = DerivedBiases(task.network, self.dtype, CPU)
        self.size = sum(affine.weight.size for affine in task.network.affines)
        self.nodes = _hidden_nodes(task.network)
        self.readers = [_affine_readers(task.network, node) for node in self.nodes]
        self.values = forward_nodes(self.network, self.layers, {0: self.inputs})
        self.hidden = [self.values[node] for node in self.nodes]

    def _after(self, layer: int, h: Tensor, layers: Layers) -> Tensor:
        """Return the outputs for values ``(variants, rows, width)`` of a hidden layer."""
        node = self.nodes[layer]
        given = {i: self.values[i].expand(len(h), -1, -1) for i in range(node)}
        return forward_nodes(self.network, layers, {**given, node: h}, _affine)[len(self.network.nodes) - 1]

    def unfairness(self, scores: Tensor) -> Tensor:
        """Return the mean difference of probabilities within pairs, ``(variants,)``, from the scores of all rows."""
        if self.pairs == 0:
            return scores.new_zeros(scores.shape[0])
        p = torch.sigmoid(scores) if scores.shape[-1] == 1 else torch.softmax(scores, dim=-1)
        return (p[:, : self.pairs] - p[:, self.pairs : 2 * self.pairs]).abs().amax(-1).mean(-1)

    def wrong(self, scores: Tensor) -> Tensor:
        """Return the share of wrong predictions on the calibration rows, ``(variants,)``."""
        predictions = torch.from_numpy(self.network.decide(scores[:, 2 * self.pairs :].numpy()))
        return (predictions != self.y).to(self.dtype).mean(-1)

    def find_responsible(self) -> Neurons:
        """Return the neurons with the largest average causal effect on the unfairness."""
        layer_of, unit_of, effects = [], [], []
        own = self.unfairness(self._after(len(self.hidden) - 1, self.hidden[-1][None], self.layers))
        for layer, h in enumerate(self.hidden):
            steps = torch.linspace(0, 1, GRID, dtype=self.dtype)
            for unit in range(h.shape[1]):
                values = h[:, unit].min() + steps * (h[:, unit].max() - h[:, unit].min())
                changed = h.repeat(GRID, 1, 1)
                changed[:, :, unit] = values[:, None]
                effects.append(float((self.unfairness(self._after(layer, changed, self.layers)) - own).abs().mean()))
                layer_of.append(layer)
                unit_of.append(unit)
        count = min(len(effects), MOST, max(FEWEST, round(SHARE * len(effects))))
        chosen = np.sort(np.argsort(-np.array(effects), kind="stable")[:count])
        return Neurons(np.array(layer_of)[chosen], np.array(unit_of)[chosen])

    def changed_layers(self, neurons: Neurons, positions: Tensor) -> Layers:
        """Return the layers with the change at each position ``(particles, 2n)``, weights ``(particles, out, in)``."""
        factor, shift = positions.chunk(2, dim=1)
        layers = [(w.repeat(len(positions), 1, 1), b.repeat(len(positions), 1)) for w, b in self.layers]
        for number, (layer, unit) in enumerate(zip(neurons.layer, neurons.unit, strict=True)):
            spread = self.hidden[layer][:, unit].std()
            for reader in self.readers[layer]:
                weight, bias = layers[reader]
                bias += self.layers[reader][0][:, unit] * (spread * shift[:, number, None])
                weight[:, :, unit] *= 1 + factor[:, number, None]
        return self.derived.replace(layers)

    def measure(self, neurons: Neurons, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the unfairness and the share of wrong predictions of all particles."""
        first = int(neurons.layer.min())  # nothing before it changes
        start = self.hidden[first].expand(len(positions), -1, -1)
        scores = self._after(first, start, self.changed_layers(neurons, positions))
        return self.unfairness(scores), self.wrong(scores)

    def network_with(self, neurons: Neurons, position: Tensor) -> Network:
        """Return the network with one particle's change."""
        layers = self.changed_layers(neurons, position[None])
        return self.network.with_affines([Affine(w[0].numpy().copy(), b[0].numpy().copy()) for w, b in layers])


def _hidden_nodes(network: Network) -> list[int]:
    """Return the functions that affine layers read, and nothing else: a change of their units is one of weights."""
    others = [node for i, node in enumerate(network.nodes) if i not in network.affine_nodes]
    return [i for i in network.functions if not any(i in node.sources for node in others)]


def _affine_readers(network: Network, node: int) -> list[int]:
    """Return which affine layers read a node, by their numbers among the affine layers."""
    sources = [network.nodes[i].sources[0] for i in network.affine_nodes]
    return [number for number, source in enumerate(sources) if source == node]


def _affine(weight: Tensor, bias: Tensor, h: Tensor) -> Tensor:
    return torch.matmul(h, weight.transpose(-1, -2)) + bias.unsqueeze(-2)


def _run_swarm(
    model: _CareModel, neurons: Neurons, steps: int, weight: float, seed: int, progress: Progress | None
) -> tuple[Tensor, History]:
    """Return the best position of a swarm in which one particle starts at no change."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> Tensor:
        shape = (PARTICLES, 2 * len(neurons.unit))
        return low + (high - low) * torch.rand(shape, generator=generator, dtype=model.dtype)

    def objective(at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        unfair, wrong = model.measure(neurons, at)
        return weight * unfair + (1 - weight) * wrong, unfair, wrong

    position, velocity = uniform(-REACH, REACH), uniform(-REACH, REACH) / 2
    position[0] = 0
    cost, unfair, wrong = objective(position)
    own_best, own_cost = position.clone(), cost
    best_particle = int(cost.argmin())
    best, best_cost = position[best_particle].clone(), float(cost[best_particle])
    shown = (float(unfair[best_particle]), float(wrong[best_particle]))
    fair_history, wrong_history = [shown[0]], [shown[1]]
    waited = 0
    for step in range(steps):
        velocity = (
            INERTIA * velocity
            + OWN * uniform(0, 1) * (own_best - position)
            + SOCIAL * uniform(0, 1) * (best - position)
        ).clamp(-REACH, REACH)
        position = position + velocity
        cost, unfair, wrong = objective(position)
        better = cost < own_cost
        own_best, own_cost = torch.where(better[:, None], position, own_best), torch.where(better, cost, own_cost)
        best_particle = int(cost.argmin())
        waited += 1
        if float(cost[best_particle]) < best_cost:
            best, best_cost, waited = position[best_particle].clone(), float(cost[best_particle]), 0
            shown = (float(unfair[best_particle]), float(wrong[best_particle]))
        fair_history.append(shown[0])
        wrong_history.append(shown[1])
        if progress is not None:
            progress("retrain", steps if waited >= PATIENCE else step + 1, steps)
        if waited >= PATIENCE:
            break
    return best, History(tuple(fair_history), tuple(wrong_history))
