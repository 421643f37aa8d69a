package qmath

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// madeByOthers is one case of testdata/formats.json.gz, which testdata/formats.py wrote.
type madeByOthers struct {
	Format, Blocks, Source string
	Input                  int
	Codes, Powers          []byte // codes of elements, and of scales: E8M0 or E4M3
	Numbers, Elements      []byte // float32: elements with and without their scale
	Total                  []byte // float32: the scale of the tensor
}

func recordedFormats(t *testing.T) (inputs [][]float32, cases []madeByOthers) {
	t.Helper()
	f, err := os.Open("testdata/formats.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var file struct {
		Inputs [][]byte
		Cases  []madeByOthers
	}
	require.NoError(t, json.NewDecoder(z).Decode(&file))
	for _, in := range file.Inputs {
		inputs = append(inputs, floats(in))
	}
	return inputs, file.Cases
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// different says where other implementations do not agree with ours, how often (scales of blocks, elements in blocks whose scales agree),
// and why. Whatever is not listed is equal: the codes of single numbers bit for bit, elements of blocks but for the sign of zero.
var different = []struct {
	format, blocks, source string
	scales, elements       int
	why                    string
}{
	{"nf4", "", "bitsandbytes", 0, 6, "its middles are decimals: neighbours of a middle fall on the other side"},
	{"e2m1", "mx", "torchao", 2, 0, "zero blocks have the smallest scale there, 1 here"},
	{"e4m3", "mx", "torchao", 2, 0, "zero blocks"},
	{"e5m2", "mx", "torchao", 2, 0, "zero blocks"},
	{"e2m1", "mx-ceil", "torchao", 2, 0, "zero blocks"},
	{"e4m3", "mx-ceil", "torchao", 4, 0, "zero blocks; it divides in float32 first: 7.0000005 / 448 is 2^-6 there, and the number clips"},
	{"e5m2", "mx-ceil", "torchao", 5, 0, "zero blocks; the division in float32"},
	{"e2m1", "mx-ceil", "nvidia-modelopt", 2, 15, "zero blocks; ties of E2M1 go to the smaller number there, to even here, " +
		"in OCP and in the others"},
	{"e4m3", "mx-ceil", "nvidia-modelopt", 4, 0, "zero blocks; the division in float32"},
	{"e2m1", "mx-ceil", "mlx", 0, 15, "ties of E2M1 go to the smaller number"},
	{"e2m1", "mx", "microxcaling", 0, 14, "log2 in float32: a float32 below a power of two counts as that power"},
	{"e4m3", "mx", "microxcaling", 0, 2, "log2 in float32"},
	{"e5m2", "mx", "microxcaling", 0, 2, "log2 in float32"},
	{"e2m1", "mx", "gguf", 4, 12, "zero blocks; log2 in float32; ties of E2M1 go to the smaller number"},
	{"e2m1", "nv", "torchao", 90, 0, "scales below 2^-6 are raised to it, also those of zero blocks (1 here); E4M3 reaches down to 2^-9"},
	{"e2m1", "nv", "compressed-tensors", 63, 0, "zero blocks, and blocks whose scale rounds to 0, have 1/8"},
	{"e2m1", "nv", "mlx", 2, 0, "zero blocks have scale 0"},
}

// Codes and scales equal those of at least two other implementations, recorded on numbers that include all codes, ties, and blocks at all
// borders of their scales.
func TestFormatsAreThoseOfOthers(t *testing.T) {
	inputs, cases := recordedFormats(t)
	type who struct{ format, blocks, source string }
	sources, counts, want := map[string]map[string]bool{}, map[who][2]int{}, map[who][2]int{}
	for _, c := range cases {
		name, _, _ := strings.Cut(c.Source, " ")
		key, kind := who{c.Format, c.Blocks, name}, c.Format+" "+c.Blocks
		scales, elements := c.compare(t, inputs[c.Input])
		counts[key] = [2]int{counts[key][0] + scales, counts[key][1] + elements}
		want[key] = [2]int{}
		if sources[kind] == nil {
			sources[kind] = map[string]bool{}
		}
		sources[kind][name] = true
	}
	for _, d := range different {
		key := who{d.format, d.blocks, d.source}
		require.Contains(t, want, key, d.why)
		want[key] = [2]int{d.scales, d.elements}
	}
	require.Equal(t, want, counts)
	for _, f := range []string{"e4m3 ", "e5m2 ", "e2m1 ", "nf4 ", "int4 ", "e2m1 mx", "e4m3 mx", "e5m2 mx", "e2m1 mx-ceil",
		"e4m3 mx-ceil", "e2m1 nv"} {
		require.GreaterOrEqual(t, len(sources[f]), 2, f)
	}
}

// compare counts the scales that differ, and the elements that do in blocks whose scales agree.
func (c *madeByOthers) compare(t *testing.T, x []float32) (scales, elements int) {
	codec := Codec{Format: IntegerFormat(4, false), Scale: 1}
	for _, k := range NumberTypes() {
		if k.String() == c.Format {
			codec.Format = FormatOf(k)
		}
	}
	size := map[string]int{"": len(x), "mx": 32, "mx-ceil": 32, "nv": 16}[c.Blocks]
	require.NotZero(t, size)
	numbers, before, total := floats(c.Numbers), floats(c.Elements), floats(c.Total)
	for from := 0; from < len(x); from += size {
		block := x[from : from+size]
		code := uint8(0)
		switch most := largestMagnitude(block); c.Blocks {
		case "mx", "mx-ceil":
			codec.Scale = MXScale(most, codec.Format, c.Blocks == "mx-ceil")
			code = EncodeE8M0(float64(codec.Scale), Down, true)
		case "nv":
			codec.Scale, code = NVScale(most, total[0])
		}
		if c.Powers != nil && c.Powers[from/size] != code {
			scales++
			continue
		}
		for i, v := range block {
			q, at := codec.Quantize(v), from+i
			same := true
			switch {
			case c.Codes != nil && c.Blocks == "":
				same = q == int32(c.Codes[at])
			case c.Codes != nil:
				same = codec.Dequantize(q) == codec.Dequantize(int32(c.Codes[at]))
			case c.Elements != nil:
				same = codec.number(q) == before[at]
			default:
				same = codec.Dequantize(q) == numbers[at]
			}
			if !same {
				elements++
			}
		}
	}
	return scales, elements
}

func largestMagnitude(x []float32) (most float32) {
	for _, v := range x {
		most = max(most, Abs32(v))
	}
	return most
}
