// Package tqc holds the TensorQuantizationConfig of every operator input and output: an immutable policy (Config), a state
// (State), scale and zero point (Params), and which slots share them (dominance, a union-find over dense slot ids).
//
// Everything downstream reads this one record: calibration fills it, simulation quantizes by it, analysis masks parts of
// it, lowering and export transcribe it. See PPQ's ppq/core/quant.py for the ancestor.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package tqc
