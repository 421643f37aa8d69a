package tensors

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/quantizer/tqc"
)

// WhatIf is what a decision would do to a plan.
type WhatIf struct {
	Plan       string    `json:"plan"`
	Select     string    `json:"select"`
	Properties []string  `json:"properties"` // as set takes them
	Estimate   *Estimate `json:"estimate"`
	Tensors    []Change  `json:"tensors"`
	Measured   *Measured `json:"measured"` // null where nothing was run
}

// Change is a tensor whose figures another plan changes. The values are those that were observed for the plan as it is.
type Change struct {
	Slot   string   `json:"slot"` // whose scale it is
	Shared []string `json:"shared"`
	Before *Figures `json:"before"` // null where it has no scale, or there are no figures
	After  *Figures `json:"after"`
	Tensor *Tensor  `json:"tensor,omitempty"` // histogram, grid and observers of the plan as it is, if they were asked for
}

// Measured is the error of the outputs that were run, as it is and as it would be, on the same samples.
type Measured struct {
	Output string       `json:"output"` // the worst of the plan as it would be
	Before analysis.NSR `json:"before"`
	After  analysis.NSR `json:"after"`
	// Mismatches: no output is float, and the error is the share of elements that differ.
	Mismatches bool    `json:"mismatches,omitempty"`
	Samples    int     `json:"samples"`
	Seconds    float64 `json:"seconds"`
}

// Changes lists the tensors of some operators whose figures differ between two plans of a model, in the order of was. whole adds all that
// there is to show of each.
func Changes(was, is *Plan, nodes []string, whole bool) []Change {
	list := []Change{}
	for _, name := range nodes {
		id, ok := was.Graph.LookupNode(name)
		if !ok {
			continue
		}
		for _, s := range slices.Concat(was.Set.Inputs(id), was.Set.Outputs(id)) {
			if s == tqc.NoSlot || was.passive(is, s) {
				continue
			}
			c := Change{Slot: was.Name(s), Shared: was.shared(s)}
			if f, err := was.Figures(s); err == nil {
				c.Before = &f
			}
			if f, err := was.Under(is, c.Slot); err == nil {
				c.After = &f
			}
			if (c.Before == nil) == (c.After == nil) && (c.Before == nil || same(c.Before, c.After)) {
				continue
			}
			if whole {
				c.Tensor, _ = was.Tensor(s)
			}
			list = append(list, c)
		}
	}
	return list
}

// same compares all but the pointer to a number that follows from others.
func same(a, b *Figures) bool {
	x, y := *a, *b
	x.SQNR, y.SQNR = nil, nil
	return x == y
}

// ByChange orders tensors by how much their error changes, the most first.
func ByChange(a, b Change) int { return cmp.Compare(b.moved(), a.moved()) }

func (c *Change) moved() float64 {
	nsr := func(f *Figures) float64 {
		if f == nil {
			return 0
		}
		return f.NSR
	}
	return math.Abs(nsr(c.After) - nsr(c.Before))
}

// passive reports whether another slot governs the scale of one in both plans, or it is of a bias.
func (p *Plan) passive(other *Plan, s tqc.SlotID) bool {
	sl := p.Set.Slot(s)
	if p.Graph.Const(sl.Value) != nil && !sl.Weight {
		return true
	}
	o, err := other.Slot(p.Name(s))
	return err != nil || p.Set.Root(s) != s && other.Set.Root(o) != o
}

// Words are the properties of a decision about what a selector means, in which lo=X and hi=Y, the range of one activation, have become the
// scale and the zero point of that range.
func (p *Plan) Words(selector string, words []string) ([]string, error) {
	var rest []string
	ends := map[string]float64{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if key != "lo" && key != "hi" {
			rest = append(rest, w)
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, refuse("%s: %q is no number", key, value)
		}
		ends[key] = x
	}
	if len(ends) == 0 {
		return words, nil
	}
	if len(ends) != 2 || len(rest) > 0 {
		return nil, refuse("a range is lo=X and hi=Y, without other properties")
	}
	id, err := p.Slot(selector)
	if err != nil {
		return nil, err
	}
	s, err := p.Ranged(id, ends["lo"], ends["hi"])
	if err != nil {
		return nil, err
	}
	return s.Properties(), nil
}
