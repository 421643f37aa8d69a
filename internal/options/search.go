package options

import (
	"fmt"
	"math"
	"slices"

	"qwb"
)

// Dispatch are the options of dispatch.
type Dispatch struct {
	qwb.DispatchOptions
	Auto                                    bool
	MaxNSR, MaxPlainNSR, MinCosine, MaxDrop *float64  // of the error, nil: no budget
	Minimize                                string    // a cost
	Most                                    [3]string // of the cost, in the order of qwb.Costings; empty: no budget
	JSON                                    bool
}

func (o *Dispatch) Table(c *qwb.Catalog) Table {
	search := Table{
		{Name: "max-nsr", At: &o.MaxNSR, Job: true,
			Help: "budget: largest noise-to-signal ratio (NSR) of the outputs, that of analyze and gate, for example 0.01"},
		{Name: "max-plain-nsr", At: &o.MaxPlainNSR, Job: true,
			Help: "budget: largest plain NSR, of the outputs as they are, behind a Softmax too"},
		{Name: "min-cosine", At: &o.MinCosine, Job: true, Help: "budget: smallest cosine similarity at the graph outputs, for example 0.999"},
		{Name: "max-drop", At: &o.MaxDrop, Job: true,
			Help: "budget: largest drop of top-1, or of --metric, on --data: in percentage points (pp) for metrics that are shares"},
		{Name: "max-work", See: "dispatch.md", At: &o.MaxWork, Job: true,
			Help: "with a budget on the error: how many `PERCENT` more work (multiply-accumulates; int8 counts 1, FP32 4) than the plan as it " +
				"is the result may have"},
		{Name: "force", At: &o.Force, Job: true, Help: "write what --auto found though no held-out samples confirm it"},
		{Name: "formats", At: (*Commas)(&o.Formats), Job: true,
			Help: "with --auto: formats that operators may get beside their own (fp32): fp32, fp16, int16, int8, int4, weights=int4-sym-g32, ..."},
		{Name: "rank", See: "dispatch.md", At: &o.Rank, Default: qwb.RankLayerwise, Job: true, Values: fixed(qwb.RankLayerwise, qwb.RankGradient),
			Help: "with --auto: rank operators by running each quantized alone, or by estimates from gradients"},
		{Name: "minimize", See: "dispatch.md", At: &o.Minimize, Job: true, Help: "with --auto: the cost to make small: macs, bytes or time"},
		{Name: "device", See: "dispatch.md", At: &o.DeviceFile, Job: true,
			Help: "device file from which time is predicted (YAML; qwb bench device writes one)"},
	}
	for i, x := range qwb.Costings {
		example := map[string]string{"macs": "200M", "bytes": "1.5M", "time": "2ms"}[x.Name]
		search = append(search, Option{Name: "max-" + x.Name, At: &o.Most[i], Job: true,
			Help: fmt.Sprintf("with --auto: the most %s that a plan may cost, for example %s, or 80%% of the plan as it is; the error is "+
				"made small", x.Name, example)})
	}
	return slices.Concat(
		Table{
			{Name: "fp32", At: &o.Selectors, Job: true,
				Help: "operators to keep in FP32: NAME, /regular expression/ or type:OP, separated by commas"},
			{Name: "reset", At: &o.Reset, Job: true, Help: "drop earlier choices of --fp32 and --auto"},
			{Name: "auto", At: &o.Auto, Job: true, Help: "search the smallest set of FP32 operators that meets the budget"},
		},
		Data(&o.Data), Metric(&o.Data, "output", false), search,
		Slices(&o.Data), Threads(&o.Threads, &o.Data.Threads), Memory(&o.Memory), JSON(&o.JSON))
}

// Check holds the options against each other: a search needs one budget, on the error or on the cost, and a budget a search.
func (o *Dispatch) Check() error {
	for _, check := range []func() error{o.errorBudget, o.costBudget, o.searchOnly} {
		if err := check(); err != nil {
			return err
		}
	}
	switch {
	case o.Auto && o.Budget == nil && o.MaxCost == nil:
		return qwb.Usagef("--auto needs a budget: --max-nsr, --min-cosine or --max-drop; or --max-macs, --max-bytes or --max-time")
	case !o.Auto && o.Budget != nil:
		return qwb.Usagef("--max-nsr, --min-cosine and --max-drop need --auto")
	case !o.Auto && len(o.Selectors) == 0 && !o.Reset:
		return qwb.Usagef("dispatch needs --fp32 SELECTORS, --auto or --reset")
	case !o.Auto && o.Force:
		return qwb.Usagef("--force needs --auto")
	case o.Rank != "" && o.Rank != qwb.RankLayerwise && o.Rank != qwb.RankGradient:
		return qwb.Usagef("--rank %s: %s or %s", o.Rank, qwb.RankLayerwise, qwb.RankGradient)
	case o.MaxWork != nil && !(*o.MaxWork >= 0):
		return qwb.Usagef("--max-work %g: give a percentage, 0 or more", *o.MaxWork)
	case o.MaxWork != nil && o.Budget == nil:
		return qwb.Usagef("--max-work goes with a budget on the error: --auto and --max-nsr, --min-cosine or --max-drop")
	case o.MaxDrop != nil && len(o.Data.Paths) == 0:
		return qwb.Usagef("--max-drop needs --data and labels")
	}
	return nil
}

func (o *Dispatch) errorBudget() error {
	o.Budget = nil
	for _, b := range []struct {
		name, flag string
		at         *float64
		lo, top    float64
		bounds     string
	}{
		{"nsr", "max-nsr", o.MaxNSR, 0, math.Inf(1), "0 or more"},
		{"plain_nsr", "max-plain-nsr", o.MaxPlainNSR, 0, math.Inf(1), "0 or more"},
		{"cosine", "min-cosine", o.MinCosine, -1, 1, "from -1 to 1"},
		{"drop", "max-drop", o.MaxDrop, -100, 100, "from -100 to 100"},
	} {
		switch {
		case b.at == nil:
			continue
		case o.Budget != nil:
			return qwb.Usagef("one budget at a time: --max-nsr, --min-cosine or --max-drop")
		case math.IsNaN(*b.at):
			return qwb.Usagef("--%s NaN: not a number", b.flag)
		case *b.at < b.lo || *b.at > b.top:
			return qwb.Usagef("--%s %g: out of range; it must be %s", b.flag, *b.at, b.bounds)
		}
		o.Budget = &qwb.Budget{Name: b.name, At: *b.at}
	}
	return nil
}

func (o *Dispatch) costBudget() (err error) {
	o.MaxCost, o.Costing.What = nil, o.Minimize
	for i, x := range qwb.Costings {
		switch {
		case o.Most[i] == "":
			continue
		case o.MaxCost != nil || o.Budget != nil:
			return qwb.Usagef("one budget at a time: on the error (--max-nsr, --min-cosine or --max-drop) or on the cost (--max-macs, " +
				"--max-bytes or --max-time)")
		case o.Minimize != "":
			return qwb.Usagef("--minimize is for a budget on the error; with --max-%s the error is made small", x.Name)
		}
		if o.MaxCost, err = qwb.ParseCostLimit(o.Most[i], x.Name == "time"); err != nil {
			return qwb.Usagef("--max-%s %s: %w", x.Name, o.Most[i], err)
		}
		o.Costing.What = x.Name
	}
	return nil
}

// searchOnly refuses what makes no sense without a search.
func (o *Dispatch) searchOnly() error {
	if o.Auto {
		return nil
	}
	switch {
	case o.MaxCost != nil:
		return qwb.Usagef("--max-%s needs --auto", o.Costing.What)
	case o.Minimize != "":
		return qwb.Usagef("--minimize needs --auto")
	case len(o.Formats) > 0:
		return qwb.Usagef("--formats needs --auto")
	case o.DeviceFile != "":
		return qwb.Usagef("--device needs --auto")
	}
	return nil
}

// Tune are the options of tune.
type Tune struct {
	qwb.TuneOptions
	JSON bool
}

func (o *Tune) Table(*qwb.Catalog) Table {
	return slices.Concat(
		Table{{Name: "method", At: (*List)(&o.Methods), Job: true, Field: &Field{Label: "Methods, in this order", Type: "many", List: "methods",
			Value: []string{"auto"},
			Doc: "Each method is tried; point at a name to read what it " +
				"does."}, Values: tuneMethods, Help: "auto, or method names separated by commas (default: auto)"}},
		Data(&o.Data),
		Table{{Name: "budget", At: &o.TuneOptions.Budget, Job: true, Field: &Field{Label: "Limit", Hint: "10m, or 5000forwards",
			Doc: "A time, or an amount of work in forward passes of one sample. Empty: no " +
				"limit."}, Help: "limit: a time (10m) or an amount of work (5000forwards: forward passes of one sample)"}},
		Profile(&o.Profile, "arithmetic profile to reduce the error for (default: the target's, if its integers differ from the simulation): "),
		Table{
			{Name: "allow-fp32", See: "tuning.md", At: &o.AllowFP32, Job: true, Field: &Field{Label: "Also try what moves work to FP32",
				Doc: "Equalization through ReLU6 leaves bounds per channel behind it, which no target computes on " +
					"integers."}, Help: "also try rewriting steps after which more of the network runs in FP32 than before"},
			{Name: "max-work", See: "tuning.md#extra-work", At: &o.MaxWork, Job: true, Field: &Field{Label: "Extra work at most, %", Hint: "5",
				Doc: "Multiply-accumulates of the tuned network beside those of the model."},
				Help: "how many `PERCENT` more multiply-accumulates than the model the tuned network may have (default 5)"},
			{Name: "max-bytes", See: "tuning.md#extra-work", At: &o.MaxBytes, Job: true, Field: &Field{Label: "Extra bytes at most, %", Hint: "5",
				Doc: "Constants of the tuned network beside those of the model."},
				Help: "how many `PERCENT` more bytes of constants than the model the tuned network may have (default 5)"},
			{Name: "steps", See: "tuning.md#block", At: &o.Steps, Job: true, Field: &Field{Label: "Steps a block", Hint: "1000",
				Doc: "Of methods block and distill: how often weights are moved."},
				Help: "of methods block and distill: how often the weights of a block, or of the network, are moved (default 1000)"},
			{Name: "blocks", See: "tuning.md#block", At: &o.Blocks, Job: true, Field: &Field{Label: "Blocks, the worst", Hint: "all",
				Doc: "Of method block: how many are learnt, those that add most to the error."},
				Help: "of method block: learn only the `N` blocks that add most to the error (default: all)"},
			{Name: "loss", See: "tuning.md#distill", At: &o.Loss, Default: qwb.LossSquared, Job: true,
				Values: fixed(qwb.LossSquared, qwb.LossClasses),
				Help:   "what method distill lowers: the squared error of the outputs, or of class scores the divergence of probabilities"},
			{Name: "optimizer", See: "tuning.md#block", At: &o.Optimizer, Default: qwb.OptimizerAdam, Job: true,
				Values: fixed(qwb.OptimizerAdam, qwb.OptimizerSign),
				Help:   "of methods block and distill: Adam, or signed SGD"},
			{Name: "force", At: &o.Force, Job: true, Field: &Field{Label: "Also keep what held-out samples do not confirm"},
				Help: "also keep changes that held-out samples do not confirm"},
			{Name: "gram", See: "tuning.md#gram-statistics", At: &o.Gram,
				Help: "`FILE` of Gram statistics (sums of products of inputs) to fit on instead of data; --shard or qwb merge writes it; held-out " +
					"samples still come from data"},
			{Name: "shard", At: &shard{at: &o.Shard},
				Help: "part of the data, `I/N`: write the Gram statistics of part I of N to -o PART and tune nothing; 1/1 is all data"},
		},
		Output(&o.Out, "file for the Gram statistics of --shard"),
		FloatBackend(&o.Backend, "what makes the Gram statistics of --shard: "),
		Slices(&o.Data), Threads(&o.Threads, &o.Data.Threads), Memory(&o.Memory), JSON(&o.JSON))
}

// Check holds the options against each other.
func (o *Tune) Check() error {
	part := o.Shard != qwb.Shard{}
	switch {
	case part && (len(o.Methods) > 0 || o.Gram != "" || o.Budget != "" || o.Force):
		return qwb.Usagef("--shard only writes Gram statistics and tunes nothing: remove --method, --gram, --budget and --force")
	case part && o.Out == "":
		return qwb.Usagef("--shard needs -o: the file to write")
	case o.MaxWork != nil && !(*o.MaxWork >= 0):
		return qwb.Usagef("--max-work %g: give a percentage, 0 or more", *o.MaxWork)
	case o.MaxBytes != nil && !(*o.MaxBytes >= 0):
		return qwb.Usagef("--max-bytes %g: give a percentage, 0 or more", *o.MaxBytes)
	case o.Steps < 0:
		return qwb.Usagef("--steps %d: give a number above 0", o.Steps)
	case o.Loss == qwb.LossClasses && !slices.Contains(o.Methods, "distill"):
		return qwb.Usagef("--loss %s is for method distill", o.Loss)
	case o.Blocks < 0:
		return qwb.Usagef("--blocks %d: give a number above 0", o.Blocks)
	case !part && o.Out != "":
		return qwb.Usagef("-o needs --shard; without it tune writes its file beside the plan")
	}
	return o.Learning()
}
