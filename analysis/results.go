package analysis

import "qwb/quantizer/tqc"

// The result types are plain data: reports renders them, cmd prints them as JSON. The names in
// JSON are what scripts rely on.

// Error compares a quantized tensor q with its float original f over samples.
type Error struct {
	NSR    float64 `json:"nsr"`    // mean over samples of sum((q-f)^2) / (sum(f^2) + 1e-7)
	MSE    float64 `json:"mse"`    // mean over samples of the mean squared difference
	Cosine float64 `json:"cosine"` // mean over samples of the cosine of the angle between q and f; 1 where both are zero
}

// GraphwisePoint is the error accumulated up to the output of one operator while the whole graph is quantized.
type GraphwisePoint struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Tensor string `json:"tensor"`
	Error
	Spread
}

// LayerError is one operator quantized alone (with the activation fused to it): a row. Every slot that rounds is in one row and in no
// other, so that operators without products have rows too: an Add, a Concat, a Softmax with a scale of its own. What lies between two
// operators is in the row of the one that rounds it: where outputs are quantized of the one that computes it,
// else of the one that reads it.
type LayerError struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Error         // at the graph outputs: NSR, MSE the maximum, Cosine the minimum over float outputs
	Spread        // of that NSR
	// Centred is the loss as the judge has it where the network has classes; see Judge. nil for other networks.
	Centred *NSR `json:"centred,omitempty"`
	// Verdict is the loss as the judge has it where parts of outputs count (see Slice), or outputs do not, which have no signal in the
	// samples; nil for other networks.
	Verdict *NSR `json:"verdict,omitempty"`
	// Ranks are the places, from 1 for the largest NSR, that the operator may have among all on other samples, as far as these can tell:
	// places between operators that are told apart by a paired test. One sample tells nothing apart.
	Ranks [2]int `json:"ranks"`
	// CentredRanks are the places by the centred NSR, or by Verdict.
	CentredRanks *[2]int `json:"centred_ranks,omitempty"`
	// Local is the NSR at the operator's own (fused) output, from float inputs. Clip and Round are the projections of the two steps of the
	// chain float -> clipped -> rounded on the whole local error: Clip + Round = Local. Of more than two samples Clip, Weight, Activation and
	// Read may be measured on two of each sixteen only.
	Local float64 `json:"local"`
	Clip  float64 `json:"clip"`
	Round float64 `json:"round"`
	// Weight and Activation split Local by which of the two is quantized first (with --split): projections too, in the order
	// weight, then activation; Weight + Activation = Local.
	Weight     *float64 `json:"weight,omitempty"`
	Activation *float64 `json:"activation,omitempty"`
	// Read is what rounding the tensors that it reads, which are in the rows of others, makes of its own output (with --split), as an NSR; nil
	// where there are none.
	Read *float64 `json:"read,omitempty"`
	// MeanShift is what rounding the weights moves the means of the output channels by, as an NSR at the operator's own output, as calibration
	// statistics tell; nil where they do not.
	MeanShift *float64 `json:"mean_shift,omitempty"`
	// MACs are those of one sample. Dimensions that the model leaves open count as 1, as where the dispatcher adds up work.
	MACs int64 `json:"macs"`
	// Bounded is on how many samples the error at the outputs is not measured but estimated: from the error at the operator's own output, by
	// what such an error made of them on the first sample, or there from that at the next row's output. This is no bound in the strict sense:
	// another sample may carry more of it.
	Bounded int `json:"bounded,omitempty"`
	// WeightRange holds per output channel the smallest and largest weight.
	WeightRange [][2]float32 `json:"weight_range,omitempty"`

	losses []float64 // by sample: the judge's, of the output that loses most
	blocks Blocks    // of the samples
	parts  []float64 // means over the samples: the judge's, by output and part
}

// Judged is the NSR of the outputs that people compare, of the operator alone: that of the worst part where parts count, centred where
// there are classes. Places are the ranks by it.
func (l *LayerError) Judged() NSR {
	if l.Verdict != nil {
		return *l.Verdict
	}
	if l.Centred != nil {
		return *l.Centred
	}
	return NSR{l.NSR, l.Spread}
}

func (l *LayerError) Places() [2]int {
	if l.CentredRanks != nil {
		return *l.CentredRanks
	}
	return l.Ranks
}

// Loss is what the judge says of the operator alone: the centred NSR, or the NSR of a network without classes.
func (l *LayerError) Loss() Estimate { return l.blocks.Estimate(l.losses) }

// Parts are the losses of the operator alone by output and part, as an Evaluator has them for the same graph: 0 for those that do not
// count; nil for a report that was read.
func (l *LayerError) Parts() []float64 { return l.parts }

// SumOfRows adds up operators that are quantized alone, by output and part: what they sum to in the part that they sum to most in, and what
// each adds to that. Of a report that was read, which has no parts, the figures that people compare are added up.
func SumOfRows(layers []LayerError) (sum float64, each []float64) {
	each = make([]float64, len(layers))
	var sums []float64
	for i := range layers {
		if sums == nil {
			sums = make([]float64, len(layers[i].parts))
		}
		for c, x := range layers[i].parts {
			sums[c] += x
		}
	}
	at := -1
	for c, x := range sums {
		if at < 0 || x > sums[at] {
			at = c
		}
	}
	if at >= 0 {
		sum = sums[at]
	}
	for i := range layers {
		if at >= 0 {
			each[i] = layers[i].parts[at]
			continue
		}
		each[i] = layers[i].Judged().NSR
		sum += each[i]
	}
	return sum, each
}

// TensorStatistics are moments and ranges of one activation or parameter over the samples.
type TensorStatistics struct {
	Tensor   string  `json:"tensor"`
	Node     string  `json:"node"` // its producer; empty for inputs and parameters
	Kind     string  `json:"kind"` // activation, input, parameter
	Count    int64   `json:"count"`
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
	Mean     float64 `json:"mean"`
	Std      float64 `json:"std"`
	Skewness float64 `json:"skewness"`
	Kurtosis float64 `json:"kurtosis"` // excess: 0 for a normal distribution
	Zeros    float64 `json:"zeros"`    // share of elements that are exactly zero
	Channels int     `json:"channels,omitempty"`
	Dead     []int   `json:"dead,omitempty"` // channels that are constant over all samples
	// Histogram has equal bins from Min to Max.
	Histogram []int64 `json:"histogram,omitempty"`
	// Thresholds are the ranges that each calibration method would choose, and the one in use.
	Thresholds []Threshold `json:"thresholds,omitempty"`
}

// Threshold is the range one calibration method chooses for a tensor.
type Threshold struct {
	Method string  `json:"method"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	Used   bool    `json:"used,omitempty"`
}

// Report is everything one run of analyze found. Kinds that were not asked for are nil.
type Report struct {
	Model       string             `json:"model"`
	Plan        string             `json:"plan"`
	Platform    string             `json:"platform"`
	Samples     int                `json:"samples"`
	Graphwise   []GraphwisePoint   `json:"graphwise"`
	Layerwise   []LayerError       `json:"layerwise"`
	Statistical []TensorStatistics `json:"statistical"`
	Outputs     []OutputError      `json:"outputs"`             // of the whole quantized graph; nil where it was not run
	Headlines   []string           `json:"headlines,omitempty"` // what counts more than the figures of Outputs, see the function
	Steps       []Steps            `json:"steps,omitempty"`     // of Outputs, where samples are steps of sequences
	Together    *Together          `json:"together,omitempty"`  // the sum of Layerwise against Outputs; nil without both
	Sensitivity *SensitivityTable  `json:"sensitivity,omitempty"`
	Explained   *Explanation       `json:"explained,omitempty"`
	Settings    []NodeSetting      `json:"settings,omitempty"` // of every operator of the graph
	Advice      []Advice           `json:"advice"`             // what is wrong and what helps, the worst first
	Seconds     float64            `json:"seconds"`
	// Forwards is how many whole forwards the work amounts to, weighted by multiply-accumulates, per sample.
	Forwards float64   `json:"forwards"`
	PeakRSS  int64     `json:"peak_rss_bytes"` // of the process, the caller's to fill
	Warnings []Warning `json:"warnings"`
	// PlanSHA256 identifies the plan by its inputs, decisions and numbers, Data what the samples were chosen from and how.
	PlanSHA256 string `json:"-"`
	Data       string `json:"-"`
	Cost       *Cost  `json:"-"` // of the plan; nil where nobody added it up
}

// OutputError is the error of the fully quantized graph at one graph output.
type OutputError struct {
	Output string `json:"output"`
	Error
	Spread
	// Centred is the NSR of the class scores behind a Softmax, without their mean over the classes; see Judge. nil for other outputs.
	Centred *NSR `json:"centred,omitempty"`
	// Integer says that it is no float output: NSR is then, as Mismatch, the share of its elements that differ,
	// and counts where no output is float.
	Integer  bool    `json:"integer,omitempty"`
	Mismatch float64 `json:"mismatch,omitempty"`
	// Slices are its parts, by themselves.
	Slices []SliceError `json:"slices,omitempty"`
	// NoSignal says that float is about 0 in it on all samples, so that its error says nothing.
	NoSignal bool `json:"no_signal,omitempty"`
	// EmptySamples is in how many of Samples the output has no signal although it has one in others: they are left out of the means.
	EmptySamples int `json:"empty_samples,omitempty"`
	Samples      int `json:"-"`
	// Rows is how many rows of class scores stand behind it, ClassesChanged in how many of them another class has the highest.
	Rows           int `json:"rows,omitempty"`
	ClassesChanged int `json:"classes_changed,omitempty"`
	// For are outputs whose size depends on the numbers, which cannot be compared: this tensor in front of them stands for them.
	For []string `json:"for,omitempty"`
}

// whole is the NSR of the output as one: centred where it has classes.
func (o *OutputError) whole() NSR {
	if o.Centred != nil {
		return *o.Centred
	}
	return NSR{o.NSR, o.Spread}
}

// before reports whether an output is judged in place of another.
func (o *OutputError) before(other *OutputError) bool {
	if o.Integer != other.Integer {
		return !o.Integer
	}
	if o.NoSignal != other.NoSignal {
		return !o.NoSignal
	}
	return o.Judged().NSR > other.Judged().NSR
}

// Worst is the part of the output that is judged and has a larger error than the whole; nil where there is none.
func (o *OutputError) Worst() *SliceError { return WorstSlice(o.Slices, o.whole().NSR) }

// Apart reports whether the errors of class scores and of what Softmax makes of them tell different things: one is more than ten times the
// other, and one above 0.01.
func (o *OutputError) Apart() bool {
	c := o.Centred
	return c != nil && max(c.NSR, o.NSR) > 0.01 && (c.NSR > 10*o.NSR || o.NSR > 10*c.NSR)
}

// WorstSlice is the slice that is judged and has the largest error, above some error; nil where there is none.
func WorstSlice(list []SliceError, above float64) (worst *SliceError) {
	for i := range list {
		if s := &list[i]; s.Judged && s.NSR > above {
			worst, above = s, s.NSR
		}
	}
	return worst
}

// Judged is the NSR of the output that people compare: that of its worst part, centred where it has classes.
func (o *OutputError) Judged() NSR {
	if s := o.Worst(); s != nil {
		return s.estimate()
	}
	return o.whole()
}

// Judged is the output with the largest NSR as people compare it; nil where the whole network was not run. Integer outputs, and those
// without a signal, count where there is no other.
func (r *Report) Judged() (worst *OutputError) {
	for i := range r.Outputs {
		if o := &r.Outputs[i]; worst == nil || o.before(worst) {
			worst = o
		}
	}
	return worst
}

// Warning is something that was done all the same but that the user should know.
type Warning = tqc.Warning

// Advice is one thing that is wrong with a plan, or with one of its operators, and what helps.
type Advice struct {
	Node     string   `json:"node"`            // the worst of Nodes; empty for the whole plan
	Nodes    []string `json:"nodes,omitempty"` // all operators that it is about, the worst first
	Cause    string   `json:"cause"`           // by name, one of the causes of package advise: "clipping", "weight-mean-shift"
	Evidence string   `json:"evidence"`        // the figures that show it, in words
	Command  string   `json:"command"`         // the cure as a command line that can be run as it stands; empty where there is none
	// Others are commands that help too, in place of Command.
	Others []string `json:"others,omitempty"`
	// Before is the NSR of the outputs as they are, Predicted the one that is to be expected with the cure, nil where nobody can say. For
	// outputs with classes they are of the scores without their mean; see Judge.
	Before    *float64   `json:"before,omitempty"`
	Predicted *float64   `json:"predicted,omitempty"`
	Trial     *CureTrial `json:"trial,omitempty"`
}

// CureTrial is what a cure did when it was tried.
type CureTrial struct {
	Samples  int    `json:"samples"`
	HeldOut  string `json:"held_out_kind"` // see HeldOutKind
	Before   NSR    `json:"before"`
	Measured NSR    `json:"measured"`
	// Change is the mean of after - before over the samples, paired, with its error.
	Change      float64  `json:"change"`
	ChangeError *float64 `json:"change_error"`
	Failed      string   `json:"failed,omitempty"` // why there are no figures
}

// Cost is what a plan costs on its target: the work and the bytes in each format, and the time where a device file predicts it.
type Cost struct {
	// multiply-accumulates of one sample, by the format of their arithmetic: int4, int8, int16, fp16, fp32
	MACs    map[string]int64 `json:"macs"`
	Bytes   map[string]int64 `json:"bytes"` // of constants, by format
	Borders int              `json:"borders"`
	// Converted is how many elements cross the borders between float and integers.
	Converted int64    `json:"converted"`
	Seconds   *float64 `json:"seconds,omitempty"` // predicted for one sample
	Device    string   `json:"device,omitempty"`  // sha256 of the device file that Seconds follow from
}

// With returns the report with the parts of an earlier one of the same plan that it was not asked for, where both are of the same samples.
func (r *Report) With(old *Report) *Report {
	if r.Samples != old.Samples || r.Data != old.Data {
		return r
	}
	all := *r
	if all.Graphwise == nil {
		all.Graphwise = old.Graphwise
	}
	if all.Layerwise == nil {
		all.Layerwise, all.Advice, all.Together = old.Layerwise, old.Advice, old.Together
	}
	if all.Statistical == nil {
		all.Statistical = old.Statistical
	}
	if all.Outputs == nil {
		all.Outputs, all.Headlines, all.Steps = old.Outputs, old.Headlines, old.Steps
	}
	if all.Explained == nil {
		all.Explained = old.Explained
	}
	return &all
}
