package kerneltest

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// guard is Memory between pages that must not be touched: any access beyond a slice, reading included, ends the test. Slices
// end at a page's end or begin at its beginning.
type guard struct {
	t        *testing.T
	atFront  bool
	mappings [][]byte
}

func (g *guard) New(n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(g.NewBytes(4*n)))), n)
}

func (g *guard) NewBytes(n int) []byte {
	page := syscall.Getpagesize()
	size := max(page, (n+page-1)/page*page)
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(g.t, err)
	g.mappings = append(g.mappings, m)
	require.NoError(g.t, syscall.Mprotect(m[:page], syscall.PROT_NONE))
	require.NoError(g.t, syscall.Mprotect(m[page+size:], syscall.PROT_NONE))
	from := page + size - n
	if g.atFront {
		from = page
	}
	return m[from:][:n:n]
}

func (g *guard) Check() error {
	for _, m := range g.mappings {
		if err := syscall.Munmap(m); err != nil {
			return err
		}
	}
	g.mappings = nil
	return nil
}

// Rows in Go are bounds-checked by the language; those in assembly are not. What lies in front of a slice is guarded where tests may take
// long: rows read and write upwards.
func TestGuardPages(t *testing.T) {
	long := longtest.Wanted(t)
	sides := []bool{false}
	if long {
		sides = []bool{false, true}
	}
	guarded := func(t *testing.T, name string, table *kernels.Table, run func(Suite, *testing.T)) {
		for _, atFront := range sides {
			t.Run(name, func(t *testing.T) { run(Suite{table, &guard{t: t, atFront: atFront}, true, !long}, t) })
		}
	}
	for name, table := range Tables(cpu.Detect()) {
		if table.Rows()[kernels.OpGemm].ISA != "go" {
			guarded(t, name, table, Suite.Run)
		}
	}
	for name, table := range IntegerTables(cpu.Detect()) {
		if isa := table.Rows()[kernels.OpGemmU8S8].ISA; isa != "go" && isa != "saturating" {
			guarded(t, "integer "+name, table, Suite.RunInteger)
		}
	}
}
