package analysis

// FlipsResult says which samples a classifier takes for something else once it is quantized.
type FlipsResult struct {
	Samples  int    `json:"samples"`
	Labelled int    `json:"labelled"`
	Profile  string `json:"profile"` // of the integers that were run; empty: none could be
	// How many are as labelled by each run; null without labels, and where no integers were run.
	FloatTop1 *int `json:"float_top1"`
	SimTop1   *int `json:"sim_top1"`
	Int8Top1  *int `json:"int8_top1"`
	// How many are of another class than by float, and of how many simulation and integers differ; null where no integers were run.
	SimFlips  int  `json:"sim_flips"`
	Int8Flips *int `json:"int8_flips"`
	Apart     *int `json:"apart"`
	// Flips are samples whose class changed, or all where all are asked for, in the order of the data.
	Flips []Flip `json:"flips"`
	// Changes count what became of what, the most frequent first: of the integers, where they were run, else of the simulation.
	Changes []Confused `json:"changes"`
}

// Flip is one sample.
type Flip struct {
	Index  int         `json:"index"` // in the data
	Sample string      `json:"sample"`
	Label  *int        `json:"label"` // null: unknown
	Float  Prediction  `json:"float"`
	Sim    Prediction  `json:"sim"`
	Int8   *Prediction `json:"int8"`
	// NSR is that of the simulation's outputs, as the judge has it; Part is the part of an output that it is of, left out for a whole one.
	NSR  float64 `json:"nsr"`
	Part string  `json:"worst_slice,omitempty"`
}

// Prediction is what a classifier says of a sample.
type Prediction struct {
	Class int       `json:"class"`
	P     float64   `json:"p"`
	Top5  []ClassOf `json:"top5"`
}

// ClassOf is a class with its share.
type ClassOf struct {
	Class int     `json:"class"`
	P     float64 `json:"p"`
}

// Confused counts samples that float takes for one class and the quantized network for another.
type Confused struct {
	From  int `json:"from"`
	To    int `json:"to"`
	Count int `json:"count"`
}
