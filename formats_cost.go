package qwb

import (
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/quantizer/target"
)

// Costing says what a search counts as the cost of a plan.
type Costing struct {
	What   string           // macs, bytes or time; empty: macs
	Device *analysis.Device // for time
}

// Costings are the costs that a search can count, with what they are.
var Costings = []struct{ Name, Doc string }{
	{"macs", "multiply-accumulates weighted by their format (int8 is 1, int16 and fp16 2, fp32 4, int4 a half), and for each element that is converted between float and integers the target's border cost"},
	{"bytes", "bytes of all constants, scales included"},
	{"time", "time predicted from a device file"},
}

func (c Costing) check() error {
	var names []string
	for _, x := range Costings {
		names = append(names, x.Name)
	}
	switch {
	case c.What != "" && !slices.Contains(names, c.What):
		return Usagef("unknown cost %q: %s", c.What, strings.Join(names, ", "))
	case c.What == "time" && c.Device == nil:
		return Usagef("time is predicted from a device file: --device FILE")
	}
	return nil
}

// of is the cost of a plan.
func (c Costing) of(cost analysis.Cost, t *target.Target) float64 {
	switch c.What {
	case "bytes":
		return float64(cost.TotalBytes())
	case "time":
		return *cost.Seconds
	}
	return cost.Work() + t.BorderCost*float64(cost.Converted)
}

// node is what an operator adds.
func (c Costing) node(n analysis.NodeCost) float64 {
	switch c.What {
	case "bytes":
		return float64(n.Bytes)
	case "time":
		return n.Seconds
	}
	return n.Work()
}

// conversions is what converting so many elements between float and integers adds.
func (c Costing) conversions(t *target.Target, elements int64) float64 {
	switch c.What {
	case "bytes":
		return 0
	case "time":
		return c.Device.Conversion(elements, 8, 32)
	}
	return t.BorderCost * float64(elements)
}

// said is a cost as messages have it.
func (c Costing) said(cost float64) string {
	switch c.What {
	case "bytes":
		return fmt.Sprintf("%.4g KB", cost/1e3)
	case "time":
		return fmt.Sprintf("%.4g ms", cost*1e3)
	}
	return fmt.Sprintf("%.4g M int8 MACs", cost/1e6)
}
