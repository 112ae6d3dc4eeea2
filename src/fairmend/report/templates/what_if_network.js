"use strict";
// Runs a network in float64: a graph of nodes, each an operation on earlier ones. Nothing here touches the page.
const whatIfNetwork = (() => {
  const PRECISIONS = {
    float32: { Numbers: Float32Array, round: Math.fround },
    float64: { Numbers: Float64Array, round: (x) => x },
  };

  // Each operation takes its node and what the sources computed.
  const OPERATIONS = {
    input: (node, [row]) => row,
    columns: ({ columns }, [values]) => Float64Array.from(columns, (column) => values[column]),
    concatenate: (node, sources) => Float64Array.from(sources.flatMap((values) => [...values])),
    sum: (node, [first, ...rest]) => first.map((value, i) => rest.reduce((total, values) => total + values[i], value)),
    // The row of a table; a number that names none gives no result.
    lookup: ({ weight, width }, [[row]]) => Float64Array.from({ length: width }, (_, i) => weight[row * width + i] ?? NaN),
    scale: ({ weight, bias }, [values]) => values.map((value, i) => weight[i] * value + bias[i]),
    affine: ({ weight, bias, inputs }, [values]) =>
      bias.map((sum, i) => {
        for (let j = 0, k = i * inputs; j < inputs; j++, k++) sum += weight[k] * values[j];
        return sum;
      }),
  };

  function applyFunction({ operation, parameters }, [values]) {
    const apply = whatIfFunctions[operation];
    return values.map((z, i) => apply(z, operation === "prelu" ? [parameters[i]] : parameters));
  }

  // A network from the JSON in the page.
  function readNetwork(plain) {
    const precision = PRECISIONS[plain.precision];
    const numbers = (text) => {
      const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      return Float64Array.from(new precision.Numbers(bytes.buffer));
    };
    const nodes = plain.nodes.map((node) => ({
      ...node,
      inputs: plain.nodes[node.sources[0]]?.width,
      weight: numbers(node.weight),
      bias: numbers(node.bias),
      run: OPERATIONS[node.operation] ?? applyFunction,
    }));
    return { ...plain, nodes, round: precision.round };
  }

  // The outputs for an encoded person.
  function computeOutputs({ nodes }, x) {
    const results = [];
    for (const node of nodes) {
      results.push(node.run(node, node.sources.length ? node.sources.map((source) => results[source]) : [x]));
    }
    return results.at(-1);
  }

  // Multiplications for one person.
  const workOf = ({ nodes }) => nodes.reduce((sum, { width, weight }) => sum + Math.max(width, weight.length), 0);

  return { readNetwork, computeOutputs, workOf };
})();
