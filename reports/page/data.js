// What views show of operators: the parts of a view (reports/view.go), joined by name. Nothing is computed here but shares.

// statisticsOf are the tensors that the report describes, else those of calibration, which has no moments.
/** @param {Partial<Core.View>} view @returns {Partial<Core.TensorStatistics>[]} */
export function statisticsOf(view) {
  const own = view.report && view.report.statistical;
  return own && own.length ? own : (view.calibrated || []).map(({ mean: _, std: __, skewness: ___, kurtosis: ____, ...t }) => t);
}

// rowsOf has one row for each operator of the picture, in its order; without a picture, for each that has settings or an error.
/** @param {Partial<Core.View>} view */
export function rowsOf(view) {
  const report = /** @type {Partial<Core.Report>} */ (view.report || {});
  /** @template T @param {T[] | undefined} list @param {string} key @returns {Map<string, T>} */
  const by = (list, key = "node") => new Map((list || []).map((x) => [x[key], x]));
  const layers = by(report.layerwise), accumulated = by(report.graphwise), settings = by(report.settings), extra = by(view.nodes);
  const statistics = by(statisticsOf(view), "tensor"), losses = by(report.explained && report.explained.layers),
    estimates = by(report.sensitivity && report.sensitivity.rows),
    formats = ((report.sensitivity && report.sensitivity.formats) || []).map((f) => ({ format: f.format, rows: by(f.rows) }));
  /** @type {(Partial<Core.TopologyNode> & { name: string })[]} */
  let nodes = view.picture && view.picture.nodes;
  if (!nodes) {
    nodes = (report.settings && report.settings.length ? report.settings : report.layerwise || []).map((s) => ({ name: s.node, op: s.op,
      domain: s.domain })
    );
  }
  const macsOf = (node) => node.macs || layers.get(node.name)?.macs || 0;
  const all = nodes.reduce((sum, node) => sum + macsOf(node), 0);
  return nodes.map((node, index) => {
    const layer = /** @type {Partial<Core.LayerError>} */ (layers.get(node.name) || {});
    const set = /** @type {Partial<Core.NodeSetting>} */ (settings.get(node.name) || {});
    const more = /** @type {Partial<Core.NodeFigures>} */ (extra.get(node.name) || {}), sum = accumulated.get(node.name);
    const tensors = (set.slots || []).map((slot) => ({ at: slot.at, name: slot.tensor, slot,
      statistics: statistics.get(slot.tensor) || null })
    );
    const own = sum && statistics.get(sum.tensor);
    if (own && !tensors.some((t) => t.name === own.tensor)) tensors.push({ at: "out0", name: own.tensor, slot: null, statistics: own });
    const judged = judgedOf(layer);
    const orNull = (value) => (value === undefined ? null : value);
    return {
      index,
      name: node.name,
      op: node.op,
      block: orNull(node.block),
      domain: set.domain || node.domain || "",
      format: formatOf(set, node),
      fused: set.fused || (node.fused >= 0 ? nodes[node.fused].name : ""),
      why: set.why || "",
      macs: macsOf(node),
      share: all > 0 ? macsOf(node) / all : null,
      nsr: orNull(judged.nsr),
      nsrError: orNull(judged.nsr_error),
      sqnr: orNull(judged.sqnr_db),
      rank: layer.centred_ranks || layer.ranks || null,
      rankAmong: layers.size,
      estimate: estimates.has(node.name) ? estimates.get(node.name).nsr : null,
      estimateError: estimates.has(node.name) ? orNull(estimates.get(node.name).nsr_error) : null,
      inFormats: new Map(formats.filter((f) => f.rows.has(node.name)).map((f) => [f.format, f.rows.get(node.name)])),
      local: orNull(layer.local),
      clip: orNull(layer.clip),
      round: orNull(layer.round),
      weight: orNull(layer.weight),
      activation: orNull(layer.activation),
      cosine: orNull(layer.cosine),
      mse: orNull(layer.mse),
      weightRange: layer.weight_range || null,
      loss: losses.get(node.name) || null,
      accumulated: sum ? sum.nsr : null,
      accumulatedError: sum ? orNull(sum.nsr_error) : null,
      accumulatedSqnr: sum ? orNull(sum.sqnr_db) : null,
      meanShift: orNull(layer.mean_shift),
      saturation: orNull(more.saturation),
      gain: orNull(more.gain),
      deadChannels: own && own.dead ? own.dead.length : own ? 0 : orNull(more.dead_channels),
      channels: own ? own.channels || 0 : null,
      stale: Boolean(view.stale),
      settings: set.node ? set : null,
      tensors,
    };
  });
}

// judgedOf is the NSR that a network is judged by, the same of all outputs and of one operator alone, so that the two can be compared: that
// of the worst part where parts count, else of class scores before Softmax without their mean where there are some, as advice and estimates
// have it.
/** @param {any} x @returns {Partial<Core.NSR>} */
export const judgedOf = (x) => x.verdict || x.centred || x;

// formatOf is the format that an operator is computed in: "int8", "int4 × int8" (weights × activations), or its domain.
/** @param {Partial<Core.NodeSetting>} set @param {{ domain?: string }} node */
function formatOf(set, node) {
  if (set.domain !== "INT8" && node.domain !== "INT8") return set.domain || node.domain || "";
  const first = (at) => {
    const slot = (set.slots || []).find((s) => s.at === at);
    return slot ? slot.scheme.split(" ")[0] : "";
  };
  const weights = first("in1"), data = first("in0");
  return weights && data && weights !== data ? weights + " × " + data : weights || data || "int8";
}

// operators leaves the inputs and outputs of the network out.
export const operators = (rows) => rows.filter((row) => row.op !== "Input" && row.op !== "Output");

// byName finds rows by the names of operators.
export const byName = (rows) => new Map(rows.map((row) => [row.name, row]));

// adviceFor lists what is advised about an operator.
/** @param {Core.View} view @param {string} name */
export const adviceFor = (view, name) =>
  ((view.report && view.report.advice) || []).filter((a) => a.node === name || (a.nodes || []).includes(name));

// levelsOf is the grid of a tensor: {scale, zero, lowest, highest} of one scale per tensor, null for others.
/** @param {Core.SlotSetting} slot */
export function levelsOf(slot) {
  if (!slot || slot.scales !== 1 || !slot.codes) return null;
  return { scale: slot.scale[0], zero: slot.zero_point[0], lowest: slot.codes[0], highest: slot.codes[1] };
}

// embedded is a value that a page in one file has inside.
export function embedded(id) {
  const holder = document.getElementById(id);
  return holder ? JSON.parse(holder.textContent) : null;
}

// embeddedView is the view of a report: its parts stand in two elements, so that scripts find the report by itself.
export function embeddedView() {
  const view = embedded("view");
  if (view) view.report = embedded("report");
  return view;
}
