package analysis

import (
	"encoding/json"
	"math"
)

// Verdicts of a verification.
const (
	VerdictEqual = "equal" // no integer differs from what was expected
	VerdictTies  = "ties"  // some do, by one step, where the exact value lies within the stated bound of a rounding boundary
	// as equal or ties, but parts that the plan quantizes have no integer form, and were simulated, or were recorded in float
	VerdictPartial = "partial"
	VerdictNothing = "nothing" // no operator runs on integers, so that nothing was compared
	// VerdictOther is about recorded tensors: real arithmetic explains all of them, and the profile does not. The engine is another.
	VerdictOther     = "other-profile"
	VerdictDifferent = "different" // some do otherwise, or the program is not what graph and plan say
	// VerdictNotFinite: the quantized network makes NaN or infinite numbers that the float network does not have, or a code of NaN.
	VerdictNotFinite  = "not-finite"
	VerdictUnverified = "unverified" // nothing was compared, because the user said so
)

// Verification is the outcome of holding an integer program against the plan it was made of: its numbers against those derived
// a second time, its backends against each other, every step against real arithmetic, and the whole against the simulation.
type Verification struct {
	Profile string `json:"profile"`
	Backend string `json:"backend"`
	Samples int    `json:"samples"`
	// IntegerShare is the share of the plan's multiply-accumulates that run on integers, 0 to 1; absent where there are none,
	// and of recordings.
	IntegerShare *float64 `json:"integer_share,omitempty"`
	// Data is real or synthetic, DataHash of the samples as a plan has it, Whole whether they are all that the data have;
	// empty for recordings.
	Data     string `json:"data,omitempty"`
	DataHash string `json:"data_sha256,omitempty"`
	Whole    bool   `json:"whole,omitempty"`
	// EngineKnown says whether the integers of the profile were ever held to those of the target's own engine.
	EngineKnown bool `json:"engine_known"`
	Tensors     int  `json:"tensors"` // of integers, that were compared
	// IntegersCompared counts comparisons of both rules, IntegersDifferent the differences that no rule allows.
	IntegersCompared  int64  `json:"integers_compared"`
	IntegersDifferent int64  `json:"integers_different"`
	Ties              int64  `json:"ties"`
	MaxDifference     int64  `json:"max_difference"` // in steps, ties included
	Verdict           string `json:"verdict"`
	// First is the first divergence in graph order, nil where there is none.
	First *Divergence `json:"first,omitempty"`
	// NotFinite is the first number that is NaN or infinite and is not in float; nil where there is none.
	NotFinite *NotFinite `json:"not_finite,omitempty"`
	// Suspect says that one was met which is NaN or infinite, in float too or not.
	Suspect bool `json:"-"`
	// Measured says that the profile saturates: differences from real arithmetic are counted but none is held against it.
	Measured bool `json:"measured,omitempty"`

	Static     StaticCheck   `json:"static"`
	Backends   RuleCount     `json:"backends"`   // rule (a): a backend against the reference, 0 different
	Simulation RuleCount     `json:"simulation"` // rule (b): every step against real arithmetic on its own integers
	PerTensor  []TensorCheck `json:"per_tensor"` // in the order of the steps
	Drift      []Drift       `json:"drift"`      // rule (c), by graph output
	Safety     []SafetyRow   `json:"safety"`
	Float      string        `json:"float,omitempty"`     // where the target computes float islands: native, host, absent
	Crossings  []CrossingRow `json:"crossings,omitempty"` // between integers and float, in the order of the steps
	Fits       []ProfileFit  `json:"fits,omitempty"`      // of recorded tensors: how well each profile explains them, best first
	// Missing are the tensors of integers that were not recorded, Recorded how many were.
	Missing  []string `json:"missing,omitempty"`
	Recorded int      `json:"recorded,omitempty"`
	// BitExact answers whether an engine that was recorded is bit-exact with the profile, whatever real arithmetic says;
	// nil without a recording.
	BitExact *BitExact `json:"bit_exact,omitempty"`
	// OffGrid lists tensors of integers that were recorded only as real numbers which are none of theirs: what an engine computed in
	// float. They are not compared.
	OffGrid []OffGrid `json:"off_grid,omitempty"`
	// EngineFaults are known faults of the target's engine that the operators meet whose recorded integers differ: where there are such, the
	// file is right and the engine is wrong.
	EngineFaults []EngineFault `json:"engine_faults,omitempty"`
	// Simulated lists the steps that have no integer form, in order, and Share what part of the work was compared; none and nil where
	// the whole plan was.
	Simulated []SimulatedStep `json:"simulated,omitempty"`
	Share     *Share          `json:"share,omitempty"`
	// Placed says which steps the backend ran on its device; nil for backends without one.
	Placed *Placed `json:"placed,omitempty"`
	// Digest identifies the integers that were computed; nil for recorded ones.
	Digest  *Digest `json:"digest,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Digest is the SHA-256 of the SHA-256s of samples, in their order, each of the integers of a program in the order of steps. It is that of
// the reference, and of every backend that does not differ.
type Digest struct {
	// SHA256 is of the integers that follow from the inputs by integer steps alone: the same on every machine. Empty without any.
	SHA256   string `json:"sha256,omitempty"`
	Integers int64  `json:"integers"`
	// BehindFloatSHA256 is of those behind a step that computes in float: the same on machines whose floats are the same.
	BehindFloatSHA256 string `json:"behind_float_sha256,omitempty"`
	BehindFloat       int64  `json:"behind_float"`
}

// SimulatedStep is a step that the plan quantizes and that has no integer form.
type SimulatedStep struct {
	Node string `json:"node"`
	Op   string `json:"op"`
	MACs int64  `json:"macs"` // 0 also where the count is not known
	Why  string `json:"why"`
}

// Share is a part of the work of the operators that a plan quantizes.
type Share struct {
	Of       string `json:"of"` // macs; operators where none multiplies, or shapes are open
	Verified int64  `json:"verified"`
	All      int64  `json:"all"`
}

// Part returns the share as a number from 0 to 1, rounded down to four digits; 1 where there is no work.
func (s *Share) Part() float64 {
	if s.All == 0 {
		return 1
	}
	return float64(int64(float64(s.Verified)/float64(s.All)*1e4)) / 1e4
}

// Placed says where the steps of a program ran: on a device, or, where Device is empty, by the processor's kernels.
type Placed struct {
	Device   string     `json:"device,omitempty"`
	Steps    int        `json:"steps"`
	OnDevice int        `json:"on_device,omitempty"`
	OnShapes int        `json:"on_shapes,omitempty"` // that compute shapes and indices: on the host, once for a set of input shapes
	OnHost   []HostStep `json:"on_host"`             // in the order of the steps: those that the reference computed
}

// HostStep is a step that the backend has no kernel for.
type HostStep struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Reason string `json:"reason"`
}

// RuleCount is what one rule found.
type RuleCount struct {
	Compared  int64 `json:"compared"`
	Different int64 `json:"different"`
	Ties      int64 `json:"ties"`
}

// StaticCheck is the comparison of a program's numbers with those derived from graph and plan.
type StaticCheck struct {
	Steps  int          `json:"steps"`
	Values int64        `json:"values"` // codes, multipliers, shifts, zero points, biases, clamps, table bytes
	Faults []Divergence `json:"faults"` // in graph order, at most 100; nil where there is none
}

// Divergence is one place where a number is not what it should be.
type Divergence struct {
	Node     string `json:"node"`
	Op       string `json:"op"`
	Tensor   string `json:"tensor"`
	What     string `json:"what"`  // integer, multiplier, zero point, ...
	Index    int    `json:"index"` // of the element, or of the channel
	Expected Number `json:"expected"`
	Got      Number `json:"got"`
	// ExpectedBy says who: plan, simulation, reference, or the name of the recorded tensors.
	ExpectedBy string `json:"expected_by"`
	// Of an integer of a sum of products: its accumulator, bias included where that is an integer, and the multiplier.
	Accumulator *int64 `json:"accumulator,omitempty"`
	Multiplier  string `json:"multiplier,omitempty"`
	// Exact is the value before rounding in steps, zero point included.
	Exact *float64 `json:"exact,omitempty"`
	Tie   bool     `json:"tie"`
}

// Number is a number that JSON may not have: infinities and NaN are written as text.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	x := float64(n)
	switch {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-Infinity"`), nil
	}
	return json.Marshal(x)
}

// TensorCheck is what was found at one tensor of integers.
type TensorCheck struct {
	Node     string `json:"node"`
	Op       string `json:"op"`
	Tensor   string `json:"tensor"`
	Compared int64  `json:"compared"` // under rule (b)
	// Different and Ties count integers that differ from the rounded exact value, Backend those in which a backend differs from
	// the reference.
	Different int64 `json:"different"`
	Ties      int64 `json:"ties"`
	Backend   int64 `json:"backend"`
	// Bound is the largest bound that was stated for an element, in steps; Distance the largest distance of an element that
	// differs from the rounding boundary.
	Bound    float64 `json:"bound"`
	Distance float64 `json:"distance"`
	// Histogram counts differences from the rounded exact value by their size, smallest first; those of 0 are left out.
	Histogram []StepCount `json:"histogram,omitempty"`
}

// StepCount says how many integers differ by Difference steps.
type StepCount struct {
	Difference int64 `json:"difference"`
	Count      int64 `json:"count"`
}

// Drift is how far the free-running program is from the free-running simulation at a graph output.
type Drift struct {
	Output string `json:"output"`
	Error
	MaxDifference float64 `json:"max_difference"`
}

// SafetyRow is what can be said about the sums of one step: before data, and on it.
type SafetyRow struct {
	Node string `json:"node"`
	Op   string `json:"op"`
	// Min and Max bound every partial sum for any input; Bits is how many a signed accumulator needs for them.
	Min  int64 `json:"min"`
	Max  int64 `json:"max"`
	Bits int   `json:"bits"`
	Fits bool  `json:"fits"` // into int32
	// Bias is the largest magnitude of an integer bias.
	Bias int64 `json:"bias"`
	// Pairs of neighbouring products would be added in int16 by processors without VNNI; AtRisk of them saturate for some input.
	Pairs  int64 `json:"pairs"`
	AtRisk int64 `json:"at_risk"`
	// Sums and Saturated count pair sums on the data and those that left int16, Affected the accumulators that have one. They are
	// counted where pairs are at risk.
	Sums      int64  `json:"sums"`
	Saturated int64  `json:"saturated"`
	Affected  int64  `json:"affected"`
	Cure      string `json:"cure,omitempty"`
}

// CrossingRow is a place where numbers pass between integer steps and float: a graph input or output, or the border of an island.
type CrossingRow struct {
	Step    string `json:"step"`
	Op      string `json:"op"`
	Tensor  string `json:"tensor"`
	ToFloat bool   `json:"to_float"`
	Island  bool   `json:"island"` // an operator of the graph computes in float there
	Bytes   int64  `json:"bytes"`  // read and written to convert, for one sample
}

// ProfileFit is how well one arithmetic profile explains recorded tensors.
type ProfileFit struct {
	Profile   string `json:"profile"`
	Compared  int64  `json:"compared"`
	Different int64  `json:"different"` // integers that the profile computes otherwise
	Max       int64  `json:"max"`
	Why       string `json:"why,omitempty"` // the profile cannot be tried
}

// BitExact is how many integers of a recording are not those that a profile computes from the recorded inputs of each step.
type BitExact struct {
	Profile   string `json:"profile"`
	Compared  int64  `json:"compared"`
	Different int64  `json:"different"`
	Max       int64  `json:"max"`
	Holds     bool   `json:"holds"`
	// Open says that the profile does not say every integer: it leaves the order of float sums, or the pairs that saturate, to the
	// engine. The verdict is then that of real arithmetic alone.
	Open bool `json:"open,omitempty"`
}

// OffGrid says how far the real numbers recorded of a tensor are from the grid of its integers.
type OffGrid struct {
	Tensor   string `json:"tensor"`
	Compared int64  `json:"compared"` // numbers
	Off      int64  `json:"off"`      // those that are no integer's
	Far      Number `json:"far"`      // of the farthest, in steps
}

// Share is the part of the integers that the profile explains wrongly; 1 where it could not be tried.
func (f *ProfileFit) Share() float64 {
	if f.Compared == 0 {
		return 1
	}
	return float64(f.Different) / float64(f.Compared)
}

// Fit returns how well a profile explains recorded tensors; nothing where it was not tried.
func (v *Verification) Fit(profile string) ProfileFit {
	for _, f := range v.Fits {
		if f.Profile == profile {
			return f
		}
	}
	return ProfileFit{Profile: profile}
}

// Holds reports whether the rules hold.
func (v *Verification) Holds() bool { return Holds(v.Verdict) }

// Holds reports whether a verdict says that all that was compared holds, and that something was.
func Holds(verdict string) bool {
	return verdict == VerdictEqual || verdict == VerdictTies || verdict == VerdictPartial
}
