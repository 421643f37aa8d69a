package weights

import "strings"

// Way is how the scales and codes of matrices are chosen: a choice of Method.
type Way struct {
	Name, Doc string
	Search    bool // scales with the least squared error
	Fit       bool // weights are fitted to a text: each counts as the energy of its input
	Round     bool // and codes are chosen by the second moments of the inputs, scales with them
	Follow    bool // and by how far the inputs are from those of the float model
	Scale     bool // channels of inputs are scaled before
	Smooth    bool // by largest magnitudes, not energies
}

// The names of ways that others ask for.
const (
	Nearest    = "rtn"
	Judged     = "rtn,range"
	Importance = "importance"
	ScaleRange = "range"
)

var ways = []Way{
	{Name: Nearest, Doc: "from the largest weight of a group"},
	{Name: ScaleRange, Doc: "smallest squared error", Search: true},
	{Name: Judged, Doc: "range only where a paired test on --judge finds it better", Search: true},
	{Name: Importance, Doc: "error weighted by the inputs on --fit", Fit: true},
	{Name: "gptq", Doc: "importance, then codes and scales by GPTQ", Fit: true, Round: true},
	{Name: "gptaq", Doc: "gptq, making up for what quantized matrices in front change", Fit: true, Round: true, Follow: true},
	{Name: "awq", Doc: "channels scaled by the energy of inputs and weights, then importance", Fit: true, Scale: true},
	{Name: "awq+gptaq", Doc: "awq's scales, then gptaq", Fit: true, Round: true, Follow: true, Scale: true},
	{Name: "smoothquant", Doc: "channels scaled by the largest inputs and weights, then importance", Fit: true, Scale: true, Smooth: true},
}

// WayOf is the way of a name; of a name that is none, or empty, Nearest's.
func WayOf(name string) Way {
	for _, w := range ways {
		if w.Name == name {
			return w
		}
	}
	return ways[0]
}

// listed joins what f gives of the ways for which it is not empty.
func listed(between string, f func(w Way) string) string {
	var list []string
	for _, w := range ways {
		if s := f(w); s != "" {
			list = append(list, s)
		}
	}
	return strings.Join(list, between)
}

// Methods are the choices of Method, the default first.
var Methods = strings.Split(listed(" ", func(w Way) string { return w.Name }), " ")

// FittedMethods names those that need a text.
var FittedMethods = listed(", ", func(w Way) string {
	if !w.Fit {
		return ""
	}
	return w.Name
})

// FitDoc says what that text is.
var FitDoc = "text file for --method " + FittedMethods + ", one sequence per line, that weights are fitted to"

// MethodDoc says what the methods are.
var MethodDoc = listed("; ", func(w Way) string { return w.Name + ": " + w.Doc })
