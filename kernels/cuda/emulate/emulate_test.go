package emulate

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// device is a driver with its context.
type device struct {
	*Driver
	c driver.Context
}

func newDevice(t testing.TB, arch int, options Options) device {
	d := Open(arch, options)
	c, err := d.PrimaryContext(0)
	require.NoError(t, err)
	return device{d, c}
}

func (d device) alloc(t testing.TB, bytes int) driver.Ptr {
	p, err := d.MemAlloc(d.c, bytes)
	require.NoError(t, err)
	return p
}

func (d device) upload(t testing.TB, data []byte) driver.Ptr {
	p := d.alloc(t, len(data))
	require.NoError(t, d.CopyToDevice(d.c, p, data, 0))
	return p
}

func (d device) download(t testing.TB, p driver.Ptr, n int) []byte {
	out := make([]byte, n)
	require.NoError(t, d.CopyToHost(d.c, out, p, 0))
	return out
}

func (d device) kernel(t testing.TB, text, name string) driver.Function {
	m, err := d.ModuleLoad(d.c, []byte(text))
	require.NoError(t, err)
	f, err := d.ModuleFunction(d.c, m, name)
	require.NoError(t, err)
	return f
}

// head begins a module with one kernel, whose parameters are addresses a, b, and a number n.
func ptx(arch int, globals, body string) string {
	return fmt.Sprintf(`.version 7.0
.target sm_%d
.address_size 64
%s
.visible .entry k(.param .u64 k_a, .param .u64 k_b, .param .u32 k_n)
{
	.reg .pred %%p<10>; .reg .b16 %%rs<20>; .reg .b32 %%r<60>; .reg .f32 %%f<20>; .reg .b64 %%rd<40>; .reg .f64 %%fd<20>;
	ld.param.u64 %%rd0, [k_a];
	ld.param.u64 %%rd1, [k_b];
	ld.param.u32 %%r0, [k_n];
	mov.u32 %%r1, %%tid.x;
%s
	ret;
}
`, arch, globals, body)
}

func params(a, b driver.Ptr, n int) []byte {
	p := binary.LittleEndian.AppendUint64(nil, uint64(a))
	p = binary.LittleEndian.AppendUint64(p, uint64(b))
	return binary.LittleEndian.AppendUint32(p, uint32(n))
}

// lanesOf runs a body on 32 threads: in32 or in64 is what thread i loads to %r2, %r3, %r4 or %rd2, %rd3, %rd4, and %r9 or %rd9 is
// what it stores.
func lanesOf[T uint32 | uint64](t testing.TB, arch int, body string, in [][3]T) []T {
	size := int(unsafe.Sizeof(T(0)))
	reg, bits := "r", 32
	if size == 8 {
		reg, bits = "rd", 64
	}
	text := ptx(arch, "", fmt.Sprintf(`
	mad.wide.u32 %%rd25, %%r1, %d, %%rd0;
	ld.global.b%[2]d %%%[3]s2, [%%rd25];
	ld.global.b%[2]d %%%[3]s3, [%%rd25+%[4]d];
	ld.global.b%[2]d %%%[3]s4, [%%rd25+%[5]d];
	mad.wide.u32 %%rd26, %%r1, %[4]d, %%rd1;
	%[6]s
	st.global.b%[2]d [%%rd26], %%%[3]s9;`, 3*size, bits, reg, size, 2*size, body))
	d := newDevice(t, arch, Checked)
	f := d.kernel(t, text, "k")
	var out []T
	for len(in) > 0 {
		n := min(len(in), warpSize)
		var data []byte
		for _, row := range in[:n] {
			for _, x := range row {
				if size == 4 {
					data = binary.LittleEndian.AppendUint32(data, uint32(x))
				} else {
					data = binary.LittleEndian.AppendUint64(data, uint64(x))
				}
			}
		}
		a, b := d.upload(t, data), d.alloc(t, n*size)
		require.NoError(t, d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: uint32(n), Y: 1, Z: 1}, 0, 0, params(a, b, n)),
			body)
		for p := d.download(t, b, n*size); len(p) > 0; p = p[size:] {
			if size == 4 {
				out = append(out, T(binary.LittleEndian.Uint32(p)))
			} else {
				out = append(out, T(binary.LittleEndian.Uint64(p)))
			}
		}
		in = in[n:]
	}
	return out
}

// unpacked is the PTX in a file.
func unpacked(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func TestCommittedPTXLoads(t *testing.T) {
	files, err := filepath.Glob("../ptx/*.ptx.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := unpacked(file)
		require.NoError(t, err)
		arch := 61
		if strings.Contains(file, "sm_80") {
			arch = 80
		} else if !strings.Contains(file, "sm_61") {
			continue // for devices that are not interpreted
		}
		_, err = load(string(text), arch, newMemory(1<<30))
		require.NoError(t, err, file)
	}
}

func TestCopyKernel(t *testing.T) {
	for _, arch := range []int{61, 80} {
		text, err := unpacked(fmt.Sprintf("../ptx/peak.sm_%d.ptx.gz", arch))
		require.NoError(t, err)
		d := newDevice(t, arch, Checked)
		f := d.kernel(t, string(text), "copy")
		src := make([]byte, 16*1000)
		for i := range src {
			src[i] = byte(i * 7)
		}
		a, b := d.upload(t, src), d.alloc(t, len(src))
		p := binary.LittleEndian.AppendUint64(params(a, b, 0)[:16], 1000)
		require.NoError(t, d.Launch(d.c, f, driver.Dim{X: 3, Y: 1, Z: 1}, driver.Dim{X: 256, Y: 1, Z: 1}, 0, 0, p))
		require.Equal(t, src, d.download(t, b, len(src)))
	}
}
