package tflite

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/flatbuffer"
)

// small is a network with one of everything that a file can say.
func small() *Model {
	weights := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	return &Model{
		Version: 3, Description: "small",
		Subgraphs: []Subgraph{{
			Name: "main", Inputs: []int{0}, Outputs: []int{3},
			Tensors: []Tensor{
				{Name: "x", Type: Int8, Shape: []int{1, 2, 2, 1}, Signature: []int{-1, 2, 2, 1}, Quantization: &Quantization{Scale: []float32{0.5},
					ZeroPoint: []int{-128}, Min: []float32{0}, Max: []float32{127.5}}},
				{Name: "w", Type: Int8, Shape: []int{2, 2, 2, 1}, Data: weights, Quantization: &Quantization{Scale: []float32{0.25, 1},
					ZeroPoint: []int{0, 0}}},
				{Name: "b", Type: Int32, Shape: []int{2}, Data: weights, HasRank: true},
				{Name: "y", Type: Int8, Shape: []int{1, 1, 1, 2}, Quantization: &Quantization{Scale: []float32{0.5}, ZeroPoint: []int{3}}},
				{Name: "state", Type: Float32, Shape: []int{}, Variable: true},
				{Name: "empty", Type: Float32, Shape: []int{0}, Quantization: &Quantization{}},
			},
			Operators: []Operator{
				{Op: "CONV_2D", Version: 3, Inputs: []int{0, 1, 2}, Outputs: []int{3}, OptionsType: "Conv2D",
					Options: Options{"padding": Valid, "stride_w": 2, "stride_h": 3,
						"fused_activation_function": Relu6, "dilation_w_factor": 1, "dilation_h_factor": 2, "quantized_bias_type": 0}},
				{Op: "RESHAPE", Version: 1, Inputs: []int{3, -1}, Outputs: []int{3}, OptionsType: "Reshape",
					Options: Options{"new_shape": []int{1, -1}}},
				{Op: "SOFTMAX", Version: 2, Inputs: []int{3}, Outputs: []int{3}, OptionsType: "Softmax", Options: Options{"beta": float32(1.5)}},
				{Op: "VAR_HANDLE", Version: 1, Inputs: []int{}, Outputs: []int{4}, OptionsType: "VarHandle",
					Options: Options{"container": "c", "shared_name": "n"}, Mutates: []bool{true, false}},
				{Op: "BUCKETIZE", Version: 1, Inputs: []int{3}, Outputs: []int{4}, OptionsType: "Bucketize",
					Options: Options{"boundaries": []float32{1, 2}}, Intermediates: []int{5}},
				{Op: "RANDOM_UNIFORM", Version: 1, Inputs: []int{3}, Outputs: []int{4}, OptionsType: "Random",
					Options: Options{"seed": -1 << 40, "seed2": 1 << 40}},
				{Op: "CUSTOM", Custom: "Mine", Version: 1, Inputs: []int{3}, Outputs: []int{4}, CustomOptions: []byte{9, 8}},
				{Op: "STABLEHLO_CASE", Version: 1, Inputs: []int{3}, Outputs: []int{4}},
			},
		}, {Name: "other", Tensors: []Tensor{{Name: "t", Type: Bool, Shape: []int{1}, Data: []byte{1}}}, Inputs: []int{}, Outputs: []int{0}}},
		Metadata:   []Metadata{{Name: "min_runtime_version", Data: []byte("1.5.0")}},
		Signatures: []Signature{{Key: "serve", Subgraph: 0, Inputs: []Named{{"in", 0}}, Outputs: []Named{{"out", 3}}}},
	}
}

func TestRoundTrip(t *testing.T) {
	b, err := small().Write()
	require.NoError(t, err)
	back, err := Read(b)
	require.NoError(t, err)
	require.Equal(t, small(), back)
	again, err := back.Write()
	require.NoError(t, err)
	require.Equal(t, b, again)
	require.Equal(t, &back.Subgraphs[0].Tensors[1].Data[0], &back.Subgraphs[0].Tensors[2].Data[0], "equal data are one buffer")
}

// TestForeignFile reads a file that LiteRT's own schema classes wrote from testdata/small.py and compares it field by field; the script
// also reads what this package writes.
func TestForeignFile(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "small.tflite"))
	require.NoError(t, err)
	back, err := Read(b)
	require.NoError(t, err)
	require.Equal(t, small(), back)
}

func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Model)
	}{
		{"has no subgraph", func(m *Model) { m.Subgraphs = nil }},
		{`operator 0 CONV_3D_X: no such operator`, func(m *Model) { m.Subgraphs[0].Operators[0].Op = "CONV_3D_X" }},
		{`operator 0 CONV_2D: tensor 6 does not exist`, func(m *Model) { m.Subgraphs[0].Operators[0].Inputs[1] = 6 }},
		{`operator 0 CONV_2D: tensor -1 does not exist`, func(m *Model) { m.Subgraphs[0].Operators[0].Outputs[0] = -1 }},
		{`tensor -1 does not exist`, func(m *Model) { m.Subgraphs[0].Inputs[0] = -1 }},
		{`tensor 1 "w": int8[2 2 2 1] needs 8 bytes, its buffer has 7`, func(m *Model) { m.Subgraphs[0].Tensors[1].Data = make([]byte, 7) }},
		{`tensor 1 "w": 2 scales along axis 3 of [2 2 2 1]`, func(m *Model) { m.Subgraphs[0].Tensors[1].Quantization.Axis = 3 }},
		{`tensor 1 "w": 2 scales, 3 zero points`, func(m *Model) { m.Subgraphs[0].Tensors[1].Quantization.ZeroPoint = []int{0, 0, 0} }},
		{`tensor 0 "x": shape [1 -2] has a size below 0`, func(m *Model) { m.Subgraphs[0].Tensors[0].Shape = []int{1, -2} }},
		{`is too large`, func(m *Model) { m.Subgraphs[0].Tensors[0].Shape = []int{1 << 30, 1 << 30} }},
		{`unknown type 40`, func(m *Model) { m.Subgraphs[0].Tensors[0].Type = 40 }},
		{`its sparsity cannot be written`, func(m *Model) { m.Subgraphs[0].Tensors[0].Unread = "sparsity" }},
		{`its options of kind 200 cannot be written`, func(m *Model) { m.Subgraphs[0].Operators[0].Unread = "options of kind 200" }},
		{`no table Conv9DOptions`, func(m *Model) { m.Subgraphs[0].Operators[0].OptionsType = "Conv9D" }},
		{`option stride_w of Conv2DOptions does not hold float32 1`, func(m *Model) {
			m.Subgraphs[0].Operators[0].Options["stride_w"] = float32(1)
		}},
		{`option padding of Conv2DOptions does not hold int 128`, func(m *Model) { m.Subgraphs[0].Operators[0].Options["padding"] = 128 }},
		{`options that Conv2DOptions does not have`, func(m *Model) { m.Subgraphs[0].Operators[0].Options["beta"] = float32(1) }},
		{`options without their type`, func(m *Model) { m.Subgraphs[0].Operators[0].OptionsType = "" }},
		{`signature "serve": tensor 6 does not exist`, func(m *Model) { m.Signatures[0].Inputs[0].Tensor = 6 }},
		{`signature "serve": subgraph 2 does not exist`, func(m *Model) { m.Signatures[0].Subgraph = 2 }},
	} {
		m := small()
		c.change(m)
		_, err := m.Write()
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "write tflite: ")
	}
}

func TestReadRefuses(t *testing.T) {
	_, err := Read([]byte("GIF89a..........."))
	require.EqualError(t, err, "read tflite: no TFL3 file: its identifier is missing")
	b, err := small().Write()
	require.NoError(t, err)
	for n := range len(b) {
		if _, err := Read(b[:n]); err == nil {
			// Strings at the end may lose the zero behind them, which nothing reads.
			require.Greater(t, n, len(b)-8)
		}
	}
}

// TestSharedOptions: operators that are one table cost their options each time.
func TestSharedOptions(t *testing.T) {
	m := small()
	m.Subgraphs[0].Operators = m.Subgraphs[0].Operators[:1]
	b, err := m.Write()
	require.NoError(t, err)
	read := func(left int) error {
		f := &file{Reader: flatbuffer.New(b, left), codes: []Operator{{Op: "CONV_2D"}}}
		_, err := f.operator(f.Root().Views(modelSubgraphs)[0].Views(graphOperators)[0])
		return err
	}
	require.NoError(t, read(100))
	require.ErrorContains(t, read(8*7), "describes much more than its")
}

func TestFields(t *testing.T) {
	f, ok := Fields("DepthwiseConv2D")
	require.True(t, ok)
	require.Equal(t, Field{Name: "dilation_h_factor", Kind: "i", Default: 1, slot: 6}, f[6])
	_, ok = Fields("None")
	require.False(t, ok)
	require.Len(t, optionTables(), 126)
	require.Equal(t, "STABLEHLO_CASE", opNames[209])
	for _, table := range optionTables() {
		for _, f := range table.fields {
			require.Contains(t, strings.Fields("b i u l z f s *i *B *f"), f.Kind, table.name)
		}
	}
}

func FuzzRead(f *testing.F) {
	b, err := small().Write()
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte("\x08\x00\x00\x00TFL3\x00\x00\x00\x00"))
	f.Fuzz(checkRead)
}

// checkRead requires that bytes are refused or read into something that survives writing.
func checkRead(t *testing.T, b []byte) {
	m, err := Read(b)
	if err != nil {
		return
	}
	out, err := m.Write()
	if err != nil {
		return // holds what cannot be written
	}
	back, err := Read(out)
	require.NoError(t, err)
	again, err := back.Write()
	require.NoError(t, err)
	require.Equal(t, out, again)
}

// TestMutations damages a file at random, always in the same way.
func TestMutations(t *testing.T) {
	seed, err := small().Write()
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	loaded := 0
	for range 3000 {
		b := append([]byte(nil), seed...)
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		if _, err := Read(b); err == nil {
			loaded++
		}
		checkRead(t, b)
	}
	require.Greater(t, loaded, 300)
}
