package export

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
)

// triedBytes is the size of weights up to which a plan's file is written to find out if that is refused.
const triedBytes = 256 << 20

// Refusal is what an export of a plan in its platform's usual format would be refused for, by the arithmetic or by the writer of the
// format; nil for nothing. sample is the first one, which also gives the sizes that the model leaves open. Nothing is verified, and nothing
// is left behind. Large networks, and those whose weights do not fit into the memory for work, are not tried, and no platform from a file
// that names no format: whoever has one may not want the usual one.
func Refusal(ctx context.Context, j *open.Job, p *planning.Planned, sample map[string]*tensor.Tensor, threads int) error {
	f := usual(j, p.Target)
	if f == nil || p.Graph.Store != nil || export.WeightBytes(p.Graph) > triedBytes {
		return nil
	}
	quiet := *j.Project
	quiet.Events = nil
	j = &open.Job{Project: &quiet, Ctx: ctx}
	// A writer that fails in another way than by an error is a fault to be found at export.
	return graph.Try(func() error {
		o := Options{Format: f.Name, Unverified: true, Threads: threads, Options: sizesOf(f, p.Graph, sample)}
		in, err := PlanInput(j, p, f, o)
		if err != nil {
			return err
		}
		in.Sample = func() (map[string]*tensor.Tensor, error) { return sample, nil }
		profile, err := p.ProfileNamed(in.Options.Text(export.Profile.Name))
		if err != nil {
			return err
		}
		if f.From == export.Program {
			if in.Program, err = p.Program(profile); err != nil {
				return fmt.Errorf("format %s needs a plan that runs completely on integers: %w", f.Name, err)
			}
		} else if _, err := lower.CompileBy(p.Graph, p.Set, p.Target, profile, lower.Options{Context: ctx, Partial: true}); err != nil {
			return err
		}
		if f.Check != nil {
			if err := f.Check(in); err != nil {
				return err
			}
		}
		out := f.NewOutput("refusal"+suffix(f, p.Plan.Platform), new(store.Memory).Stage())
		defer out.Discard()
		if _, err := f.Write(ctx, in, out); err != nil {
			return err
		}
		return f.Conforms(ctx, in, out)
	})
}

// usual is the format that plans of a platform usually have, nil where it is not known which that is.
func usual(j *open.Job, t *target.Target) *export.Format {
	f, err := export.ForPlatform(j.Catalog.Formats, t.Name, t.Format)
	if err != nil || f.Targets == nil && t.Format == "" && !target.IsBuiltin(t.Name) {
		return nil
	}
	return f
}

// openAxis is an axis of an input behind the batch whose size a model leaves open.
type openAxis struct {
	input  *graph.Value
	axis   int
	symbol string
}

// openSizes lists what a file of a format needs sizes for.
func openSizes(f *export.Format, g *graph.Graph) []openAxis {
	if !slices.ContainsFunc(f.AllOptions(), func(o export.Option) bool { return o.Name == export.OpenSizes.Name }) {
		return nil
	}
	var list []openAxis
	for _, v := range g.Inputs {
		for i, d := range g.Value(v).Shape {
			if i > 0 && !d.Known() && d.Symbol != "" {
				list = append(list, openAxis{g.Value(v), i, d.Symbol})
			}
		}
	}
	return list
}

// sizesOf are the options of a format with the sizes that a sample has where the model leaves them open, the batch excepted; nil for none.
func sizesOf(f *export.Format, g *graph.Graph, sample map[string]*tensor.Tensor) map[string]string {
	var list []string
	for _, a := range openSizes(f, g) {
		if x := sample[a.input.Name]; x != nil && a.axis < len(x.Shape) {
			list = append(list, fmt.Sprintf("%s=%d", a.symbol, x.Shape[a.axis]))
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return map[string]string{export.OpenSizes.Name: strings.Join(slices.Compact(list), ",")}
}

// Zeros are inputs of zeros; nil where the model leaves other sizes open than that of a batch.
func Zeros(g *graph.Graph) map[string]*tensor.Tensor {
	feeds := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		val := g.Value(v)
		if val.Const != nil {
			continue
		}
		shape := make([]int, len(val.Shape))
		for i, d := range val.Shape {
			switch {
			case d.Known():
				shape[i] = int(d.N)
			case i == 0:
				shape[i] = 1
			default:
				return nil
			}
		}
		if val.Shape == nil || tensor.Count(shape) > 1<<28 {
			return nil
		}
		feeds[val.Name] = tensor.New(val.DType, shape...)
	}
	return feeds
}
