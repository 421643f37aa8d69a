package analysis

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// headed builds a network of two 1x1 convolutions over one input; more puts operators behind a (4 channels) and b (8 channels).
func headed(t *testing.T, more func(g *graph.Graph, add func(op, out string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID, a,
	b graph.ValueID) graph.ValueID) *graph.Graph {
	g := graph.New("test", 13)
	value := func(name string) graph.ValueID {
		v, err := g.AddValue(graph.Value{Name: name, DType: tensor.Float32})
		require.NoError(t, err)
		return v
	}
	x := value("x")
	g.Value(x).Shape = graph.Static(1, 3, 4, 4)
	g.Inputs = append(g.Inputs, x)
	add := func(op, out string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID {
		v := value(out)
		_, err := g.AddNode(graph.Node{Name: out + "_n", Op: op, Inputs: in, Outputs: []graph.ValueID{v}, Attrs: attrs})
		require.NoError(t, err)
		return v
	}
	conv := func(name string, n int) graph.ValueID {
		w := tensor.New(tensor.Float32, n, 3, 1, 1)
		for i := range w.F32() {
			w.F32()[i] = float32(i%7) - 3
		}
		return add("Conv", name, []graph.ValueID{x, g.AddConst("w"+name, w)})
	}
	g.Outputs = []graph.ValueID{more(g, add, conv("a", 4), conv("b", 8))}
	require.Empty(t, graph.InferShapes(g))
	return g
}

func shapeOf(g *graph.Graph, dims ...int64) graph.ValueID {
	s := tensor.New(tensor.Int64, len(dims))
	copy(s.I64(), dims)
	return g.AddConst(g.FreshName("shape"), s)
}

func TestSlicesFollowWhatKeepsThemApart(t *testing.T) {
	type adder = func(op, out string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID
	type ids = []graph.ValueID
	concat := func(add adder, axis int64, in ...graph.ValueID) graph.ValueID {
		return add("Concat", "k", in, graph.Int("axis", axis))
	}
	for _, c := range []struct {
		name string
		more func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID
		want Slice // of b
	}{
		{"concat", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID { return concat(add, 1, a, b) },
			Slice{Name: "b", Axis: 1, From: 4, To: 12, Period: 12, Part: true}},
		{"sigmoid in front", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			return concat(add, 1, a, add("Sigmoid", "s", ids{b}))
		}, Slice{Name: "s", Axis: 1, From: 4, To: 12, Period: 12, Part: true, Share: true}},
		{"transpose and reshape behind", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			y := add("Transpose", "t", ids{concat(add, 1, a, b)}, graph.Ints("perm", 0, 2, 3, 1))
			return add("Reshape", "y", ids{y, shapeOf(g, 1, 16, 12)})
		}, Slice{Name: "b", Axis: 2, From: 4, To: 12, Period: 12, Part: true}},
		{"flat, channels inside", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			y := add("Transpose", "t", ids{concat(add, 1, a, b)}, graph.Ints("perm", 0, 2, 3, 1))
			return add("Reshape", "y", ids{y, shapeOf(g, 1, 192)})
		}, Slice{Name: "b", Axis: 1, From: 4, To: 12, Period: 12, Part: true}},
		{"flat, channels outside", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			return add("Reshape", "y", ids{concat(add, 1, a, b), shapeOf(g, 1, 192)})
		}, Slice{Name: "b", Axis: 1, From: 64, To: 192, Period: 192, Part: true}},
		{"scaled and clipped behind", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			two := g.AddConst("two", tensor.FromF32([]float32{2}, 1))
			return add("Relu", "y", ids{add("Mul", "m", ids{concat(add, 1, a, b), two})})
		}, Slice{Name: "b", Axis: 1, From: 4, To: 12, Period: 12, Part: true}},
		{"split in two axes", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			return add("Reshape", "y", ids{concat(add, 1, a, b), shapeOf(g, 1, 3, 4, 16)})
		}, Slice{Name: "b", Axis: 1, From: 1, To: 3, Period: 3, Part: true}},
		{"one Concat in another", func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			inner := concat(add, 1, a, b)
			return add("Concat", "y", ids{add("Relu", "r", ids{a}), inner}, graph.Int("axis", 1))
		}, Slice{Name: "b", Axis: 1, From: 8, To: 16, Period: 16, Part: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := FindSlices(headed(t, c.more))
			at := -1
			for i, s := range list {
				if s.Name == c.want.Name {
					at = i
				}
			}
			require.GreaterOrEqual(t, at, 0, "%v", list)
			assert.Equal(t, c.want, list[at])
		})
	}
	t.Run("channels of the last weights", func(t *testing.T) {
		list := FindSlices(headed(t, func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			return add("Relu", "y", ids{b})
		}))
		require.Len(t, list, 8)
		assert.Equal(t, Slice{Name: "y[:,3]", Axis: 1, From: 3, To: 4, Period: 8}, list[3])
	})
	t.Run("classes have none", func(t *testing.T) {
		assert.Empty(t, FindSlices(headed(t, func(g *graph.Graph, add adder, a, b graph.ValueID) graph.ValueID {
			return add("Softmax", "y", ids{b}, graph.Int("axis", 1))
		})))
	})
}

// sliced runs a judge over pairs of outputs.
func sliced(t *testing.T, parts []Slice, shape []int, q, f [][]float32) (*Judge, *tally) {
	g := graph.New("test", 13)
	v, err := g.AddValue(graph.Value{Name: "y", DType: tensor.Float32, Shape: graph.Static(shape...)})
	require.NoError(t, err)
	g.Outputs = []graph.ValueID{v}
	j, all := NewJudge(g, parts...), &tally{}
	for i := len(q) - 1; i >= 0; i-- { // in any order
		s, err := j.sums([]*tensor.Tensor{tensor.FromF32(q[i], shape...)}, []*tensor.Tensor{tensor.FromF32(f[i], shape...)}, true)
		require.NoError(t, err)
		all.add(i, s)
	}
	require.Equal(t, len(q), all.samples)
	return j, all
}

// A network that joins a tensor with itself again and again has more parts than memory holds: the first of them are found, at once.
func TestPartsOfDoublingsAreFew(t *testing.T) {
	g := headed(t, func(_ *graph.Graph, add func(op, out string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID, a,
		_ graph.ValueID) graph.ValueID {
		for i := range 20 {
			a = add("Concat", "d"+string(rune('a'+i)), []graph.ValueID{a, a}, graph.Int("axis", 1))
		}
		return a
	})
	require.LessOrEqual(t, len(FindSlices(g)), 2*mostSlices)
}

func TestSliceWithoutSignalIsFound(t *testing.T) {
	parts := []Slice{{Name: "boxes", Axis: 1, From: 0, To: 2, Period: 4, Part: true}, {Name: "scores", Axis: 1, From: 2, To: 3, Period: 4,
		Part: true, Share: true}, {Name: "flag", Axis: 1, From: 3, To: 4, Period: 4, Part: true, Share: true}}
	var q, f [][]float32
	for i := range 16 {
		x := float32(i)
		f = append(f, []float32{300 + 10*x, 500 - 7*x, 0.1 + x/20, 1e-5})
		q = append(q, []float32{301 + 10*x, 499 - 7*x, 0, 0.004})
	}
	j, all := sliced(t, parts, []int{1, 4}, q, f)
	list := j.list(all)
	assert.Equal(t, []string{"", SignalLost, SignalNone}, []string{list[0].Finding, list[1].Finding, list[2].Finding})
	assert.Equal(t, []bool{true, true, false}, []bool{list[0].Judged, list[1].Judged, list[2].Judged},
		"a flag that is 0 in float does not count")
	assert.InDelta(t, 1, list[1].NSR, 1e-3)
	assert.Less(t, list[0].NSR, 1e-4)
	assert.Equal(t, 1, list[1].Levels)
	o := OutputError{Error: Error{NSR: 5e-6}, Slices: list}
	assert.Equal(t, "scores", o.Worst().Name)
	assert.InDelta(t, 1, o.Judged().NSR, 1e-3)
	group := Found(list, SignalLost)
	require.Len(t, group, 1)
	assert.Equal(t, "scores (2..2 of axis 1 of y)", group[0].Name())

	for i := range q { // an offset hides that nothing is left but one value
		f[i][2], q[i][2] = 1+float32(i)/100, 1.07
	}
	j, all = sliced(t, parts, []int{1, 4}, q, f)
	assert.Equal(t, SignalLost, j.list(all)[1].Finding)
	for i := range q { // the same in float is no loss
		f[i][2] = 1.07
	}
	j, all = sliced(t, parts, []int{1, 4}, q, f)
	assert.Equal(t, SignalNone, j.list(all)[1].Finding)
}

func TestOnlySmallIndicesAreJudged(t *testing.T) {
	var parts []Slice
	for i := range 4 {
		parts = append(parts, Slice{Name: string(rune('a' + i)), Axis: 1, From: i, To: i + 1, Period: 4})
	}
	var q, f [][]float32
	for i := range 16 {
		x := float32(i%5) - 2
		f = append(f, []float32{x, 2 * x, x + 1, x / 10})
		q = append(q, []float32{x + 0.01, 2*x + 0.01, x + 1.01, x/10 + 0.01})
	}
	j, all := sliced(t, parts, []int{1, 4}, q, f)
	w := j.weigh(all)
	assert.Equal(t, []bool{true, false, false, false, true}, []bool{w.of[0] > 0, w.of[1] > 0, w.of[2] > 0, w.of[3] > 0, w.of[4] > 0})
	losses := Losses{}
	for i := range q {
		losses = append(losses, w.row(i, []float64{0.1}, func(k int) float64 { return all.noise[i][k] }))
	}
	assert.InDelta(t, j.list(all)[3].NSR, NewEstimate(losses.of(4)).Mean, 1e-12, "the mean of the amounts is the ratio of the sums")
}

func TestMaskedScoresDoNotCount(t *testing.T) {
	inf := float32(math.Inf(1))
	l := logits{axis: -1}
	nsr := func(q, f []float32) float64 {
		s, err := centredNSR(tensor.FromF32(q, 1, len(q)), tensor.FromF32(f, 1, len(f)), l)
		require.NoError(t, err)
		return s.nsr
	}
	plain := nsr([]float32{1, 2.5, 3}, []float32{1, 2, 3})
	for _, low := range []float32{-inf, -3.4e38, -1e9, -1e4} {
		assert.Equal(t, plain, nsr([]float32{1, low, 2.5, 3}, []float32{1, low, 2, 3}), "%g", low)
		assert.Equal(t, plain, nsr([]float32{1, low / 2, 2.5, 3}, []float32{1, low, 2, 3}), "%g: whatever nobody sees", low)
		assert.Greater(t, nsr([]float32{1, 2, 2.5, 3}, []float32{1, low, 2, 3}), 10*plain, "%g: a mask that leaks", low)
		assert.Greater(t, nsr([]float32{1, low, low, 3}, []float32{1, low, 2, 3}), 10*plain, "%g: a class that is masked", low)
	}
	assert.Zero(t, nsr([]float32{-inf, -inf}, []float32{-inf, -inf}), "a row that is masked")
	_, err := centredNSR(tensor.FromF32([]float32{1, float32(math.NaN())}, 1, 2), tensor.FromF32([]float32{1, 2}, 1, 2), l)
	require.ErrorIs(t, err, ErrNotFinite)
	s, err := centredNSR(tensor.FromF32([]float32{1, 2, 2, 1}, 2, 2), tensor.FromF32([]float32{1, 2, 1, 2}, 2, 2), l)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 1}, []int{s.rows, s.changed})
}

func TestInfinitiesAtTheSamePlacesAreEqual(t *testing.T) {
	inf := float32(math.Inf(1))
	f, q := tensor.FromF32([]float32{1, -inf, 2, inf}, 4), tensor.FromF32([]float32{1, -inf, 3, inf}, 4)
	e, err := Compare(q, f)
	require.NoError(t, err)
	assert.InDelta(t, 0.2, e.NSR, 1e-6)
	first, second, err := parts(f, f, q)
	require.NoError(t, err)
	assert.InDelta(t, 0.2, first+second, 1e-6)
	_, err = Compare(tensor.FromF32([]float32{1, 5, 3, inf}, 4), f)
	require.ErrorIs(t, err, ErrNotFinite)
}

func TestEvaluatorJudgesPartsByTheSameForAllThreads(t *testing.T) {
	type ids = []graph.ValueID
	g := headed(t, func(g *graph.Graph, add func(op, out string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID, a,
		b graph.ValueID) graph.ValueID {
		big := g.AddConst("big", tensor.FromF32([]float32{1000}, 1))
		return add("Concat", "y", ids{add("Mul", "boxes", ids{a, big}), add("Sigmoid", "scores", ids{b})}, graph.Int("axis", 1))
	})
	var samples []*exec.Sample
	for i := range 6 {
		x := tensor.New(tensor.Float32, 1, 3, 4, 4)
		for k := range x.F32() {
			x.F32()[k] = float32((k*7+i*13)%11)/5 - 1
		}
		samples = append(samples, &exec.Sample{Name: "s", Feeds: map[string]*tensor.Tensor{"x": x}})
	}
	var want Losses
	for _, threads := range []int{1, 4} {
		ev, err := NewEvaluator(context.Background(), g, func() exec.Iterator { return &exec.InMemory{Samples: samples} }, threads, 0)
		require.NoError(t, err)
		killed := func(w *graph.Graph) (Forward, error) { // scores that are all 0
			session, err := exec.New(w, exec.Options{})
			require.NoError(t, err)
			return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
				out, err := session.NewRunner().Run(ctx, feeds, nil)
				if err != nil {
					return nil, err
				}
				y := out[0].ToRowMajor().Clone()
				clear(y.F32()[4*16:])
				return []*tensor.Tensor{y}, nil
			}, nil
		}
		got, err := ev.LossesOf(context.Background(), g, killed)
		require.NoError(t, err)
		assert.Less(t, NewEstimate(got.of(0)).Mean, 1e-4, "the whole output")
		assert.InDelta(t, 1, got.Estimate().Mean, 0.2, "the scores")
		if want == nil {
			want = got
		}
		assert.Equal(t, want, got)
	}
}
