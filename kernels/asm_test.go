package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// The generator in _asm knows these numbers as constants.
func TestTileLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("assembly exists for 64-bit processors only")
	}
	var x tile
	var y strip
	for _, f := range []struct {
		name         string
		offset, want uintptr
	}{
		{"a", unsafe.Offsetof(x.a), 0}, {"panel", unsafe.Offsetof(x.panel), 24}, {"dst", unsafe.Offsetof(x.dst), 48},
		{"bias", unsafe.Offsetof(x.bias), 72}, {"segs", unsafe.Offsetof(x.segs), 96}, {"lda", unsafe.Offsetof(x.lda), 120},
		{"ldd", unsafe.Offsetof(x.ldd), 128}, {"cols", unsafe.Offsetof(x.cols), 144}, {"load", unsafe.Offsetof(x.load), 152},
		{"lo", unsafe.Offsetof(x.lo), 160}, {"hi", unsafe.Offsetof(x.hi), 164},
		{"strip", unsafe.Offsetof(x.strip), 224},
		{"rows", unsafe.Offsetof(x.rows), 136}, {"counts", unsafe.Offsetof(x.counts), 168}, {"floor", unsafe.Offsetof(x.floor), 192},
		{"side", unsafe.Offsetof(x.side), 196}, {"binZeros", BinZeros, 16}, {"binBlock", binBlock, 512},
		{"count", unsafe.Offsetof(y.count), 0}, {"stepA", unsafe.Offsetof(y.stepA), 8}, {"stepD", unsafe.Offsetof(y.stepD), 16},
		{"stepR", unsafe.Offsetof(y.stepR), 24}, {"secondA", unsafe.Offsetof(y.secondA), 32}, {"secondD", unsafe.Offsetof(y.secondD), 40},
		{"secondR", unsafe.Offsetof(y.secondR), 48}, {"ldr", unsafe.Offsetof(y.ldr), 56}, {"add", unsafe.Offsetof(y.add), 64},
		{"ahead", unsafe.Offsetof(y.ahead), 88},
		{"lanes", unsafe.Offsetof(x.lanes), 200}, {"mean", unsafe.Offsetof(x.mean), 208}, {"inv", unsafe.Offsetof(x.inv), 216},
		{"segment.n", unsafe.Offsetof(segment{}.n), 8}, {"segment", unsafe.Sizeof(segment{}), 16},
	} {
		assert.Equal(t, f.want, f.offset, f.name)
	}
}

// The committed assembly is what the generator writes.
func TestGenerated(t *testing.T) {
	longtest.Need(t, "builds the generator")
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command: cannot run the generator")
	}
	folder := t.TempDir()
	command := func(args ...string) (string, error) {
		c := exec.Command(goTool, args...)
		c.Env = append(os.Environ(), "GOOS=", "GOARCH=", "GOFLAGS=", "GOWORK=off")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := command("-C", "_asm", "list", "-deps", "."); err != nil {
		t.Skipf("the generator's modules cannot be had: %s", out)
	}
	out, err := command("-C", "_asm", "run", ".", "-folder", folder)
	require.NoError(t, err, out)
	generated, err := filepath.Glob(filepath.Join(folder, "z_*"))
	require.NoError(t, err)
	require.NotEmpty(t, generated)
	committed, err := filepath.Glob("z_*")
	require.NoError(t, err)
	require.Len(t, committed, len(generated), "files that the generator no longer writes, or new ones: run go generate")
	for _, file := range generated {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Base(file))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%s differs from what the generator writes: run go generate", filepath.Base(file))
	}
}
