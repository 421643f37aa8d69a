package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// Format and Version identify the file. Version goes up when a reader of the old version could not read the file right.
const (
	Format  = "qwb plan"
	Version = 2
)

// Plan is the content of a plan file: inputs, decisions, and what follows from them.
type Plan struct {
	Meta
	// Decisions are all that were ever made, in their order; one that was taken back stays, with a later one that says so.
	Decisions []decision.Decision
	// Steps says how many decisions each command added; their sum is the number of decisions. The first step cannot be undone.
	Steps []int
	// Redo holds what was undone, a list for each command, the last undone at the end. It is not part of the plan's hash.
	Redo []Step

	// What is derived: Schemes are the policies in use, by name.
	Schemes map[string]tqc.Config
	Nodes   []Node // in the canonical order of the graph
	// NodesHash is, of a plan that was read, the hash of schemes and nodes that stands in it; see Edited.
	NodesHash string

	// Verification is the outcome of the last one, nil if there was none. It is not part of the plan's hash.
	Verification *Verification
	// Options is set for a plan of version 1, which has these instead of decisions. It is written as it was read.
	Options *Options
}

// Step is what one command decided.
type Step []decision.Decision

// Meta is what a plan says beside decisions and slots: its inputs.
type Meta struct {
	Model File `json:"model"`
	// Imported is the quantized file that the plan was read from; Model is then the float graph behind it, as it stands: its normal
	// form may lack tensors that the plan quantizes.
	Imported   *File         `json:"imported,omitempty"`
	Data       Data          `json:"data"`
	Preprocess Preprocess    `json:"preprocess"`
	Samples    int           `json:"samples"` // used for calibration
	Seed       int64         `json:"seed"`
	Ranges     string        `json:"ranges,omitempty"` // hash of the part of the statistics that scales follow from
	Platform   string        `json:"platform"`
	Profile    string        `json:"profile"` // arithmetic profile of the integer operators
	Target     Target        `json:"target"`
	Warnings   []tqc.Warning `json:"warnings,omitempty"`
}

// Target identifies the platform's table, whose name alone says too little: tables change.
type Target struct {
	SHA256     string `json:"sha256"`               // of its canonical form
	Definition string `json:"definition,omitempty"` // in YAML, of a platform that is not built in
}

// Options are what version 1 of the file kept of the decisions behind a plan.
type Options struct {
	Observers   Observers
	ReduceRange bool
	PerTensor   bool  // weights have one scale each
	Tuned       *File // the weights that tuning changed
}

// File is another file: its path, relative to the plan where possible, with forward slashes, and the SHA-256 of its content.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Data is where the calibration samples came from. Hash is DataHash of all of them.
type Data struct {
	Paths []string `json:"paths"` // sorted; relative to the plan where possible
	Hash  string   `json:"hash"`
	// Synthetic: the samples were made up; the ranges mean little.
	Synthetic bool `json:"synthetic,omitempty"`
	// Classes says which classes the samples with a label are of; nil where none has one.
	Classes *Classes `json:"classes,omitempty"`
}

// Observers are the calibration methods in use unless a slot says otherwise.
type Observers struct {
	Activation tqc.Observer `json:"activation"`
	Weight     tqc.Observer `json:"weight"`
}

// Node is one operator of the model.
type Node struct {
	Name   string     `json:"node"`
	Op     string     `json:"op"`
	Domain tqc.Domain `json:"domain"`
	Why    string     `json:"why"`             // who decided the domain, a colon, the reason
	Fused  string     `json:"fused,omitempty"` // the node it is computed together with
	Slots  []Slot     `json:"slots,omitempty"` // of integer nodes: every input and output that is present
}

// Slot is the TensorQuantizationConfig of one input or output.
type Slot struct {
	At        string              `json:"at"` // in0, in1, ..., out0, ...
	State     tqc.State           `json:"state"`
	Scheme    string              `json:"scheme,omitempty"` // empty for FP32
	Root      string              `json:"root,omitempty"`   // the slot whose scale is used, as node:at; empty: its own
	Scale     decision.Scales     `json:"scale,omitempty"`  // of a root that has one
	ZeroPoint decision.ZeroPoints `json:"zero_point,omitempty"`
	// of a constant in NV blocks: the scale of the tensor, which each scale is a multiple of
	Global   float32      `json:"global,omitempty"`
	Codes    []int32      `json:"codes,omitempty"`  // of a bias whose float32 numbers do not give its integers
	Observer tqc.Observer `json:"method,omitempty"` // how the scale was found, where the scheme leaves it open
}

// Verification is the outcome of comparing the quantized model's executions.
type Verification struct {
	Profile string `json:"profile"`
	Backend string `json:"backend"`
	Samples int    `json:"samples"`
	// Data is RealData or SyntheticData, DataHash the hash of the samples as DataHash makes it;
	// both are empty in files of before they were kept.
	Data     string `json:"data,omitempty"`
	DataHash string `json:"data_sha256,omitempty"`
	// Whole says that these were all samples of the data that were named.
	Whole   bool   `json:"whole,omitempty"`
	Verdict string `json:"verdict"` // equal, ties, partial, nothing, different, not-finite, unverified
	// Share is the part of the integer work that was verified, from 0 to 1; nil where that is all of it.
	Share *float64 `json:"share,omitempty"`
	// SHA-256 of model, plan without this entry, tuned weights, integer program, qwb version, and the entries before
	Digest string `json:"digest"`
}

// Kinds of data that something was verified on.
const (
	RealData      = "real"
	SyntheticData = "synthetic" // some of the samples at least were made up
)

// How says in KEY=VALUE under what a verification was made and on what; what is not known is left out. share is that of the integer work.
func (v *Verification) How(engineKnown bool) string {
	s := fmt.Sprintf("profile=%s engine_known=%t backend=%s samples=%d", v.Profile, engineKnown, v.Backend, v.Samples)
	if v.Data != "" {
		s += fmt.Sprintf(" data=%s data_sha256=%s", v.Data, v.DataHash)
	}
	if v.Share != nil {
		s += fmt.Sprintf(" share=%.4f", *v.Share)
	}
	return s
}

// DataHash returns the SHA-256 over the hashes of samples in ascending order, in hexadecimal: it does not depend on the order
// of the samples or on how they were split over sources.
func DataHash(samples [][32]byte) string {
	sorted := slices.Clone(samples)
	slices.SortFunc(sorted, func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, s := range sorted {
		h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
