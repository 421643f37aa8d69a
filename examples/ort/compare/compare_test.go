package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

const model = `
opset 13
input x: f32[1,3,8,8]
const xs: f32[] = 0.03
const xz: u8[] = 128
const w: i8[4,3,3,3] = uniform(seed=1, low=-100, high=100)
const ws: f32[4] = [0.01, 0.02, 0.005, 0.01]
const wz: i8[4] = [0, 0, 0, 0]
const cs: f32[] = 0.11
const cz: u8[] = 0
const ss: f32[] = 0.00390625
xq: u8[1,3,8,8] = QuantizeLinear(x, xs, xz)
xd: f32[1,3,8,8] = DequantizeLinear(xq, xs, xz)
wd: f32[4,3,3,3] = DequantizeLinear(w, ws, wz) {axis=0}
c: f32[1,4,6,6] = Conv(xd, wd)
r: f32[1,4,6,6] = Relu(c)
rq: u8[1,4,6,6] = QuantizeLinear(r, cs, cz)
rd: f32[1,4,6,6] = DequantizeLinear(rq, cs, cz)
p: f32[1,4,1,1] = GlobalAveragePool(rd)
m: f32[1,4,1,1] = Mul(p, p)
s: f32[1,4,1,1] = Softmax(m) {axis=1}
sq: u8[1,4,1,1] = QuantizeLinear(s, ss, cz)
sd: f32[1,4,1,1] = DequantizeLinear(sq, ss, cz)
e: f32[1,4,1,1] = Exp(rp)
rp: f32[1,4,1,1] = MaxPool(rd) {kernel_shape=[6,6]}
output sd
output e
`

// executed runs the model in float32, which is another runtime as far as its sums are concerned.
func executed(t *testing.T) (*graph.Graph, record) {
	g := graphtest.Parse(t, model)
	require.Empty(t, graph.InferShapes(g))
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(3, 1, 3, 8, 8)}
	values, err := s.NewRunner().RunAll(context.Background(), feeds, nil, nil)
	require.NoError(t, err)
	x, _ := g.Lookup("x")
	values[x] = feeds["x"]
	wd, _ := g.LookupNode("wd") // constant to the executor, computed by other runtimes
	var in []*tensor.Tensor
	for _, v := range g.Node(wd).Inputs {
		in = append(in, g.Const(v))
	}
	out, err := evaluate(g, g.Node(wd), in)
	require.NoError(t, err)
	values[g.Node(wd).Outputs[0]] = out[0]
	for i, v := range values {
		if v != nil {
			values[i] = v.ToRowMajor()
		}
	}
	return g, values
}

func TestAnHonestRecordHasNothingBeyond(t *testing.T) {
	g, rec := executed(t)
	var out report
	require.NoError(t, compare(g, rec, &out))
	require.Zero(t, out.beyond())
	require.Len(t, out.rows, 7)
	require.Len(t, out.floats, 1, "Exp has no bound: it is compared by itself")
	require.Less(t, out.floats[0].distance, 1e-6)
	for _, r := range out.rows {
		require.Less(t, r.bound, 0.1, "%s: a bound of half a step would allow everything", r.tensor)
	}
}

func TestDifferencesAreFound(t *testing.T) {
	for _, name := range []string{"xq", "rq", "sq"} {
		g, rec := executed(t)
		v, _ := g.Lookup(name)
		tensor.Of[uint8](rec[v])[0]++
		var out report
		require.NoError(t, compare(g, rec, &out))
		require.Positive(t, out.beyond(), name)
	}
	g, rec := executed(t)
	v, _ := g.Lookup("rd")
	rec[v].F32()[3] += 1e-5
	var out report
	require.NoError(t, compare(g, rec, &out))
	require.Positive(t, out.beyond(), "dequantized values have no ties")
}

// On a boundary either neighbour is right, and two steps away none is.
func TestTies(t *testing.T) {
	for q, beyond := range map[uint8]int{2: 0, 3: 0, 4: 1, 1: 1} {
		g := graphtest.Parse(t, `input x: f32[2]
const one: f32[] = 1
const z: u8[] = 0
y: f32[1] = ReduceMean(x) {axes=[0]}
q: u8[1] = QuantizeLinear(y, one, z)
opset 13
output q`)
		rec := make(record, g.NumValues())
		for name, x := range map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{2, 3}, 2), "y": tensor.FromF32([]float32{2.5}, 1)} {
			v, _ := g.Lookup(name)
			rec[v] = x
		}
		v, _ := g.Lookup("q")
		rec[v] = &tensor.Tensor{DType: tensor.Uint8, Shape: []int{1}, Data: []uint8{q}}
		var out report
		require.NoError(t, compare(g, rec, &out))
		require.Equal(t, beyond, out.beyond(), "%d for 2.5", q)
	}
}

func TestRunReadsFiles(t *testing.T) {
	g, rec := executed(t)
	dir := t.TempDir()
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: g}).Write(&b))
	path := filepath.Join(dir, "m.onnx")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	write := func() {
		var names []string
		for v, x := range rec {
			if x == nil || g.Const(graph.ValueID(v)) != nil {
				continue
			}
			var b bytes.Buffer
			require.NoError(t, npy.Write(&b, x))
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.npy", len(names))), b.Bytes(), 0o644))
			names = append(names, g.Value(graph.ValueID(v)).Name)
		}
		list, err := json.Marshal(names)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "names.json"), list, 0o644))
	}
	write()
	require.NoError(t, run(path, []string{dir, dir}))
	v, _ := g.Lookup("rq")
	tensor.Of[uint8](rec[v])[0]++
	write()
	require.ErrorIs(t, run(path, []string{dir}), errBeyond)
	require.Error(t, run(path, []string{t.TempDir()}))
}
