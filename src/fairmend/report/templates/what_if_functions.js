"use strict";
// The elementwise functions of a network, with bounds of what other programs compute. Nothing here touches the page.
const whatIfFunctions = (() => {
  // A smooth function: other programs are off by slope * error, and by half of its largest |f''| times error².
  const curve = (value, slope, bend, error, rounding) => [value, slope, (bend / 2) * error * error + rounding];

  // A function of pieces [end, value, slope, bend]: each reaches to its end. At a kink the slope is not known; then
  // everything is rounding, and `steepest` is the largest slope.
  function piece(z, error, rounding, steepest, pieces) {
    const [end, value, slope, bend = 0] = pieces.find(([last]) => z <= last);
    const start = pieces.reduce((most, [last]) => (last < z ? last : most), -Infinity);
    if (z + error <= end && start <= z - error) return curve(value, slope, bend, error, rounding);
    return [value, 0, steepest * error + rounding];
  }

  const sigmoid = (z) => 1 / (1 + Math.exp(-z));
  const softplus = (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

  // By a series of positive terms; beyond 6 it is 1 to all digits.
  function erf(x) {
    if (Math.abs(x) > 6) return Math.sign(x);
    let [term, sum] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }

  function elu(z, error, rounding, gain, depth, rate) {
    const below = depth * Math.exp(rate * Math.min(z, 0));
    return piece(z, error, rounding, Math.max(gain, depth * rate), [
      [0, depth * Math.expm1(rate * Math.min(z, 0)), rate * below, depth * rate * rate],
      [Infinity, gain * z, gain],
    ]);
  }

  const clipped = (z, error, rounding, gain, offset, low, high) =>
    piece(z, error, rounding, gain, [
      [(low - offset) / gain, low, 0],
      [(high - offset) / gain, gain * z + offset, gain],
      [Infinity, high, 0],
    ]);

  // Each takes z, which other programs compute up to `error` off, and returns the value, its slope, and what the value
  // may be off by besides slope times error. Where the slope is not known, that is everything. How much the programs
  // round is that of the function's file in fairmend/network/functions.
  const FUNCTIONS = {
    identity: (z, error, { tiny }) => [z, 1, tiny],
    relu: (z, error, { tiny }) => (z > error ? [z, 1, tiny] : z < -error ? [0, 0, 0] : [Math.max(z, 0), 0, error + tiny]),
    leaky_relu: (z, error, { unit, tiny }, [slope]) => {
      const rounding = 3 * unit * Math.abs(slope) * (Math.abs(z) + error) + 2 * tiny;
      if (z > error) return [z, 1, rounding];
      const value = z > 0 ? z : slope * z;
      return z < -error ? [value, slope, rounding] : [value, 0, Math.max(1, Math.abs(slope)) * error + rounding];
    },
    prelu: (z, error, precision, slopes) => FUNCTIONS.leaky_relu(z, error, precision, slopes),
    clip: (z, error, { tiny }, [low, high]) => clipped(z, error, tiny, 1, 0, low, high),
    hardsigmoid: (z, error, { unit, tiny }, [slope, offset]) =>
      clipped(z, error + 4 * unit * (Math.abs(z) + 1), 8 * unit * (1 + Math.abs(offset)) + 4 * tiny, slope, offset, 0, 1),
    tanh: (z, error, { unit, tiny }) => {
      const value = Math.tanh(z);
      return [value, 1 - value * value, 0.385 * error * error + 16 * unit + tiny]; // |tanh''| < 0.77
    },
    sigmoid: (z, error, { unit, tiny }) => {
      const value = 1 / (1 + Math.exp(-z));
      return [value, value * (1 - value), 0.0482 * error * error + 16 * unit + tiny]; // |sigmoid''| < 0.0963
    },
    softsign: (z, error, { unit, tiny }) => {
      const below = 1 + Math.abs(z);
      return curve(z / below, 1 / (below * below), 2, error, 16 * unit + 4 * tiny);
    },
    softplus: (z, error, { unit, tiny }, [beta]) => {
      const cut = beta * (z + error) > 19 ? 2.1e-9 / beta : 0; // PyTorch computes z from beta * z = 20 on
      const rounding = 16 * unit * (Math.max(z + error, 0) + 1 / beta) + cut + 4 * tiny;
      return curve(softplus(beta * z) / beta, sigmoid(beta * z), beta / 4, error, rounding);
    },
    elu: (z, error, { unit, tiny }, [alpha]) => elu(z, error, 16 * unit * alpha + 4 * tiny, 1, alpha, 1),
    celu: (z, error, { unit, tiny }, [alpha]) => elu(z, error, 16 * unit * alpha + 4 * tiny, 1, alpha, 1 / alpha),
    selu: (z, error, { unit, tiny }) => {
      const rounding = (32 * unit + 2 ** -23) * (1 + Math.max(z + error, 0)) + 4 * tiny; // float32 constants in ONNX
      return elu(z, error, rounding, 1.0507009873554805, 1.7580993408473768, 1);
    },
    silu: (z, error, { unit, tiny }) => {
      const s = sigmoid(z);
      return curve(z * s, s + z * s * (1 - s), 0.51, error, 16 * unit * (Math.abs(z) + error) + 4 * tiny);
    },
    mish: (z, error, { unit, tiny }) => {
      const w = Math.tanh(softplus(z));
      const slope = w + z * (1 - w * w) * sigmoid(z);
      return curve(z * w, slope, 0.65, error, 24 * unit * (Math.abs(z) + error) + 4 * tiny);
    },
    gelu: (z, error, { unit, tiny }) => {
      const [share, density] = [(1 + erf(z * Math.SQRT1_2)) / 2, Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)];
      return curve(z * share, share + z * density, 0.81, error, 32 * unit * (Math.abs(z) + error) + 4 * tiny);
    },
    gelu_tanh: (z, error, { unit, tiny }) => {
      const [linear, cubic] = [1.5957691216057308, 0.07135481627260025];
      const s = sigmoid(z * (linear + cubic * z * z));
      const slope = s > 0 && s < 1 ? s + z * s * (1 - s) * (linear + 3 * cubic * z * z) : s;
      return curve(z * s, slope, 0.81, error, (24 * unit + 2 ** -25) * (Math.abs(z) + error) + 4 * tiny);
    },
    hardswish: (z, error, { unit, tiny }) =>
      piece(z, error, z + error < -4 ? 0 : Math.max(12 * unit, 2 ** -23) * (Math.abs(z) + error) + 4 * tiny, 1.5, [
        [-3, 0, 0],
        [3, (z * (z + 3)) / 6, (2 * z + 3) / 6, 1 / 3],
        [Infinity, z, 1],
      ]),
  };

  return FUNCTIONS;
})();
