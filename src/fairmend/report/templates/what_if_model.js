"use strict";
// What a network says about a person and about everyone similar. Nothing here touches the page.
//
// Other programs run the network in float32 or float64, add in any order, and round. So each score is an interval that
// holds whatever they compute, and it is written with the digits on which both ends agree. The bound is that of
// docs/guarantee.md at a single point: what each layer can be off by, times how much the score depends on it.
const whatIfModel = (() => {
  const PRECISIONS = {
    float32: { unit: 2 ** -24, tiny: 2 ** -126, largest: 2 ** 127, Numbers: Float32Array, round: Math.fround },
    // JavaScript rounds to float64 as well, so the unit is twice that of one program.
    float64: { unit: 2 ** -52, tiny: 2 ** -1021, largest: 2 ** 1023, Numbers: Float64Array, round: (x) => x },
  };
  const SLACK = 1 + 1e-6; // for the rounding of the bound itself, and of scores beside those in float32
  const DEEP = 6; // with more layers, the errors of hidden ones are traced back too: slower, and much tighter
  const CLOSING = 16; // units by which a library's sigmoid or softmax may be off

  // The features, links and people of the report, and its networks, from the JSON in the page.
  function readModel(text) {
    const plain = JSON.parse(text);
    const names = ["before", "after"].filter((name) => plain[name]);
    const networks = names.map((name) => ({ name, ...readNetwork(plain[name]) }));
    return { ...plain, networks, precision: networks[0].precision };
  }

  // Networks

  function readNetwork(plain) {
    const precision = PRECISIONS[plain.precision];
    const numbers = (text, Numbers = precision.Numbers) => {
      const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      return Float64Array.from(new Numbers(bytes.buffer));
    };
    let inputs = plain.inputs;
    const layers = plain.layers.map((layer) => {
      const read = { ...layer, inputs, weight: numbers(layer.weight), bias: numbers(layer.bias) };
      if (layer.folded) read.folded = { ...layer.folded, constants: numbers(layer.folded.constants, Float64Array) };
      inputs = layer.outputs;
      return read;
    });
    return { precision, layers, deep: layers.length > DEEP };
  }

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
  const ACTIVATIONS = {
    identity: (z, error, { tiny }) => [z, 1, tiny],
    relu: (z, error, { tiny }) => (z > error ? [z, 1, tiny] : z < -error ? [0, 0, 0] : [Math.max(z, 0), 0, error + tiny]),
    leaky_relu: (z, error, { unit, tiny }, [slope]) => {
      const rounding = 3 * unit * Math.abs(slope) * (Math.abs(z) + error) + 2 * tiny;
      if (z > error) return [z, 1, rounding];
      const value = z > 0 ? z : slope * z;
      return z < -error ? [value, slope, rounding] : [value, 0, Math.max(1, Math.abs(slope)) * error + rounding];
    },
    prelu: (z, error, precision, slopes) => ACTIVATIONS.leaky_relu(z, error, precision, slopes),
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
      piece(z, error, z + error < -4 ? 0 : 12 * unit * (Math.abs(z) + error) + 4 * tiny, 1.5, [
        [-3, 0, 0],
        [3, (z * (z + 3)) / 6, (2 * z + 3) / 6, 1 / 3],
        [Infinity, z, 1],
      ]),
  };

  // The numbers of a function for one unit.
  function numbersOf({ activation, slope, parameters }, unit) {
    if (activation === "leaky_relu") return [slope];
    return activation === "prelu" ? [parameters[unit]] : parameters;
  }

  // The outputs for an encoded person, and for each layer what `errorOf` needs.
  function run(network, x) {
    const { precision, layers } = network;
    let values = x;
    let slopes = new Float64Array(x.length);
    let extras = x.map((value) => Math.min(Math.abs(value), precision.tiny)); // a subnormal input may be taken as 0
    let errors = extras;
    const stages = [];
    for (const layer of layers) {
      const { sums, rounding, bounds } = addUp(layer, values, errors, precision);
      stages.push({ slopes, extras, rounding });
      if (network.deep && layer !== layers.at(-1)) {
        sums.forEach((_, i) => (bounds[i] = Math.min(bounds[i], errorOf(network, stages, unitRow(sums.length, i)))));
      }
      values = new Float64Array(layer.outputs);
      [slopes, extras, errors] = [values.slice(), values.slice(), values.slice()];
      sums.forEach((sum, i) => {
        const activate = ACTIVATIONS[layer.activation];
        [values[i], slopes[i], extras[i]] = activate(sum, bounds[i], precision, numbersOf(layer, i));
        errors[i] = Math.abs(slopes[i]) * bounds[i] + extras[i];
      });
    }
    return { outputs: values, stages };
  }

  // An affine layer of values that are up to `errors` off: its sums, what adding them up can be off by in any order,
  // and by how much they can be off in all.
  function addUp({ weight, bias, inputs, outputs, folded }, values, errors, { unit, tiny, largest }) {
    const sizes = values.map((value, j) => Math.abs(value) + errors[j]);
    const terms = sizes.reduce((count, size) => count + (size > 0), 1);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const flushed = tiny * (folded ? folded.underflow * (1 + total) : total + 4 * (inputs + 1));
    const [sums, rounding, bounds] = [0, 1, 2].map(() => new Float64Array(outputs));
    for (let i = 0, k = 0; i < outputs; i++) {
      let sum = bias[i];
      let size = Math.abs(sum);
      let carried = 0;
      for (let j = 0; j < inputs; j++, k++) {
        const w = weight[k];
        const magnitude = Math.abs(w);
        sum += w * values[j];
        size += magnitude * sizes[j];
        carried += magnitude * errors[j];
      }
      // No partial sum exceeds `most`; each addition and each product rounds once.
      const most = (size + Math.abs(sum) + carried) / 2;
      const once = (terms - 1) * most + size;
      // The steps of a folded layer round in more places; its constants have cancelled in the bias.
      const stepwise = folded && folded.roundings * (size + folded.constants[i]);
      const count = folded ? folded.roundings : terms;
      sums[i] = sum;
      rounding[i] = size < largest ? unit * (stepwise ?? once) * (1 + 4 * count * unit) + flushed : Infinity;
      bounds[i] = (carried + rounding[i]) * SLACK;
    }
    return { sums, rounding, bounds };
  }

  const unitRow = (size, i) => Float64Array.from({ length: size }, (_, j) => Number(i === j));

  // How far other programs may be from a sum of outputs, each times its entry of `row`.
  function errorOf(network, stages, row) {
    let sensitivity = row;
    let bound = 0;
    for (let number = stages.length - 1; number >= 0; number--) {
      const { weight, inputs, outputs } = network.layers[number];
      const { slopes, extras, rounding } = stages[number];
      const back = new Float64Array(inputs);
      for (let i = 0; i < outputs; i++) {
        const s = sensitivity[i];
        if (s === 0) continue;
        bound += Math.abs(s) * rounding[i];
        for (let j = 0, k = i * inputs; j < inputs; j++, k++) back[j] += s * weight[k];
      }
      for (let j = 0; j < inputs; j++) {
        bound += Math.abs(back[j]) * extras[j];
        back[j] *= slopes[j];
      }
      sensitivity = back;
    }
    return bound * SLACK;
  }

  // Scores: probabilities, or the outputs of a regression network, as {value, low, high}

  function computeScores(model, network, x) {
    const { outputs, stages } = run(network, x);
    if (model.regression) {
      return [...outputs].map((value, i) => around(value, errorOf(network, stages, unitRow(outputs.length, i))));
    }
    const closing = (CLOSING + outputs.length) * network.precision.unit;
    if (outputs.length <= 2) {
      const row = outputs.length === 1 ? [1] : [-1, 1];
      const logit = outputs.length === 1 ? outputs[0] : outputs[1] - outputs[0];
      const error = errorOf(network, stages, row);
      return [shareOf(logit, logit - error, logit + error, closing)];
    }
    const logits = [...outputs].map((value, i) => around(value, errorOf(network, stages, unitRow(outputs.length, i))));
    return logits.map((own, i) => {
      const others = logits.filter((_, j) => j !== i);
      // The lead over all others together: the share of a class is the sigmoid of it.
      const lead = (mine, theirs) => {
        const top = Math.max(...others.map((other) => other[theirs]));
        return own[mine] - top - Math.log(others.reduce((sum, other) => sum + Math.exp(other[theirs] - top), 0));
      };
      return shareOf(lead("value", "value"), lead("low", "high"), lead("high", "low"), closing);
    });
  }

  const around = (value, error) => ({ value, low: value - error, high: value + error });

  function shareOf(value, low, high, closing) {
    const sigmoid = (z) => 1 / (1 + Math.exp(-z));
    return {
      value: sigmoid(value),
      low: Math.max(sigmoid(low) - closing, Number.MIN_VALUE),
      high: Math.min(sigmoid(high) + closing, 1 - Number.EPSILON / 2),
    };
  }

  // The predicted class, and whether rounding cannot change it; null for a regression network.
  function decide(model, scores) {
    if (model.regression) return null;
    if (model.threshold !== null) {
      const [{ value, low, high }] = scores;
      return { answer: Number(value >= model.threshold), sure: low >= model.threshold || high < model.threshold };
    }
    const answer = scores.reduce((best, score, i) => (score.value > scores[best].value ? i : best), 0);
    return { answer, sure: scores.every((score, i) => i === answer || score.high < scores[answer].low) };
  }

  // People: an array with a value, or the code of a category, for each feature

  function encode(model, person) {
    const x = [];
    model.features.forEach((feature, i) => {
      if (!feature.one_hot) {
        x.push(encodeNumber(model, feature, person[i]));
        return;
      }
      feature.categories.forEach((_, code) => {
        if (code !== feature.dropped) x.push(Number(code === person[i]));
      });
    });
    return Float64Array.from(x);
  }

  const encodeNumber = (model, feature, value) => model.precision.round((value - feature.offset) / feature.factor);

  const isWhole = (feature) => feature.kind !== "continuous";
  const clip = (feature, value) => Math.min(Math.max(value, feature.low), feature.high);

  // A value as the network reads it: tolerances and offsets count from there.
  function asRead(model, feature, value) {
    if (isWhole(feature)) return value;
    return clip(feature, encodeNumber(model, feature, value) * feature.factor + feature.offset);
  }

  // The lowest and the highest value that similar people have, links aside.
  function reachOf(model, feature, value) {
    if (feature.protected) return [feature.low, feature.high];
    if (feature.reach === 0) return [value, value];
    const own = asRead(model, feature, value);
    return [clip(feature, own - feature.reach), clip(feature, own + feature.reach)];
  }

  // The values that links give features, as [number of the feature, runs from a lowest to a highest value].
  function linkedRuns(model, person, values) {
    const found = [];
    for (const link of model.links) {
      const matches = link.when.every(({ feature, runs }) =>
        runs.some(([low, high]) => low <= values[feature] && values[feature] <= high),
      );
      // People stay what they are: a link does not apply to one who differs in nothing that it depends on.
      if (!matches || link.when.every(({ feature }) => values[feature] === person[feature])) continue;
      for (const change of link.then) {
        const [feature, own] = [model.features[change.feature], person[change.feature]];
        if (change.how === "categories") {
          found.push([change.feature, (change.replaces[own] ?? [own]).map((code) => [code, code])]);
        } else {
          const base = change.how === "range" ? 0 : asRead(model, feature, own);
          found.push([change.feature, [change.ends.map((end) => clip(feature, base + end))]]);
        }
      }
    }
    return found;
  }

  // The number of similar people at most; infinite if a feature that varies is continuous.
  function countSimilar(model, person) {
    const sizes = model.features.map((feature, i) => {
      const [low, high] = reachOf(model, feature, person[i]);
      return low === high ? 1 : isWhole(feature) ? high - low + 1 : Infinity;
    });
    for (const change of model.links.flatMap((link) => link.then)) {
      const lists = Object.values(change.replaces).map((codes) => codes.length);
      const values = isWhole(model.features[change.feature]) ? change.ends[1] - change.ends[0] + 1 : Infinity;
      const size = change.how === "categories" ? Math.max(...lists) : values;
      sizes[change.feature] = Math.max(sizes[change.feature], size);
    }
    return sizes.reduce((product, size) => product * size, 1);
  }

  // Set `values` to every combination of [number of a feature, its possible values] in turn.
  function* combine(values, choices) {
    const total = choices.reduce((product, [, options]) => product * options.length, 1);
    for (let number = 0; number < total; number++) {
      let rest = number;
      for (const [feature, options] of choices) {
        values[feature] = options[rest % options.length];
        rest = Math.floor(rest / options.length);
      }
      yield values;
    }
  }

  const listRun = ([low, high]) => Array.from({ length: high - low + 1 }, (_, i) => low + i);

  // Every similar person in turn, in one array; `free` has the values of the features that vary, links aside.
  function* combineWithLinks(model, person, free) {
    const values = [...person];
    const linked = new Set(model.links.flatMap((link) => link.then.map((change) => change.feature)));
    for (const _ of combine(values, free)) {
      for (const feature of linked) values[feature] = person[feature];
      const choices = linkedRuns(model, person, values).map(([feature, runs]) => [feature, runs.flatMap(listRun)]);
      yield* combine(values, choices);
    }
  }

  function* listSimilar(model, person) {
    const varying = model.features.map((feature, i) => [i, reachOf(model, feature, person[i])]);
    const free = varying.filter(([, [low, high]]) => low < high).map(([i, run]) => [i, listRun(run)]);
    yield* combineWithLinks(model, person, free);
  }

  // People who differ in one protected feature, and in what links tie to it. Of many values, some evenly spaced ones.
  const MOST_VALUES = 200;
  function* listSingleChanges(model, person, number) {
    const feature = model.features[number];
    const steps = feature.high - feature.low;
    const all = isWhole(feature) && steps <= MOST_VALUES;
    const grid = Array.from({ length: MOST_VALUES + 1 }, (_, i) => feature.low + (steps * i) / MOST_VALUES);
    const some = isWhole(feature) ? [...new Set(grid.map(Math.round))] : grid;
    for (const value of all ? listRun([feature.low, feature.high]) : some) {
      if (value === person[number]) continue;
      const values = [...person];
      values[number] = value;
      const choices = linkedRuns(model, person, values).map(([i, runs]) => [i, runs.flatMap(ends)]);
      for (const other of combine(values, choices)) yield other;
    }
  }

  const ends = ([low, high]) => (low === high ? [low] : [low, high]);

  // Random similar people, the same ones each time; every feature has its own value, an end or any value.
  function* drawSimilar(model, person, count) {
    const random = randomNumbers(1);
    const draw = ([low, high], own, whole) => {
      const kind = random();
      if (kind < 0.25 && low <= own && own <= high) return own;
      if (kind < 0.5) return random() < 0.5 ? low : high;
      return whole ? low + Math.floor(random() * (high - low + 1)) : low + random() * (high - low);
    };
    for (let i = 0; i < count; i++) {
      const values = model.features.map((feature, j) => {
        return draw(reachOf(model, feature, person[j]), person[j], isWhole(feature));
      });
      for (const [j, runs] of linkedRuns(model, person, values)) {
        values[j] = draw(runs[Math.floor(random() * runs.length)], person[j], isWhole(model.features[j]));
      }
      yield values;
    }
  }

  // mulberry32
  function randomNumbers(seed) {
    let state = seed;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  // Text: the digits on which both ends of a score agree

  const UNIT = "\u00a0%";
  const MINUS = "\u2212";

  function percent(share, digits) {
    const text = (100 * share).toFixed(digits);
    const least = 10 ** -digits;
    if (Number(text) === 0) return `< ${least}${UNIT}`;
    if (Number(text) === 100) return `> ${100 - least}${UNIT}`;
    return `${text}${UNIT}`;
  }

  function number(value, digits) {
    const text = Math.abs(value).toFixed(digits);
    const [whole, ...rest] = text.split(".");
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
    return (value < 0 && Number(text) !== 0 ? MINUS : "") + [grouped, ...rest].join(".");
  }

  // One decimal; two if the score lies between two numbers with one; none if rounding matters more than that, and both
  // ends if it matters still more.
  function describe(model, { value, low, high }) {
    if (!Number.isFinite(low) || !Number.isFinite(high)) return "unknown: rounding changes it too much";
    const [write, choices] = model.regression ? [number, decimals(value)] : [percent, [1, 2, 0]];
    for (const digits of choices) {
      const [first, last] = [write(low, digits), write(high, digits)];
      if (first === last) return first;
    }
    const digits = Math.max(0, choices[0] - 1);
    return `${write(low, digits)} \u2013 ${write(high, digits)}`;
  }

  // Four digits of a number, or all those of whole ones.
  function decimals(value) {
    const size = Math.floor(Math.log10(Math.max(Math.abs(value), 1e-6)));
    const usual = Math.max(0, 3 - size);
    return [usual, usual + 1, usual - 1, usual - 2].filter((digits) => digits >= 0);
  }

  return {
    readModel,
    encode,
    computeScores,
    decide,
    describe,
    countSimilar,
    listSimilar,
    drawSimilar,
    listSingleChanges,
  };
})();
