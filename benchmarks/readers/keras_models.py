"""Honest but unusual Keras models, by random training recipes; run by `keras_recipes` in a process of its own.

Models of Sequential and functional models within each other, with layers of one shape on purpose, so that exchanged
weights do not show. They are frozen and unfrozen in parts, adapted, trained, taken apart and put together again, and
saved and loaded in between, by any Keras from 2.12. Everything is drawn from a seed and a number.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "tests"))

import numpy as np

from support.fuzzing.keras_runtime import serve

SUFFIXES = (".h5", ".keras")
FUNCTIONS = ("relu", "tanh", "sigmoid", "elu", "softplus", "gelu", "linear")
NAMES = ("a", "b", "c", "dense", "dense_1", "block", "norm", "layer", "head_1", "x")
DEEPEST = 3


class Recipe:
    """One model, from random choices."""

    def __init__(self, keras: Any, rng: np.random.Generator, folder: Path) -> None:
        self.keras, self.layers, self.rng, self.folder = keras, keras.layers, rng, folder
        self.width = int(rng.integers(2, 4))
        self.steps: list[str] = []
        self.spare: list[Any] = []  # layers that may be used again in another model

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def named(self, taken: set[str]) -> dict[str, str]:
        """Return a name for a layer, which other models may use as well, or none."""
        free = [name for name in NAMES if name not in taken]
        if not free or self.chance(0.4):
            return {}
        name = self.pick(free)
        taken.add(name)
        return {"name": name}

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape).astype(np.float32)

    # Layers and models of `width` numbers, which give as many

    def layer(self, taken: set[str], depth: int) -> Any:
        layers, rng, options = self.layers, self.rng, self.named(taken)
        if self.chance(0.1):
            options["trainable"] = False
        kind = int(rng.integers(14))
        if kind <= 4:
            use_bias = not self.chance(0.2)
            return layers.Dense(self.width, activation=self.pick(FUNCTIONS), use_bias=use_bias, **options)
        if kind <= 6:
            return layers.BatchNormalization(scale=self.chance(0.8), center=self.chance(0.8), **options)
        if kind == 7:
            return layers.PReLU(**options)
        if kind == 8 and self.chance(0.3):
            layer = layers.Normalization(**options)
            layer.adapt(1.5 + 2 * self.numbers(20, self.width))
            self.steps.append("adapt")
            return layer
        if kind in (8, 9):
            mean, variance = self.numbers(self.width).tolist(), (0.2 + self.numbers(self.width) ** 2).tolist()
            return layers.Normalization(mean=mean, variance=variance, **options)
        if kind == 10:
            return self.pick(
                [layers.Dropout(0.2), layers.LeakyReLU(), layers.ReLU(), layers.Rescaling(0.5, offset=0.1)]
            )
        if kind == 11 and self.spare:
            self.steps.append("used again")
            return self.pick(self.spare)
        return self.body(depth + 1, options) if depth < DEEPEST else layers.Dense(self.width, **options)

    def body(self, depth: int, options: dict[str, Any]) -> Any:
        """Return a model from `width` to `width` numbers."""
        keras, options = self.keras, {key: value for key, value in options.items() if key == "name"}
        taken: set[str] = set()
        chain = self.distinct([self.layer(taken, depth) for _ in range(int(self.rng.integers(1, 5)))])
        if self.chance(0.5):
            model = keras.Sequential([keras.Input((self.width,)), *chain], **options)
        else:
            start = keras.Input((self.width,))
            model = keras.Model(start, self.functional(start, chain), **options)
        self.spare += [each for each in model.layers if each.weights and self.chance(0.1)]
        return model

    def distinct(self, chain: list[Any]) -> list[Any]:
        """Return the layers without those of a name that another has: one model cannot hold both."""
        return list({layer.name: layer for layer in chain}.values())

    def functional(self, start: Any, chain: list[Any]) -> Any:
        """Call layers one after the other, some of them beside others."""
        value = start
        for layer in chain:
            found = layer(value)
            join = int(self.rng.integers(6))
            if join == 0:
                found = self.layers.Add()([value, found])
            elif join == 1:
                found = self.layers.Dense(self.width)(self.layers.Concatenate()([found, start]))
            elif join == 2:
                found = self.layers.Average()([found, self.layers.Dense(self.width)(value)])
            value = found
        return value

    def whole(self) -> Any:
        """Return a whole model: bodies and layers, and a head."""
        keras, taken = self.keras, set[str]()
        chain = self.distinct(
            [
                self.body(1, self.named(taken)) if self.chance(0.7) else self.layer(taken, 1)
                for _ in range(int(self.rng.integers(1, 4)))
            ]
        )
        units = self.pick((1, 1, 2))
        closing = self.pick((None, None, "sigmoid" if units == 1 else "softmax"))
        head = [self.layers.Dense(units, activation=closing)]
        if closing == "softmax" and self.width > 2:
            head = [self.layers.Dense(units), self.layers.Softmax(axis=1)]
        if self.chance(0.4):
            return keras.Sequential([keras.Input((self.width,)), *chain, *head])
        start = keras.Input((self.width,))
        if self.chance(0.2):
            code = keras.Input((1,))
            looked_up = self.layers.Flatten()(self.layers.Embedding(4, self.width)(code))
            value = self.functional(self.layers.Add()([start, looked_up]), chain)
            return keras.Model([start, code], self.called(head, value))
        return keras.Model(start, self.called(head, self.functional(start, chain)))

    def called(self, layers: list[Any], value: Any) -> Any:
        """Call layers one after the other."""
        for layer in layers:
            value = layer(value)
        return value

    # What is done with a model

    def randomize(self, model: Any) -> None:
        """Give every layer weights of its own by set_weights."""
        for layer in _leaves(model):
            found = []
            for weight, array in zip(layer.weights, layer.get_weights(), strict=True):
                numbers = 0.6 * self.numbers(*array.shape)
                positive = any(word in weight.name for word in ("variance", "gamma"))
                found.append(np.abs(numbers) + 0.2 if positive else numbers)
            if found and type(layer).__name__ != "Normalization":
                layer.set_weights(found)
        self.steps.append("set_weights")

    def freeze(self, model: Any) -> None:
        """Freeze or unfreeze models and layers, as fine-tuning does."""
        models, leaves = _models(model), _leaves(model)
        for _ in range(int(self.rng.integers(1, 4))):
            kind = int(self.rng.integers(4))
            if kind == 0:
                self.pick(models).trainable = False
            elif kind == 1:
                chosen = self.pick(models)
                chosen.trainable = False
                chosen.layers[-1].trainable = True
            elif kind == 2 and leaves:
                self.pick(leaves).trainable = False
            else:
                self.pick([*models, *leaves]).trainable = True
        self.steps.append("freeze")

    def fit(self, model: Any) -> None:
        rows = [self.numbers(8, given.shape[-1]) for given in model.inputs]
        model.compile("adam", loss="mse")
        model.fit(rows if len(rows) > 1 else np.abs(rows[0]), self.numbers(8, model.outputs[0].shape[-1]), verbose=0)
        self.steps.append("fit")

    def again(self, model: Any) -> Any:
        """Save the model and go on with what Keras loads."""
        path = self.folder / f"between{self.pick(SUFFIXES)}"
        model.save(path)
        self.steps.append(f"load {path.suffix}")
        return self.keras.models.load_model(path)

    def transplant(self, model: Any) -> Any:
        """Take the model apart, or put parts of it into a new one."""
        keras, bodies = self.keras, [each for each in model.layers if hasattr(each, "layers")]
        kind = int(self.rng.integers(4))
        if kind == 0 and isinstance(model, keras.Sequential) and len(model.layers) > 1:
            self.steps.append("pop, add")
            model.pop()
            model.add(self.layers.Dense(1))
            return model
        if kind == 1 and bodies:
            self.steps.append("base in a new model")
            return keras.Sequential([keras.Input((self.width,)), self.pick(bodies), self.layers.Dense(1)])
        if kind == 2 and len(model.inputs) == 1 and len(model.layers) > 1:
            self.steps.append("cut and nested")
            cut = keras.Model(model.inputs[0], model.layers[-2].output)
            start = keras.Input((self.width,))
            return keras.Model(start, self.layers.Dense(1)(cut(start)))
        self.steps.append("cloned")
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        return clone

    def rename(self, model: Any) -> None:
        layer = self.pick(_models(model)[1:] or _leaves(model))
        self.steps.append("renamed")
        setattr(layer, "_name" if hasattr(layer, "_name") else "name", f"new_{layer.name}")  # Keras 2, Keras 3

    def run(self) -> Any:
        """Return the model after some steps of a recipe."""
        model = self.whole()
        self.randomize(model)
        for _ in range(int(self.rng.integers(1, 5))):
            kind = int(self.rng.integers(12))
            if kind <= 5:
                self.freeze(model)
            elif kind <= 7:
                model = self.again(model)
            elif kind <= 9:
                model = self.transplant(model)
            elif kind == 10 and self.chance(0.3):
                self.fit(model)
            elif kind == 11 and self.chance(0.3):
                self.rename(model)
        return model


def _models(model: Any) -> list[Any]:
    """Return a model and the models in it."""
    return [model, *(each for layer in model.layers if hasattr(layer, "layers") for each in _models(layer))]


def _leaves(model: Any) -> list[Any]:
    """Return the layers of a model and of the models in it that are no models."""
    return [layer for each in _models(model) for layer in each.layers if not hasattr(layer, "layers")]


def make(keras: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Save one model in both formats, and say what its inputs are and what was done with it."""
    folder = Path(request["folder"])
    keras.backend.clear_session()
    rng = np.random.default_rng([request["seed"], request["number"]])
    keras.utils.set_random_seed(int(rng.integers(2**31)))
    recipe = Recipe(keras, rng, folder)
    model = recipe.run()
    refusals = {suffix: save(model, folder / f"model{suffix}") for suffix in SUFFIXES}
    return {
        "saved": [suffix for suffix, refusal in refusals.items() if not refusal],
        "refusals": [refusal for refusal in refusals.values() if refusal],
        "inputs": [int(given.shape[-1]) for given in model.inputs],
        "steps": recipe.steps,
    }


def save(model: Any, path: Path) -> str:
    """Save a model; return why Keras refuses it, if it does."""
    try:
        model.save(path)
    except Exception as error:  # of its own models, such as those with two arrays of one name
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


if __name__ == "__main__":
    serve(make)
