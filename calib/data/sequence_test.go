package data

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// A filter: what it puts out is its state, half of the state before and the input.
const filter = `
opset 17
input x: f32[1,2]
input h: f32[1,2]
const half: f32[] = [0.5]
d = Mul(h, half)
h_out = Add(x, d)
y = Neg(h_out)
output y: f32[1,2]
output h_out: f32[1,2]
`

func rolling(t *testing.T, text string, files tree, o Options) *Set {
	t.Helper()
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	o.FS, o.Graph = files.open(), g
	if o.States == nil {
		o.States = []graph.State{{Input: "h", Output: "h_out"}}
	}
	s, _, err := Open([]string{"d"}, SpecOf(g), o)
	require.NoError(t, err)
	return s
}

func states(samples []*exec.Sample) (list []string) {
	for _, s := range samples {
		list = append(list, fmt.Sprintf("%s %d/%d x%v h%v", s.Name, s.Step, s.Sequence.Steps, s.Feeds["x"].F32(), s.Feeds["h"].F32()))
	}
	return list
}

// Each step has the state that the network left at the step before; a sequence begins with zeros or with what its file says. Any order of
// asking gives the same samples, and the steps of one sequence are on one side of every split by hash.
func TestStepsHaveStates(t *testing.T) {
	files := tree{
		"d/b.npz": npzFile(map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1, 2, 4, 8, 0, 0}, 3, 2)}),
		"d/a.npz": npzFile(map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1, 1, 2, 2}, 2, 1, 2),
			"h": tensor.FromF32([]float32{8, 4}, 1, 2)}),
	}
	want := []string{"a.npz#000000 0/2 x[1 1] h[8 4]", "a.npz#000001 1/2 x[2 2] h[5 3]",
		"b.npz#000000 0/3 x[1 2] h[0 0]", "b.npz#000001 1/3 x[4 8] h[1 2]", "b.npz#000002 2/3 x[0 0] h[4.5 9]"}
	s := rolling(t, filter, files, Options{Ahead: 4})
	samples := all(t, s)
	require.Equal(t, want, states(samples))
	require.Equal(t, want, states(all(t, s)), "again")
	for _, i := range []int{4, 1, 3, 0, 2, 2} {
		one, err := s.Sample(i)
		require.NoError(t, err)
		require.Equal(t, want[i], states([]*exec.Sample{one})[0])
		require.Equal(t, samples[i].Hash, one.Hash)
		require.Equal(t, exec.HeldOut(samples[i].Hash), exec.HeldOut(samples[i-samples[i].Step].Hash))
	}
	seen := map[[32]byte]bool{}
	for _, x := range samples {
		require.False(t, seen[x.Hash])
		seen[x.Hash] = true
	}
	require.Equal(t, want[:2], states(all(t, s.Shard(1, 2))))
	require.Equal(t, want[2:], states(all(t, s.Shard(2, 2))))
	for n, steps := range map[int][]int{1: {2, 3}, 4: {5}} { // whole sequences
		require.Contains(t, steps, rolling(t, filter, files, Options{Samples: n}).Len(), n)
	}
}

// The time axis may stand where tools put it.
func TestFormsOfSequences(t *testing.T) {
	iota := func(shape ...int) *tensor.Tensor { return graphtest.Iota(shape...) }
	for _, c := range []struct {
		input graph.Shape
		array []int
		want  string
	}{
		{graph.Static(1, 2), []int{3, 2}, "[1 2] 3 1 [2 3]"},
		{graph.Static(1, 2), []int{3, 1, 2}, "[1 2] 3 1 [2 3]"},
		{graph.Static(1, 2), []int{2, 3, 2}, "[1 2] 6 2 [2 3]"},
		{graph.Static(1, 2), []int{2, 3, 1, 2}, "[1 2] 6 2 [2 3]"},
		{graph.Static(1, 2), []int{1, 6}, "[1 2] 3 1 [2 3]"},
		{graph.Static(1, 2), []int{2, 4}, "[1 2] 4 2 [2 3]"},
		{graph.Static(1, 2, 2), []int{1, 2, 6}, "[1 2 2] 3 1 [2 3 8 9]"},
		{graph.Static(1, 2, 2), []int{2, 2, 4}, "[1 2 2] 4 2 [2 3 6 7]"},
		{graph.Shape{{N: -1, Symbol: "N"}, {N: 1}, {N: 2}}, []int{2, 3, 2}, "[1 1 2] 6 2 [2 3]"},
		{graph.Static(2), []int{3, 2}, "[2] 3 1 [2 3]"},
		{graph.Shape{}, []int{3}, "[] 3 1 [1]"},
		{graph.Static(1, 2), []int{1, 5}, "f32[1,5] does not fit input x f32[1,2], nor a sequence of it"},
		{graph.Static(1, 2), []int{0, 2}, "f32[0,2] holds no steps"},
	} {
		in, x := Input{Name: "x", DType: tensor.Float32, Shape: c.input}, iota(c.array...)
		f, err := in.fitSteps(npy.Header{DType: x.DType, Shape: x.Shape})
		if err != nil {
			require.EqualError(t, err, c.want)
			continue
		}
		second := slice(x, 1, f.rows, f.shape)
		if f.axis > 0 {
			second, err = f.cut(x, 1)
			require.NoError(t, err)
		}
		require.Equal(t, c.want, fmt.Sprint(f.shape, f.rows, f.sequences, second.F32()), "%v %v", c.input, c.array)
		require.Equal(t, f.shape, second.Shape)
	}
}

// A cache begins empty and grows; what has one row is the same at every step; pictures of one folder are a sequence.
func TestOtherSequences(t *testing.T) {
	const cache = `
opset 17
input x: f32[B,1,2]
input past: f32[B,P,2]
input rate: i64[]
const two: i64[1] = [2]
present = Concat(past, x) {axis=1}
z = Cast(rate) {to=1}
y = Mul(x, z)
output y: f32[B,1,2]
output present: f32[B,P1,2]
`
	files := tree{"d/a.npz": npzFile(map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2),
		"rate": tensor.FromI64([]int64{16})})}
	samples := all(t, rolling(t, cache, files, Options{States: []graph.State{{Input: "past", Output: "present"}}}))
	var got []string
	for _, s := range samples {
		got = append(got, fmt.Sprint(s.Feeds["past"].Shape, s.Feeds["past"].F32(), s.Feeds["x"].F32(), s.Feeds["rate"].I64()))
	}
	require.Equal(t, []string{"[1 0 2] [] [1 2] [16]", "[1 1 2] [1 2] [3 4] [16]", "[1 0 2] [] [5 6] [16]", "[1 1 2] [5 6] [7 8] [16]"}, got)

	const picture = `
opset 17
input x: f32[1,3,2,2]
input h: f32[1,3,2,2]
h_out = Add(x, h)
output h_out
`
	frames := tree{"d/b/0.png": pngFile(2, 2, 1), "d/b/1.png": pngFile(2, 2, 2), "d/a.png": pngFile(2, 2, 3)}
	var places []string
	for _, s := range all(t, rolling(t, picture, frames, Options{})) {
		places = append(places, fmt.Sprintf("%s %d/%d %g", s.Name, s.Step, s.Sequence.Steps, s.Feeds["h"].F32()[11]))
	}
	require.Equal(t, []string{"a.png 0/1 0", "b/0.png 0/2 0", "b/1.png 1/2 1"}, places)
}

func TestStatesThatCannotBe(t *testing.T) {
	g := graphtest.Parse(t, filter)
	graph.InferShapes(g)
	files := tree{"d/a.npz": npzFile(map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 3, 2), "h": tensor.New(tensor.Float32, 3, 2)})}
	for _, c := range [][3]string{
		{"g", "h_out", `data: state g=h_out: the network has no input "g", but x, h`},
		{"h", "out", `data: state h=out: the network has no output "out", but y, h_out`},
	} {
		_, _, err := Open([]string{"d"}, SpecOf(g), Options{FS: files.open(), Graph: g, States: []graph.State{{Input: c[0], Output: c[1]}}})
		require.EqualError(t, err, c[2])
	}
	_, err := rolling(t, filter, files, Options{}).Sample(0)
	require.ErrorContains(t, err, "f32[3,2] does not fit state h f32[1,2]: it takes what a sequence begins with")
}

// A state that begins with zeros is no constant input, and one that is not rolled says how it is.
func TestDoctorKnowsStates(t *testing.T) {
	g := graphtest.Parse(t, filter)
	graph.InferShapes(g)
	files := tree{"d/a.npz": npzFile(map[string]*tensor.Tensor{"x": graphtest.Normal(1, 3, 2)}),
		"z/a.npz": npzFile(map[string]*tensor.Tensor{"x": graphtest.Normal(1, 3, 2), "h": tensor.New(tensor.Float32, 3, 2)})}
	for path, want := range map[string]int{"d": 0, "z": 1} {
		o := Options{FS: files.open(), Graph: g}
		if path == "d" {
			o.States = []graph.State{{Input: "h", Output: "h_out"}}
		}
		s, _, err := Open([]string{path}, SpecOf(g), o)
		require.NoError(t, err)
		d := NewDoctor(SpecOf(g), g, nil)
		for _, x := range all(t, s) {
			d.Observe(x)
		}
		f := d.Findings()
		require.Len(t, f, want)
		for _, x := range f {
			require.Equal(t, Fault, x.Level)
			require.Contains(t, x.Fix, "--state h=h_out")
		}
	}
}
