"""Small Keras models of every supported layer, as practitioners build them, and rows for their inputs."""

import numpy as np

FUNCTIONS = (
    "relu6", "leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "silu", "gelu", "mish", "hard_sigmoid",
    "hard_silu", "hard_tanh", "tanh", "sigmoid",
)  # fmt: skip


def make_model(keras, name: str):
    keras.utils.set_random_seed(0)
    model = MODELS[name](keras)
    _randomize(keras, model, np.random.default_rng(len(name)))
    return model


def _randomize(keras, model, rng) -> None:
    """Give biases, slopes and moving averages values other than 0 and 1."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            _randomize(keras, layer, rng)
            continue
        for weight in layer.weights:
            if "float" not in str(weight.dtype):
                continue
            value = 0.5 * rng.normal(size=weight.shape)
            weight.assign(np.abs(value) + 0.1 if weight.name in ("variance", "moving_variance", "gamma") else value)


def functions(keras):
    """A branch for each function, by name and as a layer."""
    layers = keras.layers
    start = keras.Input((4,))
    single = [
        layers.Activation("gelu"), layers.ReLU(max_value=1.5), layers.ReLU(negative_slope=0.25),
        layers.LeakyReLU(negative_slope=1.5), layers.PReLU(), layers.PReLU(shared_axes=[1]), layers.ELU(alpha=0.5),
    ]  # fmt: skip
    branches = [layers.Dense(2, activation=name)(start) for name in FUNCTIONS]
    branches += [layer(layers.Dense(2)(start)) for layer in single]
    branches.append(layers.Dense(2, activation=layers.ReLU(max_value=0.5))(start))
    return keras.Model(start, layers.Dense(2, activation="log_softmax")(layers.Concatenate(axis=1)(branches)))


def chain(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(5, activation="gelu"),
            layers.Dense(3),
            layers.ELU(alpha=0.25),
            layers.Dense(1),
        ]
    )


def residual(keras):
    """Skips with batch normalisation before and after the sum, and layers that do nothing."""
    layers = keras.layers
    start = keras.Input((4,))
    value = layers.Dense(5)(start)
    relu = layers.ReLU()  # used twice, as it has no weights
    for _ in range(2):
        inner = layers.Dropout(0.2)(relu(layers.Dense(5)(layers.BatchNormalization()(value))))
        value = layers.Add()([value, layers.Dense(5)(inner)])
    value = relu(layers.BatchNormalization(scale=False)(value))
    value = layers.Subtract()([value, layers.GaussianNoise(0.1)(layers.Dense(5)(start))])
    return keras.Model(start, layers.Dense(1, activation="sigmoid")(layers.Rescaling(0.5, offset=1.0)(value)))


def embeddings(keras):
    """Named inputs: two categories, one looked up twice, and numbers, which are normalised."""
    layers = keras.layers
    numbers, job = keras.Input((3,), name="numbers"), keras.Input((1,), name="job", dtype="int32")
    region = keras.Input((2,), name="region", dtype="int64")
    tables = [layers.Flatten()(layers.Embedding(5, 2)(job)), layers.Flatten()(layers.Embedding(3, 2)(region))]
    short = layers.Reshape((1,))(layers.Embedding(5, 1)(job))
    value = layers.Concatenate()([layers.Normalization()(numbers), *tables, short])
    value = layers.Dense(1, activation="sigmoid")(layers.Dense(5, activation="silu")(value))
    return keras.Model({"numbers": numbers, "job": job, "region": region}, value)


def wide_and_deep(keras):
    layers = keras.layers
    start = keras.Input((4,))
    deep = layers.Dense(1)(layers.Dense(5, activation="relu")(start))
    return keras.Model(start, layers.Activation("sigmoid")(layers.Add()([deep, layers.Dense(1)(start)])))


def ensemble(keras):
    """The mean of nested models: a Sequential, a functional model, and one within another."""
    layers = keras.layers

    def member(activation):
        return [layers.Dense(5, activation=activation), layers.BatchNormalization()]

    start = keras.Input((4,))
    first = keras.Sequential([keras.Input((4,)), *member("relu"), layers.Dense(1)], name="first")
    own = keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), *member("tanh")], name="inner")
    second = keras.Model(own, layers.Dense(1)(layers.Dropout(0.1)(inner(own))), name="second")
    return keras.Model(start, layers.Average()([first(start), second(start)]))


def made_in_another_order(keras):
    """Branches of different depths, whose layers are numbered by Keras's own walk from the output."""
    layers = keras.layers
    late, early = layers.Dense(4, activation="tanh", name="late"), layers.Dense(4, name="early")
    a, b = keras.Input((4,), name="b"), keras.Input((4,), name="a")
    long = layers.Dense(4)(layers.Dense(4, activation="relu")(layers.Dense(4)(b)))
    value = layers.Concatenate()([late(a), long, layers.Dense(4)(early(a))])
    return keras.Model([a, b], layers.Dense(1)(value))


def operations(keras):
    """Operations on tensors instead of layers: arithmetic, choices of columns, concatenation."""
    layers = keras.layers
    start = keras.Input((4,))
    left = layers.Dense(3, activation="relu")(start[:, 0:3])
    value = (1.0 - (left + layers.Dense(3)(start[:, 1:]))) * 2.0 - left / 3.0
    value = keras.ops.concatenate([-value, start[:, -1:]], axis=-1)
    return keras.Model(start, layers.Dense(1)(value))


def attention(keras):
    """A block of a transformer over three categories, with a causal mask, a constant one, and keys of their own."""
    layers = keras.layers
    start = keras.Input((3,))
    tokens = layers.Dense(4)(layers.Reshape((3, 1))(start))
    seen = layers.MultiHeadAttention(2, 3, dropout=0.1)(tokens, tokens)
    tokens = layers.LayerNormalization(epsilon=1e-5)(layers.Add()([tokens, seen]))
    other = layers.MultiHeadAttention(1, 2, value_dim=3, output_shape=4, use_bias=False)
    tokens = other(query=tokens, value=seen, key=layers.Dense(5)(tokens), use_causal_mask=True)
    mask = np.array([[True, False, True], [True, True, True], [False, True, False]])
    tokens = layers.MultiHeadAttention(2, 2, sliding_window=3)(tokens, seen, attention_mask=mask)
    hidden = layers.Dense(6, activation="gelu")(layers.RMSNormalization()(tokens))
    tokens = layers.Add()([tokens, layers.Dense(4)(hidden)])
    return keras.Model(start, layers.Dense(1, activation="sigmoid")(layers.GlobalAveragePooling1D()(tokens)))


def gated_attention(keras):
    """Attention with a gate, with and without biases, and with keys and values of another width."""
    layers = keras.layers
    start = keras.Input((4,))
    tokens = layers.Dense(3)(layers.Reshape((4, 1))(start))
    seen = layers.MultiHeadAttention(2, 3, value_dim=2, use_gate=True)(tokens, layers.Dense(5)(tokens))
    tokens = layers.Add()([tokens, seen])
    tokens = layers.MultiHeadAttention(1, 2, use_gate=True, use_bias=False)(tokens, tokens, use_causal_mask=True)
    return keras.Model(start, layers.Dense(1)(layers.Flatten()(tokens)))


def products(keras):
    """Gates, dot products, the larger of two values, a softmax inside, and a layer that is used twice."""
    layers = keras.layers
    start = keras.Input((4,))
    shared = layers.Dense(3)
    first = shared(layers.Dense(4, activation="tanh")(start))
    second = shared(layers.Multiply()([start, layers.Dense(4, activation="sigmoid")(start)]))
    pair = layers.Reshape((2, 3))(layers.Concatenate()([first, second]))
    weights = layers.Softmax(axis=1)(layers.Dot(axes=2)([pair, pair]))
    mixed = layers.Permute((2, 1))(layers.Dot(axes=(1, 1))([weights, pair]))
    repeated = layers.EinsumDense("...x,xy->...y", output_shape=2, bias_axes="y")(layers.RepeatVector(3)(first))
    tokens = layers.Multiply()([layers.Average()([mixed, repeated]), layers.Minimum()([mixed, repeated])])
    value = layers.Concatenate()(
        [layers.Flatten()(tokens), layers.Maximum()([first, second]), layers.Dot(1)([first, second])]
    )
    return keras.Model(start, layers.Dense(2, activation="softmax")(layers.LayerNormalization(scale=False)(value)))


def token_operations(keras):
    """Operations on rows of tokens: a token, a range of them, products and quotients."""
    layers = keras.layers
    start = keras.Input((4,))
    tokens = layers.Dense(3)(layers.Reshape((2, 2))(start))
    value = tokens * layers.Dense(3)(tokens) / (1.0 + tokens * tokens) + 2.0 / (3.0 + tokens * tokens)
    value = layers.LayerNormalization(axis=[1, 2])(layers.Concatenate(axis=1)([value[:, 1:, :], tokens]))
    return keras.Model(start, layers.Dense(1)(layers.Concatenate()([value[:, 0], value[:, -1, :2]])))


MODELS = {
    make.__name__: make
    for make in (
        functions,
        chain,
        residual,
        embeddings,
        wide_and_deep,
        ensemble,
        made_in_another_order,
        operations,
        attention,
        products,
        token_operations,
        gated_attention,
    )
}
ONLY_ARCHIVED = ("operations", "token_operations")  # Keras does not write operations on tensors in .h5 files


def rows_for(network, seed: int = 1, count: int = 200) -> np.ndarray:
    """Random rows; whole numbers where a table is looked up."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, network.inputs)).astype(np.float32)
    start = 0
    for name, width in network.nodes[0].operation.names:
        if name in ("job", "region"):
            X[:, start : start + width] = rng.integers(5 if name == "job" else 3, size=(count, width))
        start += width
    return X


def keras_predictions(model, network, X: np.ndarray) -> np.ndarray:
    """What Keras predicts for rows of a network, whose columns are those of the inputs one after the other."""
    names = network.nodes[0].operation.names
    given = X
    if names:
        ends = np.cumsum([width for _, width in names])[:-1]
        given = dict(zip((name for name, _ in names), np.split(X, ends, axis=1), strict=True))
    import keras

    given = {name: keras.ops.convert_to_tensor(part) for name, part in given.items()} if names else given
    found = keras.ops.convert_to_numpy(model(given, training=False))
    return found[:, 0] if found.shape[1] == 1 else found


def network_predictions(network, X: np.ndarray, name: str) -> np.ndarray:
    """The same from the network; log_softmax closes the model of functions."""
    if network.closing == "none":
        return network.logits(X)
    found = network.probabilities(X)
    return np.log(found) if name == "functions" else found
