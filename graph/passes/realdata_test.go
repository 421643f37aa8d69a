package passes

import (
	"compress/gzip"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

// onlyInput is the name of the one input that is not a constant.
func onlyInput(t *testing.T, g *graph.Graph) string {
	t.Helper()
	var names []string
	for _, v := range g.Inputs {
		if g.Const(v) == nil {
			names = append(names, g.Value(v).Name)
		}
	}
	require.Len(t, names, 1)
	return names[0]
}

// photograph is the middle of a picture as 1x3x224x224 in [-1,1].
func photograph(t *testing.T, dir string) *tensor.Tensor {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "data/pets/eval/*.jpg"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	f, err := os.Open(files[0])
	require.NoError(t, err)
	defer f.Close()
	img, err := jpeg.Decode(f)
	require.NoError(t, err)
	const side = 224
	x := tensor.New(tensor.Float32, 1, 3, side, side)
	b := img.Bounds()
	left, top := b.Min.X+(b.Dx()-side)/2, b.Min.Y+(b.Dy()-side)/2
	for i := range side * side {
		r, g, bl, _ := img.At(left+i%side, top+i/side).RGBA()
		for c, v := range []uint32{r, g, bl} {
			x.F32()[c*side*side+i] = float32(v>>8)/127.5 - 1
		}
	}
	return x
}

// cifar is the first picture of the calibration set as 1x3x32x32 in 0..255.
func cifar(t *testing.T, dir string) *tensor.Tensor {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "data/cifar10/calibration_500.bin"))
	require.NoError(t, err)
	return pixels(data[1:3073], 1, 3, 32, 32)
}

// digit is the first test digit as 1x1x28x28 in 0..255.
func digit(t *testing.T, dir string) *tensor.Tensor {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "data/mnist/*images*.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	f, err := os.Open(files[0])
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data := make([]byte, 16+28*28)
	_, err = io.ReadFull(z, data)
	require.NoError(t, err)
	return pixels(data[16:], 1, 1, 28, 28)
}

func pixels(data []byte, shape ...int) *tensor.Tensor {
	x := tensor.New(tensor.Float32, shape...)
	for i, v := range data {
		x.F32()[i] = float32(v)
	}
	return x
}
