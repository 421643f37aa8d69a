package cuda

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// paramBytes returns the size of the one parameter of a kernel as PTX declares it, in every architecture that has the kernel.
func paramBytes(t *testing.T, file, entry string) int {
	t.Helper()
	declared := regexp.MustCompile(`\.visible \.entry ` + entry + `\(\s*\.param \.align \d+ \.b8 ` + entry + `_param_0\[(\d+)\]\s*\)`)
	size := 0
	for _, arch := range []string{"sm_61", "sm_80", "sm_90a"} {
		text, err := readPTX(file + "." + arch)
		if err != nil {
			continue
		}
		m := declared.FindSubmatch(text)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(string(m[1]))
		require.NoError(t, err)
		require.True(t, size == 0 || n == size, "%s.%s takes %d bytes for %s and %d before", file, entry, n, arch, size)
		size = n
	}
	require.Positive(t, size, "%s has no kernel %s of one parameter", file, entry)
	return size
}

func TestPeakParameters(t *testing.T) {
	for _, k := range []peakKernel{peakMMA, peakWGMMA, peakDP4A, peakFMA} {
		assert.EqualValues(t, unsafe.Sizeof(peakCompute{}), paramBytes(t, k.file, k.entry), k.entry)
	}
	for _, entry := range []string{"copy", "read", "write"} {
		assert.EqualValues(t, unsafe.Sizeof(peakMove{}), paramBytes(t, "peak", entry), entry)
	}
}

// Every kernel has one parameter: a struct, or nothing at all would be checked against the Go type.
func TestKernelsHaveOneParameter(t *testing.T) {
	entries := regexp.MustCompile(`\.visible \.entry (\w+)\(([^)]*)\)`)
	files, err := ptxFiles.ReadDir("ptx")
	require.NoError(t, err)
	for _, f := range files {
		text, err := readPTX(strings.TrimSuffix(f.Name(), ".ptx.gz"))
		require.NoError(t, err)
		found := entries.FindAllSubmatch(text, -1)
		assert.NotEmpty(t, found, f.Name())
		for _, m := range found {
			assert.Regexp(t, `^\s*\.param \.align \d+ \.b8 \w+\[\d+\]\s*$`, string(m[2]), "%s of %s", m[1], f.Name())
		}
	}
}
