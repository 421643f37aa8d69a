package vectors_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// computed computes a step under tflite2 from files and values alone, by the definitions; false for a kind that is not known here.
func computed(t *testing.T, dir string, s step, values map[int][]int64, shapes map[int][]int) ([]int64, bool) {
	arrays, dims := map[string][]int64{}, map[string][]int{}
	for name, f := range s.Arrays {
		arrays[name], dims[name] = numbers(t, dir, f)
	}
	x := values[s.Inputs[0]]
	switch s.Kind {
	case "linear":
		return again(t, s.Op, s.Parameters, x, shapes[s.Inputs[0]], arrays, dims), true
	case "table":
		var out []int64
		for _, q := range x {
			out = append(out, arrays["table"][q&255])
		}
		return out, true
	case "sum":
		return sum(t, s.Parameters, x, values[s.Inputs[1]]), true
	case "concat":
		return concat(t, s, values, shapes), true
	case "max_pool":
		return maxPool(t, s.Parameters, x, shapes[s.Inputs[0]]), true
	}
	return nil, false
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

// again computes a convolution over two spatial axes or a Gemm.
func again(t *testing.T, op string, parameters json.RawMessage, x []int64, shape []int, arrays map[string][]int64,
	dims map[string][]int) []int64 {
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

type grid struct{ ZeroPoint, QMin, QMax int64 }

type multiplier struct{ M, Shift int64 }

// sum adds two tensors of one shape in TFLite's form.
func sum(t *testing.T, parameters json.RawMessage, a, b []int64) []int64 {
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

// concat joins tensors, each brought to the encoding of the result.
func concat(t *testing.T, s step, values map[int][]int64, shapes map[int][]int) []int64 {
	var c struct {
		Axis    int
		Rescale []*struct {
			X, Y grid
			M    multiplier
		}
		Lo, Hi int64
	}
	require.NoError(t, json.Unmarshal(s.Parameters, &c))
	outer := 1
	for _, n := range shapes[s.Inputs[0]][:c.Axis] {
		outer *= n
	}
	var out []int64
	for o := range outer {
		for i, id := range s.Inputs {
			piece := len(values[id]) / outer
			for _, q := range values[id][o*piece:][:piece] {
				if r := c.Rescale[i]; r != nil {
					q = scaled(q-r.X.ZeroPoint, r.M.M, r.M.Shift) + r.Y.ZeroPoint
				}
				out = append(out, limited(q, c.Lo, c.Hi))
			}
		}
	}
	return out
}

// maxPool is a maximum over windows of two spatial axes.
func maxPool(t *testing.T, parameters json.RawMessage, x []int64, shape []int) []int64 {
	var p struct {
		Lowest int64
		Window struct{ Kernel, Stride, PadBegin, In, Out []int }
	}
	require.NoError(t, json.Unmarshal(parameters, &p))
	g := p.Window
	var out []int64
	for plane := range shape[0] * shape[1] {
		for oy := range g.Out[0] {
			for ox := range g.Out[1] {
				most := int64(math.MinInt64)
				for ky := range g.Kernel[0] {
					for kx := range g.Kernel[1] {
						y, xx := oy*g.Stride[0]-g.PadBegin[0]+ky, ox*g.Stride[1]-g.PadBegin[1]+kx
						if y >= 0 && xx >= 0 && y < g.In[0] && xx < g.In[1] {
							most = max(most, x[(plane*g.In[0]+y)*g.In[1]+xx])
						}
					}
				}
				out = append(out, most)
			}
		}
	}
	return out
}
