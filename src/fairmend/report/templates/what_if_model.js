"use strict";
// What a network says about a person and about everyone similar. Nothing here touches the page.
//
// Each score is an interval that holds whatever other programs compute, and it is written with the digits on which both
// ends agree.
const whatIfModel = (() => {
  const CLOSING = 16; // units by which a library's sigmoid or softmax may be off

  // The features, links and people of the report, and its networks, from the JSON in the page.
  function readModel(text) {
    const plain = JSON.parse(text);
    const names = ["before", "after"].filter((name) => plain[name]);
    const networks = names.map((name) => ({ name, ...whatIfNetwork.readNetwork(plain[name]) }));
    return { ...plain, networks, precision: networks[0].precision };
  }

  // Scores: probabilities, or the outputs of a regression network, as {value, low, high}

  function computeScores(model, network, x) {
    const { outputs, errorOf } = whatIfNetwork.computeOutputs(network, x);
    const each = [...outputs].map((value, i) => [value, whatIfNetwork.unitRow(outputs.length, i)]);
    if (model.regression) return each.map(([value, row]) => around(value, errorOf(row)));
    const closing = (CLOSING + outputs.length) * network.precision.unit;
    if (outputs.length <= 2) {
      const logit = outputs.length === 1 ? outputs[0] : outputs[1] - outputs[0];
      const error = errorOf(outputs.length === 1 ? [1] : [-1, 1]);
      return [shareOf(logit, logit - error, logit + error, closing)];
    }
    const logits = each.map(([value, row]) => around(value, errorOf(row)));
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
