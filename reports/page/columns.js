// The columns of tables of operators: what each figure is, in a line.
import { el } from "./dom.js";
import { barePart, bareSQNR, cosine, count, exact, known, number, ofNoise, percent, rankDoc, rankText, small,
  withError } from "./format.js";

const figure = (key, label, doc, more) => ({ key, label, doc, kind: "number", value: (row) => row[key], show: (row) => number(row[key]),
  ...more });

// ofLocal is a column for a part of the error at the operator's own output, in decibels.
const ofLocal = (key, label, doc, more) =>
  figure(key, label, doc, { show: (row) => (known(row[key]) ? barePart(row[key]) : null),
    exact: (row) => (known(row[key]) ? ofNoise(row[key]) : "not measured"), ...more });

// inDecibels is an NSR as a signal-to-noise ratio, its error small behind it.
function inDecibels(nsr, error) {
  if (!known(nsr)) return null;
  const [value, spread] = bareSQNR(nsr, error);
  return el("span", null, value, spread && el("small", { class: "soft" }, " ± " + spread));
}

// operatorColumns are fresh each time: a table hides and shows its own.
export function operatorColumns(rows) {
  const largest = (key) => rows.reduce((m, row) => Math.max(m, row[key] || 0), 0), most = largest("nsr"), farthest = largest("local"),
    split = rows.some((row) => known(row.weight)), narrow = innerWidth < 600, some = (key) => rows.some((row) => known(row[key])),
    formats = [...new Set(rows.flatMap((row) => [...row.inFormats.keys()]))];
  return [
    { key: "index", label: "#", doc: "Place in the graph's order.", kind: "number", value: (row) => row.index + 1,
      show: (row) => String(row.index + 1), width: 3.6, hidden: narrow },
    { key: "name", label: "operator", doc: "Name of the operator in the model.", kind: "name", value: (row) => row.name },
    { key: "op", label: "type", doc: "Type of the operator.", kind: "text", value: (row) => row.op, width: 9, hidden: narrow },
    { key: "format", label: "format",
      doc:
        "The number format that the operator is computed in: weights × activations where they differ; FP32: kept in float; SOI: computes shapes and indices.",
      kind: "text", value: (row) => row.format, width: 8, hidden: narrow },
    figure("nsr", "SQNR alone, dB",
      "SQNR of the outputs (as at the top) with this operator quantized alone, ± its standard error, and a bar for its error. Larger is better; the largest error stands first. The most useful figure.",
      {
        show: (row) => inDecibels(row.nsr, row.nsrError),
        exact: (row) => (known(row.nsr) ? ofNoise(row.nsr, row.nsrError) : "not measured"),
        width: 12.5,
        bar: (row) => (known(row.nsr) ? [{ share: most ? row.nsr / most : 0 }] : null),
      }),
    figure("sqnr", "NSR alone", "The same as a noise-to-signal ratio, power of the error over power of the signal. 0: no error.", {
      show: (row) => (known(row.nsr) ? withError(row.nsr, row.nsrError) : null),
      width: 12,
      hidden: true,
    }),
    { key: "rank", label: "rank",
      doc:
        "The places that the operator may have by its error alone on other samples: where they overlap, these samples cannot tell which is worse. Open: they leave it more than half of all places.",
      kind: "number", value: (row) => row.rank && row.rank[0], show: (row) => row.rank && rankText(row.rank, row.rankAmong),
      exact: (row) => (row.rank ? rankDoc(row.rank, row.rankAmong) : "not measured"), width: 5 },
    figure("estimate", "estimated, dB",
      "What SQNR alone is by an estimate from gradients (qwb analyze --sensitivity), ± its standard error.", {
      show: (row) => inDecibels(row.estimate, row.estimateError),
      exact: (row) => (known(row.estimate) ? ofNoise(row.estimate, row.estimateError) : "not estimated"),
      width: 10,
      hidden: !some("estimate"),
    }),
    ...formats.map((format) =>
      figure("in " + format, "in " + format + ", dB", "The same estimate with the operator in " + format + ".", {
        value: (row) => row.inFormats.get(format)?.nsr,
        show: (row) => inDecibels(row.inFormats.get(format)?.nsr, row.inFormats.get(format)?.nsr_error),
        exact: (row) => {
          const x = row.inFormats.get(format);
          return x ? ofNoise(x.nsr, x.nsr_error) : "not a format of this operator";
        },
        width: 10,
      })
    ),
    ofLocal("local", "local, dB",
      "SQNR at the operator's own output, from float inputs. No error bar is measured. The bar is the error's size, in parts: clipping striped, rounding plain.",
      { width: 9.5,
        bar: (row) => (row.local > 0 ? [{ class: "clip", share: row.clip / farthest }, { class: "round", share: row.round / farthest }]
          : null) }),
    ofLocal("clip", "clip",
      "The part of the local error that comes from values outside of the range: the SQNR with it alone. A part below 0 makes up for some of the other."),
    ofLocal("round", "round", "The part of the local error that comes from rounding to the grid of levels: the SQNR with it alone."),
    ofLocal("weight", "weights", "The part of the local error that comes from quantizing weights.", { hidden: !split }),
    ofLocal("activation", "activations", "The part of the local error that comes from quantizing activations.", { hidden: !split }),
    figure("accumulated", "accumulated, dB",
      "SQNR at this operator's output with the whole network quantized, ± its standard error: what has piled up on the way here.", {
      show: (row) => inDecibels(row.accumulated, row.accumulatedError),
      exact: (row) => (known(row.accumulated) ? ofNoise(row.accumulated, row.accumulatedError) : "not measured"),
      width: 9.5,
    }),
    ofLocal("meanShift", "mean shift",
      "The part of the local error that rounding the weights makes by moving the means of channels. Bias correction (qwb tune --method bias) takes it away.",
      { hidden: !some("meanShift") }),
    figure("gain", "gain", "By how much the NSR of the outputs is expected to fall by what is advised for this operator.", {
      show: (row) => (known(row.gain) ? small(row.gain) : null),
      hidden: true,
    }),
    figure("saturation", "saturation",
      "Share of neighbouring products whose sum can leave 16 bits, on processors that add them in 16 bits (x86 without VNNI).", {
      show: (row) => (known(row.saturation) ? percent(row.saturation) : null),
      hidden: true,
    }),
    figure("deadChannels", "dead", "Channels that are constant on all samples.", {
      show: (row) => (known(row.deadChannels) ? String(row.deadChannels) : null),
      hidden: true,
    }),
    figure("macs", "MACs", "Multiply-accumulates of one sample.", { show: (row) => (row.macs ? count(row.macs) : null), width: 5.5 }),
    figure("share", "work", "Share of the network's multiply-accumulates.", { show: (row) => (row.macs ? percent(row.share) : null),
      width: 6 }),
    figure("cosine", "cosine",
      "Cosine of the angle between the outputs of the network and those with this operator quantized alone. 1: the same direction.", {
      show: (row) => (known(row.cosine) ? cosine(row.cosine) : null),
      hidden: true,
    }),
    figure("mse", "MSE", "Mean squared error at the outputs with this operator quantized alone.", { hidden: true,
      show: (row) => (known(row.mse) ? number(row.mse) : null) }),
    { key: "fused", label: "computed with", doc: "The operator that this one is computed together with.", kind: "text",
      value: (row) => row.fused, width: 11, hidden: true },
    { key: "why", label: "why", doc: "Who decided the format, and the reason.", kind: "text", value: (row) => row.why, width: 16,
      hidden: true },
  ];
}
