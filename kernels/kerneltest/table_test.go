package kerneltest

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// The table of docs/adding-a-kernel-row.md names, for every operation, the instruction sets that have a row. A build knows those of its own
// architecture.
func TestTableOfRows(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "adding-a-kernel-row.md"))
	require.NoError(t, err)
	foreign := func(isa string) bool { return strings.HasPrefix(isa, "neon") != (runtime.GOARCH == "arm64") }
	_, table, found := strings.Cut(string(text), "| operations | instruction sets |\n")
	require.True(t, found)
	documented := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			break
		}
		for _, op := range strings.Split(cells[1], ",") {
			if op = strings.TrimSpace(op); op == "" || op[0] == '-' {
				continue
			}
			assert.NotContains(t, documented, op, "two lines")
			documented[op] = slices.DeleteFunc(strings.Fields(cells[2]), foreign)
		}
	}
	for _, r := range kernels.Select(cpu.Features{}).Rows() {
		var sets []string
		for _, row := range kernels.Rows() {
			if row.Op == r.Op && row.ISA != "go" {
				sets = append(sets, row.ISA)
			}
		}
		assert.Contains(t, documented, r.Op.String())
		if len(kernels.Rows()) > len(kernels.Select(cpu.Features{}).Rows()) { // not built with purego
			assert.ElementsMatch(t, sets, documented[r.Op.String()], "%v", r.Op)
		}
		delete(documented, r.Op.String())
	}
	assert.Empty(t, documented, "operations that there are no more")
}
