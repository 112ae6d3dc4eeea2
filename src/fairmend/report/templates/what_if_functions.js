"use strict";
// The elementwise functions of a network: each takes a number and its parameters. Nothing here touches the page.
const whatIfFunctions = (() => {
  const sigmoid = (z) => 1 / (1 + Math.exp(-z));
  const softplus = (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));
  const elu = (z, gain, depth, rate) => (z > 0 ? gain * z : depth * Math.expm1(rate * z));
  const clip = (z, low, high) => Math.min(Math.max(z, low), high);

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

  return {
    identity: (z) => z,
    relu: (z) => Math.max(z, 0),
    leaky_relu: (z, [slope]) => (z > 0 ? z : slope * z),
    prelu: (z, [slope]) => (z > 0 ? z : slope * z),
    clip: (z, [low, high]) => clip(z, low, high),
    hardsigmoid: (z, [slope, offset]) => clip(slope * z + offset, 0, 1),
    tanh: (z) => Math.tanh(z),
    sigmoid: (z) => sigmoid(z),
    softsign: (z) => z / (1 + Math.abs(z)),
    softplus: (z, [beta]) => softplus(beta * z) / beta,
    elu: (z, [alpha]) => elu(z, 1, alpha, 1),
    celu: (z, [alpha]) => elu(z, 1, alpha, 1 / alpha),
    selu: (z) => elu(z, 1.0507009873554805, 1.7580993408473768, 1),
    silu: (z) => z * sigmoid(z),
    mish: (z) => z * Math.tanh(softplus(z)),
    gelu: (z) => (z * (1 + erf(z * Math.SQRT1_2))) / 2,
    gelu_tanh: (z) => z * sigmoid(z * (1.5957691216057308 + 0.07135481627260025 * z * z)),
    hardswish: (z) => z * clip((z + 3) / 6, 0, 1),
    abs: (z) => Math.abs(z),
    square: (z) => z * z,
    exp: (z) => Math.exp(z),
    log: (z) => Math.log(z),
    reciprocal: (z) => 1 / z,
    sqrt: (z) => Math.sqrt(z),
    rsqrt: (z) => 1 / Math.sqrt(z),
    sin: (z) => Math.sin(z),
    cos: (z) => Math.cos(z),
  };
})();
