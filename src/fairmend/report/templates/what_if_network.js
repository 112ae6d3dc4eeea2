"use strict";
// Runs a network: a graph of nodes, each an operation on earlier ones. Nothing here touches the page.
//
// Other programs run the network in float32 or float64, add in any order, and round. So each number comes with a bound
// of how far off theirs can be. It is that of docs/guarantee.md at a single point: what each node can be off by, times
// how much the result depends on it.
const whatIfNetwork = (() => {
  const PRECISIONS = {
    float32: { unit: 2 ** -24, tiny: 2 ** -126, largest: 2 ** 127, Numbers: Float32Array, round: Math.fround },
    // JavaScript rounds to float64 as well, so the unit is twice that of one program.
    float64: { unit: 2 ** -52, tiny: 2 ** -1021, largest: 2 ** 1023, Numbers: Float64Array, round: (x) => x },
  };
  const SLACK = 1 + 1e-6; // for the rounding of the bound itself, and of scores beside those in float32
  const DEEP = 6; // with more affine layers in a row, the errors of hidden ones are traced back too: slower, and much tighter
  const SURE = 1e-30; // a number that is off by less names one row of a table
  const LARGEST_STEP = 16; // no step of a function computes more than this times its input

  const zeros = (size) => new Float64Array(size);
  const sizesOf = ({ values, errors }) => values.map((value, j) => Math.abs(value) + errors[j]);

  // Each operation runs on the results of its sources. A result has `values`, how far off those of other programs can
  // be (`errors`), and how much of that is its own rounding (`local`). `back` takes how much something depends on each
  // number of the result, and returns how much on those of each source.
  const OPERATIONS = {
    input: { run: (node, [row], precision) => copy(row.values, row.errors, precision), back: () => [] },
    columns: {
      run: ({ columns }, [{ values, errors }], precision) => {
        const chosen = (numbers) => Float64Array.from(columns, (column) => numbers[column]);
        return copy(chosen(values), chosen(errors), precision);
      },
      back: ({ columns, inputs }, sensitivity) => {
        const all = zeros(inputs);
        columns.forEach((column, i) => (all[column] += sensitivity[i]));
        return [all];
      },
    },
    concatenate: {
      run: ({ width }, sources, precision) => {
        const [values, errors] = [zeros(width), zeros(width)];
        let start = 0;
        for (const source of sources) {
          values.set(source.values, start);
          errors.set(source.errors, start);
          start += source.values.length;
        }
        return copy(values, errors, precision);
      },
      back: ({ sourceWidths }, sensitivity) => {
        let start = 0;
        return sourceWidths.map((width) => sensitivity.subarray(start, (start += width)));
      },
    },
    sum: { run: addNodes, back: ({ sources }, sensitivity) => sources.map(() => sensitivity) },
    lookup: { run: lookUp, back: () => [] },
    scale: {
      run: scale,
      back: ({ weight }, sensitivity) => [sensitivity.map((s, i) => s * weight[i])],
    },
    affine: {
      run: addUp,
      back: ({ weight, inputs }, sensitivity) => {
        const before = zeros(inputs);
        sensitivity.forEach((s, i) => {
          if (s === 0) return;
          for (let j = 0, k = i * inputs; j < inputs; j++, k++) before[j] += s * weight[k];
        });
        return [before];
      },
    },
  };
  const FUNCTION = {
    run: applyFunction,
    back: (node, sensitivity, { slopes }) => [sensitivity.map((s, i) => s * slopes[i])],
  };

  // Numbers that are copied: one too small to be normal may be taken as 0.
  function copy(values, errors, { tiny }) {
    const local = values.map((value, i) => Math.min(Math.abs(value) + errors[i], tiny));
    return { values, errors: errors.map((error, i) => error + local[i]), local };
  }

  // A sum; other programs may add up the terms of an affine layer, or of a sum that nothing else reads, and the other
  // parts of the sum in one go.
  function addNodes({ width, readers }, sources, { unit, tiny, largest }) {
    const terms = sources.reduce((count, source) => count + (source.additions ?? 0), sources.length);
    const [values, errors, local, sizes] = [0, 1, 2, 3].map(() => zeros(width));
    for (let i = 0; i < width; i++) {
      let [size, carried] = [0, 0];
      for (const source of sources) {
        values[i] += source.values[i];
        size += Math.max(Math.abs(source.values[i]) + source.errors[i], source.sizes?.[i] ?? 0);
        carried += source.errors[i];
      }
      const once = (terms - 1) * unit * size * (1 + 4 * terms * unit) + 2 * terms * tiny;
      sizes[i] = size;
      local[i] = size === 0 ? 0 : size < largest ? once : Infinity;
      errors[i] = (carried + local[i]) * SLACK;
    }
    return { values, errors, local, ...(readers === 1 ? { sizes, additions: terms - 1 } : {}) };
  }

  // The row of a table that a number names; where it may be another, or is none, nothing is known of the result.
  function lookUp({ weight, width }, [{ values, errors }], precision) {
    const [row] = values;
    const found = weight.slice(row * width, (row + 1) * width);
    const known = Number.isInteger(row) && row >= 0 && found.length === width && errors[0] < SURE;
    if (known) return copy(found, zeros(width), precision);
    return { values: zeros(width), errors: zeros(width).fill(Infinity), local: zeros(width).fill(Infinity) };
  }

  // Batch normalisation and scaling of each number. What their steps can be off by is in `rounding`.
  function scale({ weight, bias, width, rounding }, [source], { unit, tiny, largest }) {
    const sizes = sizesOf(source);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const reach = rounding.reach * (1 + total);
    const [values, errors, local] = [0, 1, 2].map(() => zeros(width));
    for (let i = 0; i < width; i++) {
      const factor = Math.abs(weight[i]);
      const size = factor * sizes[i] + rounding.constants[i];
      values[i] = weight[i] * source.values[i] + bias[i];
      local[i] = reach < largest ? stepsOff(rounding.roundings, size, reach, unit, tiny) : Infinity;
      errors[i] = (factor * source.errors[i] + local[i]) * SLACK;
    }
    return { values, errors, local };
  }

  // What steps with so many roundings are off by if the sizes of their terms add up to `size`.
  const stepsOff = (roundings, size, reach, unit, tiny) =>
    unit * roundings * size * (1 + 4 * roundings * unit) + tiny * reach;

  // An affine layer; other programs may add in any order. `sizes` are those of all terms of each number.
  function addUp({ weight, bias, inputs, width, rounding }, [source], { unit, tiny, largest }) {
    const { values: before, errors: off } = source;
    const sizes = sizesOf(source);
    const terms = sizes.reduce((count, size) => count + (size > 0), 1);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const reach = rounding ? rounding.reach * (1 + total) : 0;
    const [values, errors, local, summed] = [0, 1, 2, 3].map(() => zeros(width));
    for (let i = 0, k = 0; i < width; i++) {
      let sum = bias[i];
      let size = Math.abs(sum);
      let carried = 0;
      for (let j = 0; j < inputs; j++, k++) {
        const w = weight[k];
        const magnitude = Math.abs(w);
        sum += w * before[j];
        size += magnitude * sizes[j];
        carried += magnitude * off[j];
      }
      values[i] = sum;
      summed[i] = size + (rounding ? rounding.constants[i] : 0);
      if (!(size < largest && reach < largest)) {
        local[i] = Infinity;
      } else if (rounding) {
        // The steps of a folded layer round in more places; its constants have cancelled in the bias.
        local[i] = stepsOff(rounding.roundings, summed[i], reach, unit, tiny);
      } else {
        // No partial sum exceeds `most`; each addition and each product rounds once.
        const most = (size + Math.abs(sum) + carried) / 2;
        const once = (terms - 1) * most + size;
        local[i] = unit * once * (1 + 4 * terms * unit) + tiny * (total + 4 * (inputs + 1));
      }
      errors[i] = (carried + local[i]) * SLACK;
    }
    return { values, errors, local, sizes: summed, additions: inputs + 1 };
  }

  function applyFunction({ operation, parameters, width }, [source], precision) {
    const apply = whatIfFunctions[operation];
    const [values, errors, local, slopes] = [0, 1, 2, 3].map(() => zeros(width));
    for (let i = 0; i < width; i++) {
      const known = LARGEST_STEP * (Math.abs(source.values[i]) + source.errors[i]) < precision.largest;
      const [z, error] = known ? [source.values[i], source.errors[i]] : [0, 0];
      const numbers = operation === "prelu" ? [parameters[i]] : parameters;
      [values[i], slopes[i], local[i]] = apply(z, error, precision, numbers);
      if (!known) local[i] = Infinity;
      errors[i] = Math.abs(slopes[i]) * error + local[i];
    }
    return { values, errors, local, slopes };
  }

  // A network from the JSON in the page.
  function readNetwork(plain) {
    const precision = PRECISIONS[plain.precision];
    const numbers = (text, Numbers = precision.Numbers) => {
      const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      return Float64Array.from(new Numbers(bytes.buffer));
    };
    const nodes = plain.nodes.map((node, i) => {
      const sourceWidths = node.sources.map((source) => plain.nodes[source].width);
      const readers = plain.nodes.flatMap(({ sources }) => sources).filter((source) => source === i).length;
      const read = { ...node, sourceWidths, inputs: sourceWidths[0], readers };
      [read.weight, read.bias] = [numbers(node.weight), numbers(node.bias)];
      if (node.rounding) read.rounding = { ...node.rounding, constants: numbers(node.rounding.constants, Float64Array) };
      return { ...read, ...(OPERATIONS[node.operation] ?? FUNCTION) };
    });
    markTraced(nodes);
    return { precision, nodes };
  }

  // In a deep network, the errors of what a function reads are traced back if another function is behind it.
  function markTraced(nodes) {
    const isFunction = (node) => node.run === applyFunction;
    const [depths, behind] = [[], []];
    nodes.forEach((node, i) => {
      depths[i] = Math.max(0, ...node.sources.map((j) => depths[j])) + Number(node.operation === "affine");
      behind[i] = node.sources.some((j) => behind[j] || isFunction(nodes[j]));
    });
    const deep = depths.at(-1) > DEEP;
    nodes.forEach((node, i) => {
      node.traced = deep && behind[i] && nodes.some((other) => isFunction(other) && other.sources[0] === i);
    });
  }

  // The results of all nodes for an encoded person; the last one is the output.
  function run({ nodes, precision }, x) {
    const row = { values: x, errors: zeros(x.length) };
    const results = [];
    nodes.forEach((node, i) => {
      const sources = i === 0 ? [row] : node.sources.map((source) => results[source]);
      results[i] = node.run(node, sources, precision);
      if (!node.traced) return;
      const { errors } = results[i];
      errors.forEach((error, j) => (errors[j] = Math.min(error, errorOf(nodes, results, unitRow(node.width, j)))));
    });
    return results;
  }

  const unitRow = (size, i) => Float64Array.from({ length: size }, (_, j) => Number(i === j));

  // How far other programs may be from a sum of the numbers of the last result, each times its entry of `row`.
  function errorOf(nodes, results, row) {
    const carried = [];
    carried[results.length - 1] = row;
    let bound = 0;
    for (let i = results.length - 1; i >= 0; i--) {
      const sensitivity = carried[i];
      if (!sensitivity) continue;
      const { local } = results[i];
      for (let j = 0; j < local.length; j++) if (sensitivity[j] !== 0) bound += Math.abs(sensitivity[j]) * local[j];
      nodes[i].back(nodes[i], sensitivity, results[i]).forEach((part, k) => {
        const source = nodes[i].sources[k];
        carried[source] = carried[source] ? part.map((s, j) => s + carried[source][j]) : part;
      });
    }
    return bound * SLACK;
  }

  // Multiplications for one person: three forward, and one backward for each score, and for each number that is traced.
  function workOf({ nodes }, scores) {
    let [weights, total] = [0, 0];
    for (const { operation, weight, width, traced } of nodes) {
      const size = operation === "affine" ? weight.length : width;
      weights += size;
      total += 3 * size + (traced ? width * weights : 0);
    }
    return total + scores * weights;
  }

  // The outputs for an encoded person, and a function for how far off a sum of them can be, each times its entry.
  function computeOutputs(network, x) {
    const results = run(network, x);
    return { outputs: results.at(-1).values, errorOf: (row) => errorOf(network.nodes, results, Float64Array.from(row)) };
  }

  return { readNetwork, computeOutputs, workOf, unitRow };
})();
