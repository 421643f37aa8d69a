//go:build !nocuda && linux && (amd64 || arm64) && !android

package drivertest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/stub.c
var source []byte

// Stub is a driver library of one test, with devices and memory of its own.
type Stub struct {
	Path string

	t                   testing.TB
	set, fail, get, log uintptr
}

// compiled keeps what compiling gave, by the macros.
var compiled sync.Map

type library struct {
	once sync.Once
	data []byte
	err  error
	log  []byte
}

// New compiles a stub with macros, such as STUB_DEVICES=2 or cuStreamEndCapture=left_out, and loads it. The test is skipped where
// there is no C compiler.
func New(t testing.TB, macros ...string) *Stub {
	t.Helper()
	s := &Stub{Path: Compile(t, macros...), t: t}
	handle, err := purego.Dlopen(s.Path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	for name, to := range map[string]*uintptr{"stub_set": &s.set, "stub_fail": &s.fail, "stub_get": &s.get, "stub_log": &s.log} {
		*to, err = purego.Dlsym(handle, name)
		require.NoError(t, err)
	}
	return s
}

// Compile is New without loading: it returns the path of the library, for another process.
func Compile(t testing.TB, macros ...string) string {
	t.Helper()
	compiler := ""
	for _, name := range []string{"cc", "gcc", "clang"} {
		if p, err := exec.LookPath(name); err == nil {
			compiler = p
			break
		}
	}
	if compiler == "" {
		t.Skip("no C compiler (cc, gcc, clang) to build the stub driver with")
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	v, _ := compiled.LoadOrStore(strings.Join(macros, " "), new(library))
	l := v.(*library)
	l.once.Do(func() {
		src := filepath.Join(filepath.Dir(path), "stub.c")
		if l.err = os.WriteFile(src, source, 0o600); l.err != nil {
			return
		}
		args := []string{"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", path}
		for _, m := range macros {
			args = append(args, "-D"+m)
		}
		if l.log, l.err = exec.Command(compiler, append(args, src, "-lpthread")...).CombinedOutput(); l.err != nil {
			return
		}
		l.data, l.err = os.ReadFile(path)
	})
	require.NoError(t, l.err, string(l.log))
	require.NoError(t, os.WriteFile(path, l.data, 0o700)) //nolint:gosec // a library
	return path
}

// Set changes how the stub behaves; stub.c says what there is.
func (s *Stub) Set(name string, value int) {
	text := append([]byte(name), 0)
	purego.SyscallN(s.set, uintptr(unsafe.Pointer(&text[0])), uintptr(value))
}

// Fail makes one call of a function fail: the next, or the one after so many.
func (s *Stub) Fail(call string, code, after int) {
	text := append([]byte(call), 0)
	purego.SyscallN(s.fail, uintptr(unsafe.Pointer(&text[0])), uintptr(code), uintptr(after))
}

// Live counts handles that were not given back: contexts, references (to the first device's context), modules, buffers, host,
// streams, events, graphs or execs.
func (s *Stub) Live(what string) int {
	text := append([]byte(what), 0)
	n, _, _ := purego.SyscallN(s.get, uintptr(unsafe.Pointer(&text[0])))
	return int(n)
}

// NothingLives fails the test where a handle was not given back.
func (s *Stub) NothingLives() {
	s.t.Helper()
	for _, what := range []string{"contexts", "references", "modules", "buffers", "host", "streams", "events", "graphs", "execs"} {
		require.Zero(s.t, s.Live(what), what)
	}
}

// Log returns the lines of the log that begin with a word, without it.
func (s *Stub) Log(word string) []string {
	n, _, _ := purego.SyscallN(s.log, 0, 0)
	text := make([]byte, n+1)
	purego.SyscallN(s.log, uintptr(unsafe.Pointer(&text[0])), n+1)
	var out []string
	for line := range strings.Lines(string(text[:n])) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), word+" "); ok {
			out = append(out, rest)
		}
	}
	return out
}
