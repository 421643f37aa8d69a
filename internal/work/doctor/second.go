package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"

	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// mostSecond bounds a file that a second reader gets, which may take several times as much memory.
const mostSecond = 1 << 28

// mostDifferences is how many differences of two readers are named.
const mostDifferences = 8

// SecondReading is a model as a second reader sees it, held to what qwb reads.
type SecondReading struct {
	Model  string `json:"model"`
	Reader string `json:"reader"` // and version
	Nodes  int    `json:"nodes"`
	Edges  int    `json:"edges"` // inputs of operators that are there
	// Differences are the first of Different, in words: operators, what they read and compute, inputs and outputs of the graph.
	Differences []string `json:"differences"`
	Different   int      `json:"different"`
}

// Second reads a model by the catalog's second reader, and compares its topology with qwb's own.
func Second(_ context.Context, j *open.Job, file string) (*SecondReading, error) {
	reader := j.Catalog.SecondReader
	if reader == nil {
		return nil, fault.Usagef("this program was built without onnx-go, which makes it a third larger: go install -tags onnxgo ./cmd/qwb")
	}
	m, err := j.OpenModel(file)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	f, err := j.Files().Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostSecond+1))
	switch {
	case err != nil:
		return nil, &fault.FileError{Stage: "doctor", File: file, Err: err}
	case len(b) > mostSecond:
		err := fmt.Errorf("more than %d MB, too much for %s", mostSecond>>20, reader.Name)
		return nil, &fault.FileError{Stage: "doctor", File: file, Err: err}
	}
	other, err := reader.Read(b)
	if err != nil {
		err = fmt.Errorf("the second reader does not read it, so nothing was compared: %w", err)
		return nil, &fault.FileError{Stage: "doctor", File: file, Err: err}
	}
	r := &SecondReading{Model: file, Reader: reader.Name, Differences: []string{}}
	r.compare(m.Loaded, other)
	if r.Different > 0 {
		return r, fault.Checkf("%s: %s reads another graph than qwb: %s", file, reader.Name, plain.Count(r.Different, "difference"))
	}
	return r, nil
}

func (r *SecondReading) differ(format string, a ...any) {
	if r.Different++; len(r.Differences) < mostDifferences {
		r.Differences = append(r.Differences, fmt.Sprintf(format, a...))
	}
}

// compare holds operators in the order of the file to each other, by their types and the names of what they read and compute. Operators
// that compute nothing have no inputs with some readers, so theirs are not compared.
func (r *SecondReading) compare(own, other *graph.Graph) {
	a, b := own.Nodes(), other.Nodes()
	r.Nodes = len(a)
	if len(a) != len(b) {
		r.differ("%d operators, and %d for qwb", len(b), len(a))
	}
	for i := range min(len(a), len(b)) {
		x, y := own.Node(a[i]), other.Node(b[i])
		if x.Op != y.Op {
			r.differ("operator %d (%q) is %s, and %s for qwb", i, x.Name, y.Op, x.Op)
			continue
		}
		if p, q := named(own, x.Inputs), named(other, y.Inputs); !slices.Equal(p, q) && len(x.Outputs) > 0 {
			r.differ("operator %d (%q, %s) reads %q, and %q for qwb", i, x.Name, x.Op, q, p)
		}
		if p, q := named(own, x.Outputs), named(other, y.Outputs); !slices.Equal(p, q) {
			r.differ("operator %d (%q, %s) computes %q, and %q for qwb", i, x.Name, x.Op, q, p)
		}
		for _, v := range x.Inputs {
			if v != graph.NoValue {
				r.Edges++
			}
		}
	}
	if x, y := named(own, own.Outputs), named(other, other.Outputs); !slices.Equal(x, y) {
		r.differ("the outputs of the graph are %q, and %q for qwb", y, x)
	}
	if x, y := fed(own), fed(other); !slices.Equal(x, y) {
		r.differ("the inputs of the graph are %q, and %q for qwb", y, x)
	}
}

func named(g *graph.Graph, list []graph.ValueID) []string {
	names := make([]string, len(list))
	for i, v := range list {
		if v != graph.NoValue {
			names[i] = g.Value(v).Name
		}
	}
	return names
}

// fed are the names of the inputs that are no constants.
func fed(g *graph.Graph) []string {
	return named(g, slices.DeleteFunc(slices.Clone(g.Inputs), func(v graph.ValueID) bool { return g.Const(v) != nil }))
}
