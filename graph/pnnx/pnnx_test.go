package pnnx

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
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
		w, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(raw.Bytes()),
			CompressedSize64: uint64(raw.Len()), UncompressedSize64: uint64(raw.Len())})
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
	bin := archive(t, map[string]any{"c.weight": []float32{2, -1}, "c.bias": []float32{0.5, 1}, "p.data": []uint16{0x3c00, 0xb800},
		"l.weight": []float32{1, 2, 3, 4}}, "c.weight", "c.bias", "p.data", "l.weight")
	param := text(
		"pnnx.Input in 0 1 0 #0=(1,1,2,2)f32",
		"nn.Conv2d c 1 1 0 1 bias=True dilation=(1,1) groups=1 in_channels=1 kernel_size=(1,1) out_channels=2 padding=(0,0) padding_mode=zeros "+
			"stride=(1,1) @bias=(2)f32 @weight=(2,1,1,1)f32 $input=0 #0=(1,1,2,2)f32 #1=(1,2,2,2)f32",
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
	out, err := session.NewRunner().Run(context.Background(),
		map[string]*tensor.Tensor{"0": tensor.FromF32([]float32{1, 2, 3, 4}, 1, 1, 2, 2)}, nil)
	require.NoError(t, err)
	// c = 2x + 0.5 and 1 - x; e = 2c - (p + p*p) with p = 1 and -0.5
	require.Equal(t, []float32{3, 7, 11, 15, 0.25, -1.75, -3.75, -5.75}, out[0].F32())
	require.Equal(t, []float32{0.25 - 3.5, 0.75 - 7, -3.75 - 11.5, -11.25 - 23}, out[1].F32())
	require.True(t, Is(param))
	require.False(t, Is([]byte(Magic+"\n1 1\nInput x 0 1 x\n")))
}

func TestRefusals(t *testing.T) {
	bin := archive(t, map[string]any{"c.weight": []float32{1}, "short.weight": []float32{1}, "two.weight": []float32{1, 2}}, "c.weight",
		"short.weight", "two.weight")
	in := "pnnx.Input in 0 1 0 #0=(1,1,2,2)f32"
	for want, lines := range map[string][]string{
		"no output":                           {in},
		`operator "y" (nn.Strange)`:           {in, "nn.Strange y 1 1 0 1"},
		"is read before it is made":           {in, "nn.ReLU y 1 1 9 1"},
		`the archive has no "y.weight"`:       {in, "nn.Conv2d y 1 1 0 1 bias=False kernel_size=(1,1) @weight=(1,1,1,1)f32"},
		"without compression":                 {in, "nn.Conv2d short 1 1 0 1 bias=False kernel_size=(1,1) @weight=(1,2,1,1)f32"},
		`weight "weight" is of type "u17"`:    {in, "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(1,1) @weight=(1,1,1,1)u17"},
		"1 inputs and 0 outputs":              {in, "nn.ReLU y 1 0 0"},
		"are no whole numbers":                {in, "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(a,1) @weight=(1,1,1,1)f32"},
		"neither True nor False":              {in, "nn.MaxPool2d y 1 1 0 1 kernel_size=(1,1) ceil_mode=2"},
		"there is no input":                   {in, "pnnx.Expression y 1 1 0 1 expr=add(@0,@1)"},
		"no rule for function":                {in, "pnnx.Expression y 1 1 0 1 expr=size(@0,1)"},
		"add has 2 arguments":                 {in, "pnnx.Expression y 1 1 0 1 expr=add(@0)"},
		"follows the expression":              {in, "pnnx.Expression y 1 1 0 1 expr=neg(@0))"},
		"windows of one size":                 {in, "nn.AdaptiveAvgPool2d y 1 1 0 1 output_size=(3,3) #0=(1,1,4,4)f32"},
		"is not key=value":                    {in, "nn.ReLU y 1 1 0 1 what"},
		"beta=2, threshold=20: only 1 and 20": {in, "nn.Softplus y 1 1 0 1 beta=2 threshold=20"},
		"threshold=3: only 1 and 20":          {in, "F.softplus y 1 1 0 1 beta=1.0 threshold=3"},
		"no rule for its parameter extra=1":   {in, "nn.ReLU y 1 1 0 1 inplace=True extra=1"},
		"no rule for its parameter dtype=6":   {in, "torch.sum y 1 1 0 1 dim=(1) keepdim=False dtype=6"},
		"padding_mode=reflect: only zeros": {in, "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(1,1) padding=same " +
			"padding_mode=reflect @weight=(1,1,1,1)f32"},
		"without dim, of a rank":             {"pnnx.Input in 0 1 0", "nn.Softmax y 1 1 0 1 dim=None"},
		"output_size is missing":             {in, "nn.AdaptiveAvgPool2d y 1 1 0 1"},
		"output_size=(3,None) are no":        {in, "nn.AdaptiveAvgPool2d y 1 1 0 1 output_size=(3,None)"},
		"kernel_size is missing":             {in, "nn.MaxPool2d y 1 1 0 1"},
		"size=x are no whole numbers":        {in, "nn.Upsample y 1 1 0 1 size=x"},
		"size=(3,None) are no whole numbers": {in, "F.interpolate y 1 1 0 1 size=(3,None)"},
		"size=(3,4,5): 2 numbers are wanted": {in, "F.interpolate y 1 1 0 1 size=(3,4,5)"},
		"scale_factor=nan":                   {in, "F.interpolate y 1 1 0 1 scale_factor=nan"},
		"sizes that are not known":           {"pnnx.Input in 0 1 0 #0=(1,1,?,2)f32", "F.upsample_bilinear y 1 1 0 1 scale_factor=1.5"},
		"mode nearest, align_corners=true":   {in, "nn.Upsample y 1 1 0 1 scale_factor=2 align_corners=True"},
		"antialias=True: only False":         {in, "F.interpolate y 1 1 0 1 mode=bilinear antialias=True scale_factor=2"},
		"training=True: only False":          {in, "F.dropout y 1 1 0 1 p=0.5 training=True"},
		"2 slopes for []":                    {"pnnx.Input in 0 1 0", "nn.PReLU two 1 1 0 1 num_parameters=2 @weight=(2)f32"},
		"without normalized_shape":           {in, "nn.LayerNorm two 1 1 0 1 @weight=(2)f32"},
		"without dims":                       {in, "torch.permute y 1 1 0 1"},
		"is not (shape)type":                 {in, "nn.ReLU y 1 1 0 1 #1=f32"},
		"too deep":                           {in, "pnnx.Expression y 1 1 0 1 expr=" + strings.Repeat("neg(", 300)},
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

// Parameters that change what an operator computes are followed: the axis of a Softmax without dim, positions of Resize at one element and
// at scales that are not whole, and elements that a slice selects.
func TestParameters(t *testing.T) {
	bin := archive(t, map[string]any{"p.data": []uint16{0x3f80, 0xbf00}}, "p.data")
	in := "pnnx.Input in 0 1 0 #0=(1,1,2,2)f32"
	x := tensor.FromF32([]float32{1, 2, 3, 5}, 1, 1, 2, 2)
	for line, want := range map[string][]float32{
		"nn.Upsample y 1 1 0 1 mode=bilinear align_corners=False size=(1,1)": {2.75},
		"F.upsample_bilinear y 1 1 0 1 scale_factor=(1,1.8)":                 {1, 1.5, 2, 3, 4, 5},
		"F.interpolate y 1 1 0 1 mode=nearest recompute_scale_factor=True scale_factor=(1.0,2.9)": {1, 1, 1, 2, 2,
			3, 3, 3, 5, 5},
		"Tensor.slice y 1 1 0 1 dims=(2,3) starts=(0,0) ends=(2147483647,2147483647) steps=(1,1) selects=(-1,2147483647)": {3, 5},
		"Tensor.slice y 1 1 0 1 dims=(2,3) starts=(0,1) ends=(2,2) steps=(1,1) selects=(2147483647,2147483647) $input=0":  {2, 5},
		"nn.Softmax y 1 1 0 1 dim=None": {1, 1, 1, 1},
		"nn.Softplus y 1 1 0 1 beta=1 threshold=2.000000e+01": {1.3132616, 2.126928,
			3.0485873, 5.0067153},
		"pnnx.Expression y 1 1 0 1 expr=add(@0,1) #1=(1,1,2,2)f32":                                                         {2, 3, 4, 6},
		"nn.AvgPool2d y 1 1 0 1 kernel_size=2 stride=None padding=0 ceil_mode=False count_include_pad=True dilation=(1,1)": {2.75},
		"F.adaptive_max_pool2d y 1 2 0 1 2 output_size=1 return_indices=True":                                              {5},
		"F.dropout y 1 1 0 1 p=0.5 training=False":                                                                         {1, 2, 3, 5},
	} {
		g, err := read(t, text(in, line, "pnnx.Output out 1 0 1"), bin)
		require.NoError(t, err, line)
		session, err := exec.New(g, exec.Options{})
		require.NoError(t, err, line)
		out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"0": x}, nil)
		require.NoError(t, err, line)
		require.InDeltaSlice(t, want, out[0].F32(), 1e-6, line)
	}
	for shape, axis := range map[string]int{"(4)": 0, "(2,4)": 1, "(2,3,4)": 0, "(1,2,3,4)": 1} {
		g, err := read(t, text("pnnx.Input in 0 1 0 #0="+shape+"f32", "F.log_softmax y 1 1 0 1 dim=None", "pnnx.Output out 1 0 1"), bin)
		require.NoError(t, err)
		id, ok := g.LookupNode("y")
		require.True(t, ok)
		require.EqualValues(t, axis, g.Node(id).AttrInt("axis", 9), shape)
	}
	g, err := read(t, text(in, "pnnx.Attribute p 0 1 2 @data=(2)bf16", "torch.cat y 1 1 2 1 dim=0", "pnnx.Output out 1 0 1"), bin)
	require.NoError(t, err)
	v, _ := g.Lookup("2")
	require.Equal(t, []float32{1, -0.5}, g.Const(v).F32())
}

// Many lines, or many entries at one place of the archive, do not make a small file a large graph.
func TestShared(t *testing.T) {
	bin := archive(t, map[string]any{"c.weight": make([]float32, 64)}, "c.weight")
	in, conv := "pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", " 1 1 0 1 bias=False kernel_size=(1,1) @weight=(64,1,1,1)f32"
	_, err := read(t, text(in, "nn.Conv2d c"+conv, "nn.Conv2d c"+conv), bin)
	require.ErrorContains(t, err, "another operator has the same name")

	// Two more entries of the directory at the end, which say that their bytes are those of the first.
	end := len(bin) - 22
	first := int(binary.LittleEndian.Uint32(bin[end+16:]))
	var directory []byte
	for _, name := range "cde" {
		entry := bytes.Clone(bin[first:end])
		entry[46] = byte(name)
		directory = append(directory, entry...)
	}
	tail := bytes.Clone(bin[end:])
	tail[8], tail[10] = 3, 3
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(directory)))
	bin = append(append(bytes.Clone(bin[:first]), directory...), tail...)
	conv = strings.Replace(conv, " 0 1 ", " 0 %d ", 1)
	_, err = read(t, text(in, "nn.Conv2d c"+strings.Replace(conv, "%d", "1", 1), "nn.Conv2d d"+strings.Replace(conv, "%d", "2", 1),
		"nn.Conv2d e"+strings.Replace(conv, "%d", "3", 1), "pnnx.Output out 1 0 3"), bin)
	require.ErrorContains(t, err, "bytes of the archive")

	lines := []string{in, "prim::ListConstruct l 200000 1" + strings.Repeat(" 0", 200000) + " list"}
	for i := range 6 {
		lines = append(lines, "torch.cat y"+itoa(i)+" 1 1 list y"+itoa(i)+" dim=0")
	}
	_, err = read(t, text(lines...), bin)
	require.ErrorContains(t, err, "more than 1048576 inputs")
}

// No file makes the reader fail in another way than by an error, or take more memory than it is long.
func FuzzRead(f *testing.F) {
	bin := archive(f, map[string]any{"c.weight": []float32{2, -1}}, "c.weight")
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "nn.Conv2d c 1 1 0 1 bias=False kernel_size=(1,1) @weight=(2,1,1,1)f32",
		"pnnx.Output out 1 0 1"), bin)
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "torch.flatten f 1 1 0 1 start_dim=9", "F.pad p 1 1 0 2 pad=(1,2,3,4,5,6,7,8,9,10)"),
		bin)
	f.Add(text("pnnx.Attribute c 0 1 0 @weight=(99999999,99999999)f32", "nn.PReLU c 1 1 0 1", "torch.split s 1 2 0 3 4 dim=-7"), bin)
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "nn.AdaptiveAvgPool2d a 1 1 0 1", "nn.Upsample u 1 1 0 2 size=x"), bin)
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "F.interpolate u 1 1 0 1 size=(3,None)", "nn.Softmax s 1 1 0 2 dim="), bin)
	f.Add(text("pnnx.Input in 0 1 0 #0=(1,1,2,2)f32", "Tensor.slice u 1 1 0 1 dims=(2,3) starts=(1,1) ends=(2,2) steps=(1,1) selects=(0,-1)"),
		bin)
	f.Fuzz(func(t *testing.T, text, bin []byte) {
		g, err := Read(text, bytes.NewReader(bin), int64(len(bin)))
		if err == nil {
			graph.InferShapes(g)
		}
	})
}
