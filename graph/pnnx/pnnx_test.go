package pnnx

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// archive is a zip file without compression, as pnnx writes it.
func archive(t testing.TB, files map[string]any, order ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range order {
		var raw bytes.Buffer
		require.NoError(t, binary.Write(&raw, binary.LittleEndian, files[name]))
		w, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(raw.Bytes()), CompressedSize64: uint64(raw.Len()),
			UncompressedSize64: uint64(raw.Len())})
		require.NoError(t, err)
		_, err = w.Write(raw.Bytes())
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

func text(lines ...string) []byte {
	n := len(lines)
	return []byte(Magic + "\n" + itoa(n) + " " + itoa(n) + "\n" + strings.Join(lines, "\n") + "\n")
}

func itoa(n int) string { return string(rune('0'+n/10)) + string(rune('0'+n%10)) }

func read(t testing.TB, param, bin []byte) (*graph.Graph, error) {
	t.Helper()
	return Read(param, bytes.NewReader(bin), int64(len(bin)))
}

// A convolution, an expression, an attribute of half precision, a slice, a matrix, and two outputs: the numbers of all.
func TestRead(t *testing.T) {
	bin := archive(t, map[string]any{"c.weight": []float32{2, -1}, "c.bias": []float32{0.5, 1}, "p.data": []uint16{0x3c00, 0xb800}, "l.weight": []float32{1, 2, 3, 4}},
		"c.weight", "c.bias", "p.data", "l.weight")
	param := text(
		"pnnx.Input in 0 1 0 #0=(1,1,2,2)f32",
		"nn.Conv2d c 1 1 0 1 bias=True dilation=(1,1) groups=1 in_channels=1 kernel_size=(1,1) out_channels=2 padding=(0,0) padding_mode=zeros stride=(1,1) @bias=(2)f32 @weight=(2,1,1,1)f32 $input=0 #0=(1,1,2,2)f32 #1=(1,2,2,2)f32",
		"pnnx.Attribute p 0 1 2 @data=(1,2,1,1)f16 #2=(1,2,1,1)f16",
		"pnnx.Expression e 2 1 1 2 3 expr=sub(mul(@0,2.0),add(@1,square(@1))) #3=(1,2,2,2)f32",
		"Tensor.slice s 1 1 3 4 dim=1 end=2 start=1 step=1 #3=(1,2,2,2)f32 #4=(1,1,2,2)f32",
		"torch.flatten f 1 1 4 5 end_dim=-1 start_dim=2 #4=(1,1,2,2)f32 #5=(1,1,4)f32",
		"Tensor.view v 1 1 5 6 shape=(2,2) #6=(2,2)f32",
		"nn.Linear l 1 1 6 7 bias=False in_features=2 out_features=2 @weight=(2,2)f32 #6=(2,2)f32 #7=(2,2)f32",
		"prim::TupleConstruct t 2 1 3 7 8",
		"pnnx.Output out 1 0 8")
	g, err := read(t, param, bin)
	require.NoError(t, err)
	require.Len(t, g.Outputs, 2)
	require.Equal(t, "3", g.Value(g.Outputs[0]).Name)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"0": tensor.FromF32([]float32{1, 2, 3, 4}, 1, 1, 2, 2)}, nil)
	require.NoError(t, err)
	// c = 2x + 0.5 and 1 - x; e = 2c - (p + p*p) with p = 1 and -0.5
	require.Equal(t, []float32{3, 7, 11, 15, 0.25, -1.75, -3.75, -5.75}, out[0].F32())
	require.Equal(t, []float32{0.25 - 3.5, 0.75 - 7, -3.75 - 11.5, -11.25 - 23}, out[1].F32())
	require.True(t, Is(param))
	require.False(t, Is([]byte(Magic+"\n1 1\nInput x 0 1 x\n")))
}

func TestRefusals(t *testing.T) {
	bin := archive(t, map[string]any{"c.weight": []float32{1}, "short.weight": []float32{1}}, "c.weight", "short.weight")
	in := "pnnx.Input in 0 1 0 #0=(1,1,2,2)f32"
	for want, lines := range map[string][]string{
		"no output":                        {in},
		`operator "y" (nn.Strange)`:        {in, "nn.Strange y 1 1 0 1"},
		"is read before it is made":        {in, "nn.ReLU y 1 1 9 1"},
		`the archive has no "y.weight"`:    {in, "nn.Conv2d y 1 1 0 1 bias=False kernel_size=(1,1) @weight=(1,1,1,1)f32"},
		"without compression":              {in, "nn.Conv2d short 1 1 0 1 bias=False kernel_size=(1,1) @weight=(1,2,1,1)f32"},
		`weight "weight" is of type "u17"`: {in, "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(1,1) @weight=(1,1,1,1)u17"},
		"1 inputs and 0 outputs":           {in, "nn.ReLU y 1 0 0"},
		"are no whole numbers":             {in, "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(a,1) @weight=(1,1,1,1)f32"},
		"neither True nor False":           {in, "nn.MaxPool2d y 1 1 0 1 kernel_size=(1,1) ceil_mode=2"},
		"there is no input":                {in, "pnnx.Expression y 1 1 0 1 expr=add(@0,@1)"},
		"no rule for function":             {in, "pnnx.Expression y 1 1 0 1 expr=size(@0,1)"},
		"add has 2 arguments":              {in, "pnnx.Expression y 1 1 0 1 expr=add(@0)"},
		"follows the expression":           {in, "pnnx.Expression y 1 1 0 1 expr=neg(@0))"},
		"windows of one size":              {in, "nn.AdaptiveAvgPool2d y 1 1 0 1 output_size=(3,3) #0=(1,1,4,4)f32"},
		"is not key=value":                 {in, "nn.ReLU y 1 1 0 1 what"},
		"is not (shape)type":               {in, "nn.ReLU y 1 1 0 1 #1=f32"},
		"too deep":                         {in, "pnnx.Expression y 1 1 0 1 expr=" + strings.Repeat("neg(", 300)},
	} {
		_, err := read(t, text(lines...), bin)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "pnnx: ")
	}
	_, err := read(t, []byte("7\n"), bin)
	require.ErrorContains(t, err, "does not begin with")
	_, err = read(t, []byte(Magic+"\n3 3\nnn.ReLU y 1 1 0 1\n"), bin)
	require.ErrorContains(t, err, "for 1 operators")
	_, err = read(t, text(in), bin[:20])
	require.ErrorContains(t, err, "the weights")
}

func TestHalf(t *testing.T) {
	for b, want := range map[uint16]float32{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 1.0 / (1 << 24), 0x8400: -1.0 / (1 << 14)} {
		require.Equal(t, want, half(b))
	}
	require.True(t, math.IsInf(float64(half(0xfc00)), -1))
}

// No file makes the reader fail in another way than by an error, or take more memory than it is long.
func FuzzRead(f *testing.F) {
	bin := archive(f, map[string]any{"c.weight": []float32{2, -1}}, "c.weight")
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(1,1) @weight=(2,1,1,1)f32", "pnnx.Output out 1 0 1"), bin)
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "torch.flatten f 1 1 0 1 start_dim=9", "F.pad p 1 1 0 2 pad=(1,2,3,4,5,6,7,8,9,10)"), bin)
	f.Add(text("pnnx.Attribute c 0 1 0 @weight=(99999999,99999999)f32", "nn.PReLU c 1 1 0 1", "torch.split s 1 2 0 3 4 dim=-7"), bin)
	f.Fuzz(func(t *testing.T, text, bin []byte) {
		g, err := Read(text, bytes.NewReader(bin), int64(len(bin)))
		if err == nil {
			graph.InferShapes(g)
		}
	})
}
