package vectors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/vectors"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
)

// made is a network whose patterns are known: a stem, then parts in the given order. Sizes and weights differ from part to part.
//
//	f  fire: squeeze, two expansions, their concatenation
//	d  depthwise and pointwise convolution
//	s  the same with a depthwise stride of 2
//	r  a convolution whose result is added to its input
//	p  maximum over windows
func made(parts string) string {
	var b strings.Builder
	channels, value, n := 4, "v0", 0
	b.WriteString("input x: f32[1,3,16,16]\nconst w: f32[4,3,3,3] = normal(seed=1, std=0.3)\nv0 = Conv(x, w) {pads=[1,1,1,1]}\n")
	conv := func(in string, out, from, kernel, group, stride int) string {
		n++
		pad := kernel / 2
		fmt.Fprintf(&b, "const w%d: f32[%d,%d,%d,%d] = normal(seed=%d, std=0.4)\nconst b%d: f32[%d] = normal(%d)\n", n, out, from/group, kernel,
			kernel, n, n, out, n)
		fmt.Fprintf(&b, "c%d = Conv(%s, w%d, b%d) {pads=[%d,%d,%d,%d], group=%d, strides=[%d,%d]}\nv%d = Relu(c%d)\n", n, in, n, n, pad, pad, pad,
			pad, group, stride, stride, n, n)
		return fmt.Sprintf("v%d", n)
	}
	for i, part := range parts {
		switch part {
		case 'f':
			squeezed := conv(value, 2+i, channels, 1, 1, 1)
			left, right := conv(squeezed, 3, 2+i, 1, 1, 1), conv(squeezed, 3+i, 2+i, 3, 1, 1)
			value, channels = fmt.Sprintf("k%d", i), 6+i
			fmt.Fprintf(&b, "%s = Concat(%s, %s) {axis=1}\n", value, left, right)
		case 'd', 's':
			stride := map[rune]int{'d': 1, 's': 2}[part]
			value = conv(conv(value, channels, channels, 3, channels, stride), 5+i, channels, 1, 1, 1)
			channels = 5 + i
		case 'r':
			sum := conv(value, channels, channels, 3, 1, 1)
			fmt.Fprintf(&b, "a%d = Add(%s, %s)\n", i, sum, value)
			value = fmt.Sprintf("a%d", i)
		case 'p':
			fmt.Fprintf(&b, "p%d = MaxPool(%s) {kernel_shape=[2,2], strides=[2,2]}\n", i, value)
			value = fmt.Sprintf("p%d", i)
		}
	}
	return b.String() + "output " + value + "\n"
}

// patterns writes the patterns of a network into a new folder.
func patterns(t *testing.T, text, profile string) (dir string, p *lower.Program, index *vectors.Patterns) {
	t.Helper()
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	tg := lowertest.Whole()
	g, set, feeds := lowertest.ConfiguredFor(t, text, tg)
	p, err = lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	e, err := program.New(p, program.Reference, 1)
	require.NoError(t, err)
	dir = t.TempDir()
	index, err = vectors.WritePatterns(context.Background(), e, feeds, below(dir))
	require.NoError(t, err)
	return dir, p, index
}

func TestRepeatedCounts(t *testing.T) {
	for _, c := range []struct{ parts, want string }{
		{"fff", "3 x Conv Conv Conv Concat"},
		{"dsdsdddd", "6 x Conv Conv, 2 x Conv Conv"},
		{"dpd", "2 x Conv Conv"},
		{"fpfpfp", "3 x Conv Conv Conv Concat MaxPool"},
		{"rfr", "2 x Conv Add"},
		{"rrdfdrr", "4 x Conv Add, 2 x Conv Conv"},
		{"rd", ""},
	} {
		dir, p, index := patterns(t, made(c.parts), "tflite2")
		var got []string
		steps := len(index.Rest)
		for _, f := range index.Patterns {
			got = append(got, fmt.Sprintf("%d x %s", f.Places, strings.Join(f.Ops, " ")))
			steps += f.Places * len(f.Ops)
			var places []vectors.Place
			raw, err := os.ReadFile(filepath.Join(dir, f.Folder, "places.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &places))
			require.Len(t, places, f.Places)
			for _, place := range places {
				require.Len(t, place.Steps, len(f.Ops))
				for i, id := range place.Steps {
					require.Equal(t, f.Ops[i], p.Steps[id].Op.Name())
				}
				require.Len(t, place.Inputs, 1)
				require.Len(t, place.Outputs, 1)
			}
		}
		require.Equal(t, c.want, strings.Join(got, ", "), "%s\n%s", c.parts, lower.Format(p))
		require.Equal(t, len(p.Steps), steps, "every step stands in one pattern or in the rest")
	}
}

// A pattern is a program of its own: from the integers that enter, its files give those that leave and all between.
func TestPatternsAreComplete(t *testing.T) {
	done := map[string]int{}
	for _, parts := range []string{"fffpdd", "rsrs", "fpfp"} {
		dir, _, index := patterns(t, made(parts), "tflite2")
		require.NotEmpty(t, index.Patterns)
		for _, f := range index.Patterns {
			folder := filepath.Join(dir, f.Folder)
			want := recorded(t, folder)
			require.Len(t, want.Steps, len(f.Ops))
			given := map[int][]int64{}
			for _, x := range want.Tensors {
				if x.Constant {
					given[x.ID] = want.values[x.ID]
				}
			}
			for _, id := range want.Inputs {
				given[id] = want.values[id]
			}
			run := func(values map[int][]int64) map[int][]int64 {
				for _, s := range want.Steps {
					got, ok := computed(t, folder, s, values, want.shapes)
					require.True(t, ok, s.Kind)
					values[s.Outputs[0]] = got
				}
				return values
			}
			require.Equal(t, want.values, run(maps.Clone(given)), "%s, %s", parts, f.Folder)
			done[strings.Join(f.Ops, " ")]++

			wrong := maps.Clone(given)
			wrong[want.Inputs[0]] = make([]int64, len(given[want.Inputs[0]]))
			require.NotEqual(t, want.values, run(wrong), "what leaves depends on what enters")
		}
	}
	require.Len(t, done, 4, "%v", done)
}

// Programs of real numbers and islands, and without anything that repeats, are written as well.
func TestPatternsOfAllNetworks(t *testing.T) {
	for name, text := range lowertest.Networks {
		for _, profile := range []string{"tflite2", "ort"} {
			dir, p, index := patterns(t, text, profile)
			require.FileExists(t, filepath.Join(dir, "patterns.json"), name)
			steps := len(index.Rest)
			for _, f := range index.Patterns {
				steps += f.Places * len(f.Ops)
				require.FileExists(t, filepath.Join(dir, f.Folder, "program.json"))
			}
			require.Equal(t, len(p.Steps), steps, name)
		}
	}
}
