package qwb

import (
	"encoding/json"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Planned is a plan with the model it is for, ready to run.
type Planned struct {
	*Model
	File   string
	Plan   *plan.Plan
	Set    *tqc.Set
	Target *target.Target
	// Reference is the normal form after the steps of Overlay, which runs in float and computes what the model does. Graph is its clone with what was tuned (Overlay, nil for nothing), which is
	// quantized. Stale lists what was tuned and does not fit any more.
	Reference *graph.Graph
	Overlay   *overlay.Overlay
	Stale     []overlay.Stale

	catalog *Catalog
	watch   func(p *Planned, run planRun) // hears of what runs the plan; may be nil
	lost    bool                          // what was tuned is gone: Graph is the reference without it
	broken  *rewrite.Broken               // the step of the tuned values that does not fit; Reference is without all of them then
	sum     string                        // SHA-256 of the file as it was read
}

// seenBy are the samples behind statistics, by hash; nil has none.
func seenBy(stats *calib.Stats) map[[32]byte]bool {
	seen := map[[32]byte]bool{}
	if stats != nil {
		for _, h := range stats.Hashes() {
			seen[h] = true
		}
	}
	return seen
}

// sampleHashes lists the hashes of the samples behind statistics.
func sampleHashes(stats *calib.Stats) [][32]byte {
	list := make([][32]byte, stats.Samples())
	for i, h := range stats.Hashes() {
		list[i] = h
	}
	return list
}

// Data returns the plan's own data set, or the one given on the command line.
func (p *Planned) Data(o DataOptions) DataOptions {
	o = o.Of(p.Model)
	if o.Stored == nil {
		o.Stored = &p.Plan.Preprocess
	}
	if o.Tokenizer == "" && p.Plan.Preprocess.Tokenizer != "" {
		o.Tokenizer = plan.Resolve(p.File, p.Plan.Preprocess.Tokenizer)
	}
	if len(o.Paths) == 0 {
		o.Paths = locate(p.File, p.Plan.Data.Paths)
		if o.Samples == 0 {
			o.Samples = p.Plan.Samples
		}
		if o.Seed == 0 {
			o.Seed = uint64(p.Plan.Seed)
		}
	}
	return o
}

// preprocessKey is the canonical text of a preprocessing: what statistics record it as.
func preprocessKey(p plan.Preprocess) (string, error) {
	b, err := json.Marshal(p)
	return string(b), err
}

func parsePreprocessKey(key string) (p plan.Preprocess, err error) {
	err = json.Unmarshal([]byte(key), &p)
	return p, err
}

// planData opens the data set given, or the plan's own with at most limit samples unless a number was asked for.
func (j *job) planData(p *Planned, o DataOptions, limit int) (*data.Set, error) {
	set, _, err := j.planDataBy(p, o, limit)
	return set, err
}

// planDataBy is planData and says how the samples are preprocessed.
func (j *job) planDataBy(p *Planned, o DataOptions, limit int) (*data.Set, plan.Preprocess, error) {
	own := len(o.Paths) == 0
	asked := o.Samples
	o = p.Data(o)
	if own && asked == 0 && o.Samples > limit {
		o.Samples = limit
	}
	return j.openData(p.Graph, o)
}
