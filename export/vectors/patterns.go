package vectors

import (
	"context"
	"fmt"
	"io"
	"strings"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// Patterns is patterns.json: which parts of a program repeat.
type Patterns struct {
	Format   int              `json:"format"`
	Target   string           `json:"target"`
	Profile  string           `json:"profile"`
	Steps    int              `json:"steps"` // of the whole program
	Patterns []PatternSummary `json:"patterns"`
	// Rest are the steps of the program that belong to no pattern, by their names.
	Rest []string `json:"rest"`
}

// PatternSummary is a line of patterns.json.
type PatternSummary struct {
	Folder string   `json:"folder"`
	Ops    []string `json:"ops"` // of the steps
	Places int      `json:"places"`
}

// Place is one occurrence of a pattern, an element of the list in places.json. The first is the one that is written.
type Place struct {
	Steps   []lower.StepID `json:"steps"` // ids in the whole program
	Nodes   []string       `json:"nodes"` // of the graph
	Inputs  []Border       `json:"inputs"`
	Outputs []Border       `json:"outputs"`
}

// Border is a tensor that enters or leaves a place.
type Border struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

// WritePatterns runs a program on feeds and writes each of its repeated patterns as a program of its own, see Repeated:
//
//	patterns.json        all patterns and the steps that belong to none, see Patterns
//	K-OPS/places.json    where pattern K occurs, a list of Place
//	K-OPS/program.json   its first place as a program, with tensors/ and steps/ beside it, as Write writes them; ids count from 0
//
// It returns what patterns.json says.
func WritePatterns(ctx context.Context, e *program.Executor, feeds map[string]*tensor.Tensor, to Files) (*Patterns, error) {
	p := e.Program()
	found, rest := Repeated(p)
	index := &Patterns{Format: 1, Target: p.Target, Profile: p.Profile.Name, Steps: len(p.Steps), Patterns: []PatternSummary{},
		Rest: []string{}}
	parts := make([]*part, len(p.Steps)) // by step of a place
	var all []*part
	for k, f := range found {
		part := newPart(p, f, k, to)
		index.Patterns = append(index.Patterns, part.summary)
		all = append(all, part)
		for _, at := range f.Places {
			for i := range f.Steps {
				parts[int(at)+i] = part
			}
		}
	}
	for _, id := range rest {
		index.Rest = append(index.Rest, p.Name(id))
	}
	hook := func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if parts[s.ID] == nil {
			return nil, nil
		}
		return nil, parts[s.ID].step(s, in, out)
	}
	if _, err := e.Run(ctx, feeds, hook); err != nil {
		return nil, err
	}
	for _, part := range all {
		if err := part.finish(); err != nil {
			return nil, err
		}
	}
	return index, newWriter(p, to).json("patterns.json", index)
}

// part is a pattern on its way to files.
type part struct {
	*writer
	pattern Pattern
	summary PatternSummary
	places  []Place
	borders [][2][]lower.TensorID // by place: what enters and what leaves
	shapes  map[lower.TensorID][]int
}

// newPart prepares pattern number k.
func newPart(p *lower.Program, f Pattern, k int, to Files) *part {
	t := &part{pattern: f, shapes: map[lower.TensorID][]int{}}
	for i := range f.Steps {
		t.summary.Ops = append(t.summary.Ops, p.Steps[int(f.Places[0])+i].Op.Name())
	}
	name := strings.Join(t.summary.Ops[:min(f.Steps, 4)], "-")
	if f.Steps > 4 {
		name += fmt.Sprintf("-%d-more", f.Steps-4)
	}
	t.summary.Folder, t.summary.Places = fmt.Sprintf("%02d-%s", k, name), len(f.Places)
	t.writer = newWriter(p, Files{Array: to.Array, Create: func(name string) (io.WriteCloser, error) {
		return to.Create(t.summary.Folder + "/" + name)
	}})
	t.first, t.ids = f.Places[0], map[lower.TensorID]lower.TensorID{}
	for _, at := range f.Places {
		in, out := borders(p, span{int(at), int(at) + f.Steps})
		t.borders = append(t.borders, [2][]lower.TensorID{in, out})
	}
	return t
}

// step records the shapes of a place, and writes the step if it is one of the first place.
func (t *part) step(s *lower.Step, in, out []*tensor.Tensor) error {
	for k, id := range s.Inputs {
		t.shapes[id] = in[k].Shape
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			t.shapes[id] = out[k].Shape
		}
	}
	if s.ID < t.first || int(s.ID) >= int(t.first)+t.pattern.Steps {
		return nil
	}
	return t.writer.step(s, in, out)
}

// finish writes what was collected.
func (t *part) finish() error {
	for k, at := range t.pattern.Places {
		place := Place{Steps: []lower.StepID{}, Nodes: []string{}, Inputs: t.list(t.borders[k][0]), Outputs: t.list(t.borders[k][1])}
		for i := range t.pattern.Steps {
			s := &t.p.Steps[int(at)+i]
			place.Steps = append(place.Steps, s.ID)
			for _, n := range s.Nodes {
				place.Nodes = append(place.Nodes, t.p.Graph.Node(n).Name)
			}
		}
		t.places = append(t.places, place)
	}
	if err := t.json("places.json", t.places); err != nil {
		return err
	}
	return t.writer.finish(t.borders[0][0], t.borders[0][1])
}

func (t *part) list(ids []lower.TensorID) []Border {
	list := []Border{}
	for _, id := range ids {
		x := &t.p.Tensors[id]
		list = append(list, Border{Name: x.Name, Type: x.DType.String(), Shape: append([]int{}, t.shapes[id]...)})
	}
	return list
}
