package analysis

import (
	"slices"

	"qwb/internal/plain"
	"qwb/quantizer/target"
)

// EngineFault is a fault of an engine that is known, and what meets it in a file.
type EngineFault struct {
	Name     string `json:"name"`
	Engine   string `json:"engine"`
	Versions string `json:"versions"`     // that have it, in words
	On       string `json:"on,omitempty"` // the processors, or the kernels, that have it; empty: all
	Pattern  string `json:"pattern"`
	Effect   string `json:"effect"`
	Cure     string `json:"cure"`
	Source   string `json:"source"`
	Held     string `json:"held"` // what reproduces it
	// Nodes are the operators of the file that meet it; none in a list of all faults.
	Nodes []string `json:"nodes,omitempty"`
}

// NewEngineFault is a row of the table as plain data.
func NewEngineFault(f *target.Fault) EngineFault {
	return EngineFault{Name: f.Name, Engine: f.Engine, Versions: f.Versions(), On: f.On, Pattern: f.Pattern, Effect: f.Effect, Cure: f.Cure,
		Source: f.Source, Held: f.Held}
}

// MetBy are the known faults of a platform's engine that operators of a network meet.
func MetBy(list []*target.Fault, of []*target.Rounded) []EngineFault {
	var met []EngineFault
	for _, f := range list {
		x := NewEngineFault(f)
		for _, o := range of {
			if f.Met != nil && f.Met(o) && !slices.Contains(x.Nodes, o.Node.Name) {
				x.Nodes = append(x.Nodes, o.Node.Name)
			}
		}
		if x.Nodes != nil {
			met = append(met, x)
		}
	}
	return met
}

// String is the fault in a line.
func (f *EngineFault) String() string {
	on := ""
	if f.On != "" {
		on = " on " + f.On
	}
	text := f.Engine + " (" + f.Versions + ")" + on + ": " + f.Pattern + ": " + f.Effect
	if n := len(f.Nodes); n > 0 {
		text = f.Nodes[0] + ": " + text
		if n > 1 {
			text = plain.Count(n, "operator") + ", first " + text
		}
	}
	return f.Name + ": " + text
}
