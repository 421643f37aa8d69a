package vectors_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/vectors"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// dumped writes the vectors of a small network into a new folder.
func dumped(t *testing.T, network, profile string) string {
	t.Helper()
	tg, err := target.Find("onnxruntime")
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	g, set, feeds := lowertest.Configured(t, lowertest.Networks[network], tg.Name)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	e, err := program.New(p, program.Reference, 1)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, vectors.Write(context.Background(), e, feeds, vectors.Files{Array: npy.Write, Create: func(name string) (io.WriteCloser, error) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return os.Create(path)
	}}))
	return dir
}

// file is an array as program.json names it.
type file struct {
	Npy    string `json:"npy"`
	Hex    string `json:"hex"`
	Digits int    `json:"hex_digits"`
}

// description is what this test reads of program.json: nothing of qwb but the names of the fields.
type description struct {
	Tensors []struct {
		ID int `json:"id"`
		file
		Encoding *struct {
			ZeroPoint int64 `json:"zero_point"`
		} `json:"encoding"`
	} `json:"tensors"`
	Steps []struct {
		Op, Kind        string
		Inputs, Outputs []int
		Parameters      json.RawMessage
		Arrays          map[string]file
	} `json:"steps"`
}

// numbers reads an .npy file of integers, and checks that the .hex file has the same.
func numbers(t *testing.T, dir string, f file) (list []int64, shape []int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Npy)))
	require.NoError(t, err)
	x, err := npy.Read(bytes.NewReader(raw))
	require.NoError(t, err)
	if x.DType == tensor.Float32 {
		return nil, x.Shape
	}
	for _, q := range x.Integers() {
		list = append(list, int64(q))
	}
	text, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.Hex)))
	require.NoError(t, err)
	defer text.Close()
	lines := bufio.NewScanner(text)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), fmt.Sprintf("// %d bits per line", 4*f.Digits))
	for _, want := range list {
		require.True(t, lines.Scan())
		require.Len(t, lines.Text(), f.Digits)
		got, err := strconv.ParseUint(lines.Text(), 16, 64)
		require.NoError(t, err)
		mask := uint64(1)<<(4*f.Digits) - 1
		require.Equal(t, uint64(want)&mask, got)
	}
	require.False(t, lines.Scan())
	return list, x.Shape
}

// scaled is TFLite's double rounding by its definitions: a*b/2^31 half up, then a shift half away from zero.
func scaled(acc, m, shift int64) int64 {
	for ; shift > 0; shift-- {
		acc *= 2
	}
	high := (acc*m + 1<<30) >> 31
	half, n := int64(0), -shift
	if n > 0 {
		half = 1 << (n - 1)
	}
	if high < 0 {
		return -((-high + half) >> n)
	}
	return (high + half) >> n
}

func limited(v, lo, hi int64) int64 { return min(max(v, lo), hi) }

// Every convolution, matrix product, table and sum is computed again from the files alone.
func TestVectorsAreComplete(t *testing.T) {
	done := map[string]int{}
	for _, network := range []string{"residual", "mobilenet", "squeezenet", "resnet"} {
		dir := dumped(t, network, "tflite2")
		raw, err := os.ReadFile(filepath.Join(dir, "program.json"))
		require.NoError(t, err)
		var p description
		require.NoError(t, json.Unmarshal(raw, &p))
		values, shapes, zeros := map[int][]int64{}, map[int][]int{}, map[int]int64{}
		for _, x := range p.Tensors {
			values[x.ID], shapes[x.ID] = numbers(t, dir, x.file)
			if x.Encoding != nil {
				zeros[x.ID] = x.Encoding.ZeroPoint
			}
		}
		for _, s := range p.Steps {
			arrays := map[string][]int64{}
			dims := map[string][]int{}
			for name, f := range s.Arrays {
				arrays[name], dims[name] = numbers(t, dir, f)
			}
			var got []int64
			switch s.Kind {
			case "linear":
				got = again(t, s.Op, s.Parameters, values[s.Inputs[0]], shapes[s.Inputs[0]], arrays, dims)
			case "table":
				for _, q := range values[s.Inputs[0]] {
					got = append(got, arrays["table"][q&255])
				}
			case "sum":
				got = sum(t, s.Parameters, values[s.Inputs[0]], values[s.Inputs[1]])
			default:
				continue
			}
			require.Equal(t, values[s.Outputs[0]], got, "%s: %s", network, s.Op)
			done[s.Op]++
		}
	}
	for _, op := range []string{"Conv", "Gemm", "Table", "Add"} {
		require.Positive(t, done[op], "%v", done)
	}
}

// again computes a convolution over two spatial axes or a Gemm.
func again(t *testing.T, op string, parameters json.RawMessage, x []int64, shape []int, arrays map[string][]int64, dims map[string][]int) []int64 {
	var l struct {
		Zero   int64 `json:"input_zero_point"`
		TransB bool  `json:"trans_b"`
		Window *struct {
			Kernel, Stride, PadBegin, In, Out []int
			Group                             int
		}
		Outputs []struct {
			Zero int64 `json:"zero_point"`
			Lo   int64 `json:"lo"`
			Hi   int64 `json:"hi"`
		} `json:"outputs"`
	}
	require.NoError(t, json.Unmarshal(parameters, &l))
	w, wz, bias, ws := arrays["weights"], arrays["weight_zero_points"], arrays["bias"], dims["weights"]
	finish := func(acc int64, c int) int64 {
		if bias != nil {
			acc += bias[c]
		}
		o := l.Outputs[0]
		return limited(scaled(acc, arrays["multiplier_0"][c], arrays["shift_0"][c])+o.Zero, o.Lo, o.Hi)
	}
	var out []int64
	if op == "Gemm" {
		require.False(t, l.TransB)
		for i := range shape[0] {
			for j := range ws[1] {
				acc := int64(0)
				for k := range ws[0] {
					acc += (x[i*ws[0]+k] - l.Zero) * (w[k*ws[1]+j] - wz[j])
				}
				out = append(out, finish(acc, j))
			}
		}
		return out
	}
	g := l.Window
	require.Len(t, g.In, 2)
	for n := range shape[0] {
		for m := range ws[0] {
			first := m / (ws[0] / g.Group) * ws[1]
			for oy := range g.Out[0] {
				for ox := range g.Out[1] {
					acc := int64(0)
					for c := range ws[1] {
						for ky := range ws[2] {
							for kx := range ws[3] {
								y, xx := oy*g.Stride[0]-g.PadBegin[0]+ky, ox*g.Stride[1]-g.PadBegin[1]+kx
								if y < 0 || xx < 0 || y >= g.In[0] || xx >= g.In[1] {
									continue
								}
								q := x[((n*shape[1]+first+c)*g.In[0]+y)*g.In[1]+xx]
								acc += (q - l.Zero) * (w[((m*ws[1]+c)*ws[2]+ky)*ws[3]+kx] - wz[m])
							}
						}
					}
					out = append(out, finish(acc, m))
				}
			}
		}
	}
	return out
}

// sum adds two tensors of one shape in TFLite's form.
func sum(t *testing.T, parameters json.RawMessage, a, b []int64) []int64 {
	type grid struct{ ZeroPoint, QMin, QMax int64 }
	type multiplier struct{ M, Shift int64 }
	var s struct {
		A, B, Y    grid
		MA, MB, MY multiplier
		Left       int64
	}
	require.NoError(t, json.Unmarshal(parameters, &s))
	var out []int64
	for i := range a {
		va := scaled((a[i]-s.A.ZeroPoint)<<s.Left, s.MA.M, s.MA.Shift)
		vb := scaled((b[i]-s.B.ZeroPoint)<<s.Left, s.MB.M, s.MB.Shift)
		out = append(out, limited(scaled(va+vb, s.MY.M, s.MY.Shift)+s.Y.ZeroPoint, s.Y.QMin, s.Y.QMax))
	}
	return out
}

// Every kind of step has a description, under profiles of integers and of floats.
func TestAllNetworks(t *testing.T) {
	for network := range lowertest.Networks {
		for _, profile := range []string{"tflite2", "ort"} {
			dir := dumped(t, network, profile)
			raw, err := os.ReadFile(filepath.Join(dir, "program.json"))
			require.NoError(t, err)
			var p vectors.Program
			require.NoError(t, json.Unmarshal(raw, &p))
			require.NotEmpty(t, p.Steps)
			for _, x := range p.Tensors {
				require.FileExists(t, filepath.Join(dir, filepath.FromSlash(x.File)))
			}
		}
	}
}
