package data

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// On real pictures what was compressed again, made brighter or scaled is found, and nothing else.
func TestNearDuplicatesOfPhotographs(t *testing.T) {
	root := os.Getenv("QWB_TESTDATA")
	if root == "" {
		t.Skip("QWB_TESTDATA is not set")
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(root, "data/pets/calibration/*.jpg"))
	require.NoError(t, err)
	require.Greater(t, len(files), 40)
	change := map[string]func(m image.Image) []byte{
		"compressed": func(m image.Image) []byte {
			var b bytes.Buffer
			require.NoError(t, jpeg.Encode(&b, m, &jpeg.Options{Quality: 40}))
			return b.Bytes()
		},
		"brighter": func(m image.Image) []byte {
			return redrawn(t, m, 1, func(v uint32) uint8 { return uint8(min(255, v>>8*9/10+25)) })
		},
		"halved": func(m image.Image) []byte { return redrawn(t, m, 2, func(v uint32) uint8 { return uint8(v >> 8) }) },
	}
	for i, f := range files[:40] {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)), b, 0o644))
		if i < 9 {
			name := []string{"compressed", "brighter", "halved"}[i%3]
			m, err := jpeg.Decode(bytes.NewReader(b))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d-%s.jpg", i, name)), change[name](m), 0o644))
		}
	}
	spec := input("x", 1, 3, 224, 224)
	pre, err := plan.Preset("imagenet-torch", 224)
	require.NoError(t, err)
	set, _, err := Open([]string{dir}, spec, Options{Preprocess: &pre})
	require.NoError(t, err)
	thumbs := NewThumbnails(spec)
	for i := range set.Len() {
		s, err := set.Sample(i)
		require.NoError(t, err)
		thumbs.Observe(s)
	}
	pairs := thumbs.Pairs()
	for _, p := range pairs {
		require.Equal(t, p.A[:2], p.B[:2], "%v", p)
	}
	require.Len(t, pairs, 9)
}

// redrawn is every n-th pixel, changed, as PNG.
func redrawn(t *testing.T, m image.Image, n int, change func(uint32) uint8) []byte {
	out := image.NewNRGBA(image.Rect(0, 0, m.Bounds().Dx()/n, m.Bounds().Dy()/n))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			r, g, b, _ := m.At(m.Bounds().Min.X+x*n, m.Bounds().Min.Y+y*n).RGBA()
			out.Set(x, y, color.NRGBA{change(r), change(g), change(b), 255})
		}
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, out))
	return b.Bytes()
}

func TestThumbnails(t *testing.T) {
	look := func(spec InputSpec, list ...*tensor.Tensor) *Thumbnails {
		th := NewThumbnails(spec)
		for i, x := range list {
			feeds := map[string]*tensor.Tensor{spec[0].Name: x}
			th.Observe(&exec.Sample{Name: fmt.Sprint(i), Label: i, Hash: Hash(feeds), Feeds: feeds})
		}
		return th
	}
	wave := func(n int, f func(i int) float32) *tensor.Tensor {
		x := make([]float32, n)
		for i := range x {
			x[i] = f(i)
		}
		return tensor.FromF32(x, 1, n)
	}
	saw := func(i int) float32 { return float32(i * 37 % 101) }
	spec := input("x", 1, 5000)
	a, b := wave(5000, saw), wave(5000, func(i int) float32 { return 3*saw(i) + float32(i%2) - 7 })
	other, flat := wave(5000, func(i int) float32 { return float32(i * i % 97) }), wave(5000, func(int) float32 { return 4 })
	pairs := look(spec, a, other, b, flat, flat, a).Pairs()
	require.Len(t, pairs, 2, "exact repetitions and constant inputs are somebody else's: %v", pairs)
	require.Equal(t, [2]int{0, 2}, pairs[0].Labels)
	require.Empty(t, look(spec, a).Across(look(spec, other, flat, a)))
	require.Len(t, look(spec, a, other).Across(look(spec, b, flat)), 1)
	require.Empty(t, look(InputSpec{{Name: "i", DType: tensor.Int64}}, a).Pairs())

	// Both layouts of a picture make the same thumbnail.
	chw, hwc := make([]float32, 3*40*50), make([]float32, 3*40*50)
	for c := range 3 {
		for i := range 2000 {
			v := float32((i*(c+3) + i*i) % 251)
			chw[c*2000+i], hwc[i*3+c] = v, v
		}
	}
	require.Equal(t, shrunk(tensor.FromF32(chw, 1, 3, 40, 50), 32), shrunk(tensor.FromF32(hwc, 1, 40, 50, 3), 32))
	require.Len(t, shrunk(tensor.FromF32(chw, 1, 3, 40, 50), 8), 64)
}

// Repaint gives, to the bit, what reading with the preprocessing gives.
func TestRepaint(t *testing.T) {
	for _, spec := range []InputSpec{input("x", 1, 3, 8, 8), input("x", 1, 8, 8, 3), input("x", 1, 1, 8, 8)} {
		geometry, err := plan.Preset("imagenet-torch", 8)
		require.NoError(t, err)
		dir := t.TempDir()
		m := image.NewNRGBA(image.Rect(0, 0, 12, 11))
		for i := range m.Pix {
			m.Pix[i] = uint8(i*i%253) | uint8(i%4/3*255)
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.png"), b.Bytes(), 0o644))
		read := func(p plan.Preprocess) *exec.Sample {
			set, _, err := Open([]string{dir}, spec, Options{Preprocess: &p})
			require.NoError(t, err)
			require.True(t, set.Pictures())
			s, err := set.Sample(0)
			require.NoError(t, err)
			return s
		}
		plain := read(Pixels(geometry))
		list := Candidates(spec, geometry)
		want := 14
		if spec[0].Shape[1].N == 1 {
			want = 5 // neither means of three channels nor their order
		}
		require.Len(t, list, want)
		for i, c := range list {
			got, err := Repaint(spec, plain, c.Pre)
			require.NoError(t, err)
			require.Equal(t, read(c.Pre).Hash, got.Hash, c.Name)
			for _, d := range list[:i] {
				require.False(t, SamePixels(spec, c.Pre, d.Pre), "%s and %s", c.Name, d.Name)
			}
			if c.Flag[0] == '{' {
				back, err := plan.ParsePreprocess("flag", []byte(c.Flag))
				require.NoError(t, err, c.Flag)
				require.Equal(t, read(c.Pre).Hash, read(back).Hash, c.Flag)
			} else {
				back, err := Preprocessing(c.Flag, spec, nil)
				require.NoError(t, err)
				require.Equal(t, read(c.Pre).Hash, read(back).Hash, c.Flag)
			}
		}
	}
}
