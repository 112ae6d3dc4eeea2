"use strict";
// Runs a network in float64: steps on named tensors, as in a certificate. Nothing here touches the page.
const whatIfNetwork = (() => {
  const PRECISIONS = {
    float32: { Numbers: Float32Array, round: Math.fround },
    float64: { Numbers: Float64Array, round: (x) => x },
  };

  const at = (numbers, i) => numbers[numbers.length > 1 ? i : 0];

  // Each kind of step takes the step, with its tensors, and what its sources computed.
  const KINDS = {
    input: (step, [row]) => row,
    columns: ({ indices }, [values]) => Float64Array.from(indices, (index) => values[index]),
    concatenate: (step, sources) => Float64Array.from(sources.flatMap((values) => [...values])),
    sum: (step, [first, ...rest]) => first.map((value, i) => rest.reduce((total, values) => total + values[i], value)),
    // The row of a table, or a one-hot code; a number that names none gives no result.
    lookup: ({ table, classes }, [[row]]) =>
      table
        ? Float64Array.from({ length: table.shape[1] }, (_, i) => table.numbers[row * table.shape[1] + i] ?? NaN)
        : Float64Array.from({ length: classes }, (_, i) => (row % 1 === 0 && row >= 0 && row < classes ? +(i === row) : NaN)),
    scale: ({ mean = [0], gain = [1], shift = [0] }, [values]) =>
      values.map((value, i) => (value - at(mean, i)) * at(gain, i) + at(shift, i)),
    affine: ({ weight: { numbers, shape }, bias }, [values]) =>
      Float64Array.from({ length: shape[0] }, (_, i) => {
        let sum = bias ? bias.numbers[i] : 0;
        for (let j = 0, k = i * shape[1]; j < shape[1]; j++, k++) sum += numbers[k] * values[j];
        return sum;
      }),
    product: ({ groups, rows, columns, length }, [a, b]) =>
      Float64Array.from({ length: groups * rows * columns }, (_, i) => {
        const group = Math.floor(i / (rows * columns));
        const row = group * rows + (Math.floor(i / columns) % rows);
        const column = group * columns + (i % columns);
        let sum = 0;
        for (let t = 0; t < length; t++) sum += a[row * length + t] * b[column * length + t];
        return sum;
      }),
    softmax: ({ size }, [values]) =>
      inGroups(size, values, (group) => {
        const most = Math.max(...group);
        const parts = group.map((value) => Math.exp(value - most));
        const total = parts.reduce((sum, part) => sum + part, 0);
        return parts.map((part) => part / total);
      }),
    normalise: ({ size, epsilon, centred }, [values]) =>
      inGroups(size, values, (group) => {
        const mean = centred ? group.reduce((sum, value) => sum + value, 0) / size : 0;
        const square = group.reduce((sum, value) => sum + (value - mean) ** 2, 0) / size;
        return group.map((value) => (value - mean) / Math.sqrt(square + epsilon));
      }),
    function: ({ name, slope = 0, parameters = [] }, [values]) => {
      const apply = whatIfFunctions[name];
      const numbers = name === "leaky_relu" ? [slope] : parameters;
      return values.map((z, i) => apply(z, name === "prelu" ? [at(numbers, i)] : numbers));
    },
  };

  // Columns side by side, so many at a time.
  function inGroups(size, values, compute) {
    const results = new Float64Array(values.length);
    for (let start = 0; start < values.length; start += size) results.set(compute(values.slice(start, start + size)), start);
    return results;
  }

  // A network from the JSON in the page.
  function readNetwork(plain) {
    const precision = PRECISIONS[plain.precision];
    const tensors = {};
    for (const [key, { shape, values }] of Object.entries(plain.tensors)) {
      const bytes = Uint8Array.from(atob(values), (char) => char.charCodeAt(0));
      tensors[key] = { shape, numbers: Float64Array.from(new precision.Numbers(bytes.buffer)) };
    }
    const steps = plain.steps.map((step) => ({
      ...step,
      ...Object.fromEntries(["weight", "bias", "table"].filter((part) => step[part] != null).map((part) => [part, tensors[step[part]]])),
    }));
    return { ...plain, steps, round: precision.round };
  }

  // The outputs for an encoded person.
  function computeOutputs({ steps }, x) {
    const results = [];
    for (const step of steps) {
      results.push(KINDS[step.kind](step, step.sources.length ? step.sources.map((source) => results[source]) : [x]));
    }
    return results.at(-1);
  }

  // Multiplications for one person, or a few more.
  const workOf = ({ steps }) => steps.reduce((sum, { weight }) => sum + (weight ? weight.numbers.length : 1), 0);

  return { readNetwork, computeOutputs, workOf };
})();
