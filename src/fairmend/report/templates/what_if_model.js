"use strict";
// What a network says about a person and about everyone similar. Nothing here touches the page.
const whatIfModel = (() => {
  const RULE_OF_THUMB = 1e-4; // of the size of the outputs: the model's own program may round so much

  // The features, links and people of the report, and its networks, from the JSON in the page.
  function readModel(text) {
    const plain = JSON.parse(text);
    const names = ["before", "after"].filter((name) => plain[name]);
    const networks = names.map((name) => ({ name, ...whatIfNetwork.readNetwork(plain[name]) }));
    return { ...plain, networks, round: networks[0].round };
  }

  // Probabilities, or the outputs of a regression network; the predicted class, and whether the model's own program,
  // which rounds in another way, may predict another one.
  function assess(model, network, x) {
    const outputs = [...whatIfNetwork.computeOutputs(network, x)];
    if (model.regression) return { scores: outputs, answer: null, close: false };
    const sizes = outputs.map(Math.abs);
    const limit = network.margin_error ?? RULE_OF_THUMB * (1 + Math.max(...sizes));
    if (model.threshold !== null) {
      const logit = outputs.length === 1 ? outputs[0] : outputs[1] - outputs[0];
      const margin = logit - Math.log(model.threshold / (1 - model.threshold));
      return { scores: [1 / (1 + Math.exp(-logit))], answer: Number(margin >= 0), close: !(Math.abs(margin) > limit) };
    }
    const answer = outputs.reduce((best, output, i) => (output > outputs[best] ? i : best), 0);
    const powers = outputs.map((output) => Math.exp(output - outputs[answer]));
    const total = powers.reduce((sum, power) => sum + power, 0);
    const close = !outputs.every((output, i) => i === answer || outputs[answer] - output > limit);
    return { scores: powers.map((power) => power / total), answer, close };
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

  const encodeNumber = (model, feature, value) => model.round((value - feature.offset) / feature.factor);

  const isWhole = (feature) => feature.kind !== "continuous";
  const clip = (feature, value) => Math.min(Math.max(value, feature.low), feature.high);

  // A value as the network reads it: tolerances and offsets count from there.
  function asRead(model, feature, value) {
    if (isWhole(feature)) return value;
    return clip(feature, encodeNumber(model, feature, value) * feature.factor + feature.offset);
  }

  // The values that similar people have, links aside, as runs from a lowest to a highest one.
  function reachOf(model, feature, value) {
    if (feature.protected) return [[feature.low, feature.high]];
    if (feature.bands.length) return feature.bands[bandOf(model, feature, value)];
    if (feature.reach === 0) return [[value, value]];
    const own = asRead(model, feature, value);
    return [[clip(feature, own - feature.reach), clip(feature, own + feature.reach)]];
  }

  // The number of the band of a value; the network's precision decides about a continuous one.
  function bandOf(model, feature, value) {
    if (isWhole(feature)) {
      return feature.bands.findIndex((runs) => runs.some(([low, high]) => low <= value && value <= high));
    }
    const read = encodeNumber(model, feature, value);
    const above = feature.bands.filter(([[low]]) => encodeNumber(model, feature, low) <= read);
    return Math.max(above.length - 1, 0);
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
      const sizes = reachOf(model, feature, person[i]).map(([low, high]) => {
        return low === high ? 1 : isWhole(feature) ? high - low + 1 : Infinity;
      });
      return sizes.reduce((sum, size) => sum + size, 0);
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
    const several = varying.filter(([, runs]) => runs.length > 1 || runs[0][0] < runs[0][1]);
    const free = several.map(([i, runs]) => [i, runs.flatMap(listRun)]);
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
        const runs = reachOf(model, feature, person[j]);
        const drawn = draw(runs[Math.floor(random() * runs.length)], person[j], isWhole(feature));
        // The end of a continuous band belongs to the next one.
        const left = feature.bands.length && bandOf(model, feature, drawn) !== bandOf(model, feature, person[j]);
        return left ? person[j] : drawn;
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

  // Text

  const UNIT = "\u00a0%";
  const MINUS = "\u2212";

  function percent(share) {
    const text = (100 * share).toFixed(1);
    if (text === "0.0") return `< 0.1${UNIT}`;
    if (text === "100.0") return `> 99.9${UNIT}`;
    return `${text}${UNIT}`;
  }

  // Four digits, or all those of a whole number.
  function number(value) {
    const size = Math.floor(Math.log10(Math.max(Math.abs(value), 1e-6)));
    const text = Math.abs(value).toFixed(Math.max(0, 3 - size));
    const [whole, ...rest] = text.split(".");
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
    return (value < 0 && Number(text) !== 0 ? MINUS : "") + [grouped, ...rest].join(".");
  }

  function describe(model, score) {
    if (!Number.isFinite(score)) return "unknown";
    return model.regression ? number(score) : percent(score);
  }

  return {
    readModel,
    encode,
    assess,
    describe,
    countSimilar,
    listSimilar,
    drawSimilar,
    listSingleChanges,
  };
})();
