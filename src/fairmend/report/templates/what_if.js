// The part "What if?": controls for a person, and what the networks say about this person and everyone similar.
(() => {
  const MOST_PEOPLE = 30_000; // similar people that are listed; of more, a random choice
  const DRAWN = 10_000;
  const MOST_WORK = 3e9; // multiplications for all of them: a few seconds
  const SLICE = 15; // milliseconds of work before the page may react
  const NO_MOVE = 1e-12; // of a score: what this page may round
  const QUIET = 400; // milliseconds without a change before results are read aloud

  const section = document.getElementById("what-if");
  const model = whatIfModel.readModel(section.dataset.model);
  const form = section.querySelector("form");
  const start = form.querySelector("#what-if-start");
  const controls = model.features.map((_, i) => form.querySelector(`[data-feature="${i}"]`));
  const sliders = model.features.map((_, i) => form.querySelector(`[data-slider="${i}"]`));
  const cells = new Map([...section.querySelectorAll("[data-cell]")].map((one) => [one.dataset.cell, one]));
  const cell = (name) => cells.get(name);
  const count = (number) => number.toLocaleString("en");

  // Controls

  function middle(feature) {
    if (feature.categories.length) return 0;
    const value = (feature.low + feature.high) / 2;
    return feature.kind === "integer" ? Math.round(value) : value;
  }

  // A round number of which about a hundred make up the range.
  function sliderStep({ kind, low, high }) {
    if (kind === "integer" || low === high) return 1;
    const rough = (high - low) / 100;
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5].findLast((factor) => factor * power <= rough);
  }

  function prepareSlider(slider, i) {
    const feature = model.features[i];
    const step = sliderStep(feature);
    const digits = Math.max(0, Math.ceil(-Math.log10(step)));
    slider.min = Math.floor(feature.low / step);
    slider.max = Math.ceil(feature.high / step);
    slider.step = 1;
    slider.addEventListener("input", () => {
      const value = Number((slider.valueAsNumber * step).toFixed(digits));
      controls[i].value = Math.min(Math.max(value, feature.low), feature.high);
    });
    controls[i].addEventListener("input", () => follow(slider, i));
  }

  function follow(slider, i) {
    slider.value = Math.round(Number(controls[i].value) / sliderStep(model.features[i]));
    slider.setAttribute("aria-valuetext", controls[i].value);
  }

  function show(person) {
    person.forEach((value, i) => {
      if (controls[i]) controls[i].value = String(value);
    });
    model.features.forEach(({ marks }, i) => {
      if (marks !== null && person[i] === 1) controls[marks].value = "";
    });
    sliders.forEach((slider, i) => slider && follow(slider, i));
  }

  // The value of a control, or the message that says what it must be.
  function read(control, feature) {
    if (feature.marks !== null) return { value: Number(controls[feature.marks].value === "") };
    const text = control.value;
    if (text === "" && !control.validity.badInput && feature.missing !== null) return { value: feature.missing };
    const value = Number(text);
    const whole = feature.kind === "continuous" || Number.isInteger(value);
    if (text !== "" && whole && feature.low <= value && value <= feature.high) return { value };
    const kind = feature.kind === "integer" ? "a whole number" : "a number";
    return { problem: `${feature.name}: type ${kind} from ${feature.low} to ${feature.high}.` };
  }

  function readPerson() {
    const values = controls.map((control, i) => read(control, model.features[i]));
    values.forEach(({ problem }, i) => controls[i]?.setAttribute("aria-invalid", String(Boolean(problem))));
    return { person: values.map(({ value }) => value), problems: values.flatMap(({ problem }) => problem ?? []) };
  }

  // What is shown

  function showOwn(person) {
    const x = whatIfModel.encode(model, person);
    return model.networks.map((network) => {
      const { name } = network;
      const own = whatIfModel.assess(model, network, x);
      own.scores.forEach((score, k) => (cell(`score-${name}-${k}`).textContent = whatIfModel.describe(model, score)));
      if (own.answer !== null) cell(`decision-${name}`).textContent = answerText(own);
      return { name, network, ...own };
    });
  }

  const CLOSE = model.threshold === null ? "close to another class" : "close to the threshold";
  const answerText = ({ answer, close }) =>
    answerName(answer) + (close ? ` (${CLOSE}: the model\u2019s own program may decide otherwise)` : "");
  const answerName = (answer) => model.answers[answer] ?? `class ${answer}`;

  function clearSimilar(text) {
    for (const { name } of model.networks) {
      model.scores.forEach((_, k) => cell(`range-${name}-${k}`).replaceChildren(text));
      for (const row of ["others", "moves"]) cell(`${row}-${name}`)?.replaceChildren(text);
    }
    cell("people").textContent = "";
  }

  // Similar people: a generator of how many are done, so that the page can react between two of them

  function* compareSimilar(person, own) {
    const results = own.map((one) => ({
      ...one,
      ranges: one.scores.map((score) => ({ least: score, most: score })),
      others: 0,
      closeOnes: 0,
      moved: null,
    }));
    const total = whatIfModel.countSimilar(model, person);
    const work = results.reduce((sum, { network }) => sum + whatIfNetwork.workOf(network), 0);
    const all = total <= Math.min(MOST_PEOPLE, MOST_WORK / work);
    const drawn = Math.max(100, Math.min(DRAWN, Math.floor(MOST_WORK / work)));
    let people = 0;
    for (const other of all ? whatIfModel.listSimilar(model, person) : whatIfModel.drawSimilar(model, person, drawn)) {
      people += 1;
      const x = whatIfModel.encode(model, other);
      results.forEach((result) => compare(result, x));
      yield people;
    }
    for (const [i, feature] of model.features.entries()) {
      if (!feature.protected) continue;
      for (const other of whatIfModel.listSingleChanges(model, person, i)) {
        const x = whatIfModel.encode(model, other);
        results.forEach((result) => noteMove(result, other, compare(result, x, false)));
        yield people;
      }
    }
    showSimilar(person, results, people, all);
  }

  // Widen the ranges by another person, and count the prediction.
  function compare(result, x, counted = true) {
    const { scores, answer, close } = whatIfModel.assess(model, result.network, x);
    scores.forEach((score, k) => {
      const range = result.ranges[k];
      range.least = Math.min(range.least, score);
      range.most = Math.max(range.most, score);
    });
    if (counted) {
      result.others += Number(answer !== result.answer);
      result.closeOnes += Number(close);
    }
    return scores;
  }

  // Remember the change of one protected feature that moves a score most; of several classes, that of the own one.
  function noteMove(result, other, scores) {
    const among = result.answer !== null && scores.length > 1 ? [result.answer] : scores.keys();
    for (const k of among) {
      const gap = Math.abs(scores[k] - result.scores[k]);
      if (gap > (result.moved?.gap ?? 0)) result.moved = { gap, k, score: scores[k], values: [...other] };
    }
  }

  function showSimilar(person, results, people, all) {
    for (const result of results) {
      result.ranges.forEach((range, k) => {
        const scale = scaleOf(results, k);
        const strip = drawStrip(range, result.scores[k], scale, result.others > 0);
        cell(`range-${result.name}-${k}`).replaceChildren(rangeText(range, all), strip);
      });
      if (result.answer !== null) cell(`others-${result.name}`).textContent = othersText(result, people, all);
      cell(`moves-${result.name}`).textContent = moveText(person, result);
    }
    cell("people").textContent = all
      ? `All ${count(people)} similar people were computed.`
      : `There are too many similar people to compute all of them. ${count(people)} were drawn at random: the scores of others may lie further apart.`;
    speakLater();
  }

  function rangeText({ least, most }, all) {
    const [low, high] = [least, most].map((score) => whatIfModel.describe(model, score));
    if (low === high) return `${low} for ${all ? "all of them" : "all that were drawn"}`;
    return `${low} to ${high}${all ? "" : ", or further"}`;
  }

  function othersText({ others, closeOnes }, people, all) {
    const close = closeOnes ? `; ${count(closeOnes)} ${CLOSE}` : "";
    return `${count(others)} of ${count(people)}${all ? "" : " drawn"}${close}`;
  }

  function moveText(person, { moved, scores }) {
    const own = moved && scores[moved.k];
    if (!moved || moved.gap <= NO_MOVE * (1 + Math.abs(own))) return "none moves it";
    const changes = model.features.flatMap((feature, i) => {
      const [mine, theirs] = [person[i], moved.values[i]].map((value) => valueName(feature, value));
      return person[i] === moved.values[i] ? [] : `${feature.name} ${theirs} instead of ${mine}`;
    });
    const which = scores.length > 1 ? `${model.scores[moved.k]} at ` : "";
    const [before, after] = [own, moved.score].map((score) => whatIfModel.describe(model, score));
    return `${changes.join(", ")}: ${which}${before === after ? `still ${after}` : after}`;
  }

  const valueName = ({ categories, names }, value) =>
    categories[value] ?? names[value] ?? String(Number(value.toPrecision(6)));

  function speakLater() {
    clearTimeout(speakLater.timer);
    speakLater.timer = setTimeout(() => {
      const rows = [...section.querySelectorAll("tbody tr")];
      const heads = [...section.querySelectorAll("thead th")].slice(1);
      const sentences = heads.map((head, column) => {
        const figures = rows.map((row) => `${row.cells[0].textContent}: ${row.cells[column + 1].textContent}`);
        return `${head.textContent}. ${figures.join(". ")}.`;
      });
      cell("spoken").textContent = `${sentences.join(" ")} ${cell("people").textContent}`;
    }, QUIET);
  }

  // A range as a bar, the own score as a dot, the threshold as a line

  function scaleOf(results, k) {
    if (!model.regression) return [0, 1];
    const low = Math.min(...results.map(({ ranges }) => ranges[k].least));
    const high = Math.max(...results.map(({ ranges }) => ranges[k].most));
    const margin = (high - low) / 10 || 1;
    return [low - margin, high + margin];
  }

  function drawStrip({ least, most }, own, [low, high], two) {
    const at = (value) => `${(100 * (value - low)) / (high - low)}%`;
    const strip = mark("scale", {});
    strip.setAttribute("aria-hidden", "true");
    if (model.threshold !== null) strip.append(mark("scale-threshold", { left: at(model.threshold) }));
    const width = `${(100 * (most - least)) / (high - low)}%`;
    strip.append(mark(two ? "scale-range two" : "scale-range", { left: at(least), width }));
    strip.append(mark("scale-own", { left: at(own) }));
    return strip;
  }

  function mark(name, style) {
    const element = document.createElement("span");
    element.className = name;
    Object.assign(element.style, style);
    return element;
  }

  // Work

  let job = 0;
  function work(steps) {
    const mine = (job += 1);
    const slice = () => {
      if (mine !== job) return;
      const end = performance.now() + SLICE;
      let step;
      do {
        step = steps.next();
        if (step.done) return;
      } while (performance.now() < end);
      cell("people").textContent = `${count(step.value)} similar people so far …`;
      setTimeout(slice);
    };
    setTimeout(slice);
  }

  function update() {
    clearTimeout(speakLater.timer);
    const { person, problems } = readPerson();
    cell("problem").textContent = problems.join(" ");
    clearSimilar(problems.length ? "–" : "…");
    if (problems.length) {
      job += 1;
      section.querySelectorAll("[data-cell^=score], [data-cell^=decision]").forEach((td) => (td.textContent = "–"));
      return;
    }
    work(compareSimilar(person, showOwn(person)));
  }

  function startFrom(choice) {
    show(choice === "middle" ? model.features.map(middle) : model.people[choice].values);
    update();
  }

  sliders.forEach((slider, i) => slider && prepareSlider(slider, i));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    if (event.target === start) {
      if (start.value) startFrom(start.value);
      return;
    }
    start.value = "";
    update();
  });
  form.hidden = false;
  start.value = model.people.length ? "0" : "middle";
  startFrom(start.value);
})();
